// What the page asks of the server.

const problemOf = (status, text) => {
  try {
    return JSON.parse(text).error;
  } catch {
    return status ? `The server answered with an error (${status}).` : "The server does not answer. Is it still running?";
  }
};

export const getJson = async (path, options = {}) => {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error(problemOf(0, ""));
  }
  const text = await answer.text();
  if (!answer.ok) throw Object.assign(new Error(problemOf(answer.status, text)), { status: answer.status });
  return JSON.parse(text);
};

// What the server says of itself, once its model is loaded; `waiting` gets its words until then.
export const getInfo = async (waiting) => {
  for (;;) {
    try {
      return await getJson("/api/info");
    } catch (error) {
      if (error.status !== 503) throw error;
      waiting(error.message);
    }
    await new Promise((done) => setTimeout(done, 500));
  }
};

// Sends a file; `started` gets the way to stop, `progress` a share between 0 and 1.
export const sendSong = (file, settings, { started, progress }) =>
  new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const query = new URLSearchParams({ name: file.name, ...settings });
    request.open("POST", `/api/transcribe?${query}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", (event) => event.total && progress(event.loaded / event.total));
    request.addEventListener("load", () => {
      if (request.status === 202) resolve(JSON.parse(request.responseText));
      else reject(new Error(problemOf(request.status, request.responseText)));
    });
    request.addEventListener("error", () => reject(new Error(problemOf(0, ""))));
    request.addEventListener("abort", () => reject(new DOMException("stopped", "AbortError")));
    request.send(file);
    started(() => request.abort());
  });

// Follows a job to its end; the browser connects again by itself. Returns the way to stop.
export const followJob = (id, { job, notes, lost }) => {
  const source = new EventSource(`/api/jobs/${id}/events`);
  source.addEventListener("notes", (event) => notes(JSON.parse(event.data).notes));
  source.addEventListener("job", (event) => {
    const said = JSON.parse(event.data);
    if (!["waiting", "running"].includes(said.state)) source.close();
    job(said);
  });
  source.addEventListener("error", () => lost(source.readyState === EventSource.CLOSED));
  return () => source.close();
};

// Ids of the songs this browser sent, the newest first.
export const remembered = {
  read() {
    try {
      return JSON.parse(localStorage.getItem("amt-songs")) ?? [];
    } catch {
      return [];
    }
  },
  write(songs) {
    try {
      localStorage.setItem("amt-songs", JSON.stringify(songs.slice(0, 12)));
    } catch {
      // Without storage there is no list of earlier songs.
    }
  },
};
