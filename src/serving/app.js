// The page: from a dropped file to notes to see, to hear and to take away.

import { followJob, getInfo, getJson, remembered, sendSong } from "./api.js";
import { Player } from "./player.js";
import { Roll, clockText } from "./roll.js";

const DRUMS = 128;
const $ = (id) => document.getElementById(id);
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

const described = getInfo(() => ($("model").textContent = "The model is being loaded …")); // a file may be chosen before
let info = null;
let current = null; // {file, job, off, stop}: the song that is shown
let soundTimer = 0;

const roll = new Roll({
  box: $("roll"),
  notes: $("notes"),
  overview: $("overview"),
  playhead: $("playhead"),
  nothing: $("nothing"),
  onSeek: (seconds) => player.seek(seconds),
  onToggle: () => player.toggle(),
});
const player = new Player({
  onTime(seconds) {
    roll.setTime(seconds, true);
    $("now").textContent = clockText(seconds);
  },
  onPlaying(isPlaying) {
    $("play").classList.toggle("playing", isPlaying);
    $("play").setAttribute("aria-label", isPlaying ? "Pause" : "Play");
  },
  onWaiting(isWaiting) {
    $("sound-status").textContent = isWaiting ? "Making the sound …" : "";
  },
  onProblem: (text) => ($("sound-status").textContent = text),
});

const announce = (text) => ($("announcer").textContent = text);
const showProblem = (text) => {
  $("problem").textContent = text;
  $("problem").hidden = !text;
};
const showProgress = (share) => {
  $("progress").hidden = share === null;
  if (share === undefined) $("progress").removeAttribute("value");
  else if (share !== null) $("progress").value = share;
};

// A song

const settings = () => {
  const chosen = {};
  if ($("overlap").value !== "") chosen.overlap = $("overlap").value;
  if ($("subtask").value !== "") chosen.subtask = $("subtask").value;
  return chosen;
};

const begin = (name, file) => {
  current?.stop();
  current = { file, job: null, off: new Set(), stop: () => {} };
  showProblem("");
  document.body.classList.add("has-song");
  $("drop-title").textContent = "Drop another song";
  $("work").hidden = false;
  $("title").textContent = name;
  $("status").textContent = "";
  $("remarks").hidden = true;
  $("score").hidden = true;
  $("tools").hidden = true;
  $("again").hidden = true;
  $("cancel").textContent = "Cancel";
  $("shortest").value = 0;
  showShortest();
  for (const input of $("hear").querySelectorAll("input")) input.disabled = input.value !== "song";
  $("hear").querySelector("input").checked = true;
  showProgress(undefined);
};

const transcribe = async (file) => {
  if (!info) $("bounds").textContent = `${file.name} is sent as soon as the model is loaded.`;
  try {
    info = await described;
  } catch (error) {
    showProblem(error.message);
    return;
  }
  if (file.size > info.max_bytes) {
    showProblem(`${file.name} is larger than ${Math.floor(info.max_bytes / 2 ** 20)} MiB. Choose a shorter or compressed file.`);
    return;
  }
  if (!file.size) {
    showProblem(`${file.name} is empty.`);
    return;
  }
  begin(file.name, file);
  const mine = current;
  $("status").textContent = "Sending …";
  announce(`Sending ${file.name}`);
  try {
    const job = await sendSong(file, settings(), {
      started: (stop) => (mine.stop = stop),
      progress: (share) => current === mine && showProgress(share),
    });
    if (current !== mine) return;
    remembered.write([{ id: job.id, name: job.name }, ...remembered.read()]);
    show(job);
  } catch (error) {
    if (current === mine) close(error.name === "AbortError" ? "" : `${file.name}: ${error.message}`);
  }
};

// Everything about a job that the server knows: the roll fills as its notes come.
const show = (job) => {
  history.replaceState(null, "", `#${job.id}`);
  current.job = job;
  roll.reset(job.duration, info.drum_lanes);
  $("now").textContent = "0:00";
  $("length").textContent = clockText(job.duration);
  $("score").hidden = false;
  $("play").disabled = false;
  player.setSong(current.file, `/api/jobs/${job.id}/song`);
  roll.setFilter(isWanted);
  const mine = current;
  let sent = 0;
  current.stop = followJob(job.id, {
    notes(notes) {
      sent += notes.length;
      roll.add(notes);
    },
    job: (news) => current === mine && update(news),
    lost(isOver) {
      if (current !== mine) return;
      if (isOver) close("The server does not know this song any more. Choose the file again.");
      else $("status").textContent = "The server does not answer; trying again …";
    },
  });
  update(job);
  listEarlier();
};

const update = (job) => {
  const before = current.job.state;
  current.job = job;
  const { done, total } = job.windows;
  const isOver = !["waiting", "running"].includes(job.state);
  roll.setColours(new Map(job.instruments.map((one) => [one.program, one.colour])));
  roll.setReady(job.state === "done" ? job.duration : total ? (done / total) * job.duration : 0);
  if (job.state === "waiting") {
    showProgress(undefined);
    $("status").textContent = job.ahead ? `Waiting: ${plural(job.ahead, "song")} before this one` : "Waiting for its turn";
  } else if (job.state === "running") {
    showProgress(total ? done / total : undefined);
    const share = total ? `${Math.round((100 * done) / total)} %, ` : "";
    $("status").textContent = `Transcribing: ${share}${plural(job.notes, "note")} so far`;
  } else if (job.state === "done") {
    finish(job);
  } else {
    close(job.state === "failed" ? `${job.name} could not be transcribed: ${job.error}` : "");
  }
  if (job.state !== before || isOver) announce($("status").textContent || $("problem").textContent);
};

const finish = (job) => {
  showProgress(null);
  const rate = job.duration / job.elapsed;
  const speed = job.elapsed ? `, ${rate >= 10 ? Math.round(rate) : rate.toFixed(1)} times real time` : "";
  const faults = job.malformed ? `, ${plural(job.malformed, "malformed token")} dropped` : "";
  $("status").textContent = `${plural(job.notes, "note")} in ${clockText(job.duration)}${speed}${faults}`;
  $("remarks").hidden = !job.remarks.length;
  $("remarks").replaceChildren(...job.remarks.map((text) => make("li", { textContent: text })));
  $("cancel").textContent = "Remove";
  $("again").hidden = !current.file;
  $("tools").hidden = false;
  listInstruments(job.instruments);
  refilter(0);
  for (const input of $("hear").querySelectorAll("input")) input.disabled = false;
  listEarlier();
};

// Back to the empty page, with a word why.
const close = (problem) => {
  current?.stop();
  player.pause();
  current = null;
  document.body.classList.remove("has-song");
  $("drop-title").textContent = "Drop a song here";
  $("work").hidden = true;
  history.replaceState(null, "", location.pathname);
  showProblem(problem);
  listEarlier();
};

const remove = async (id) => {
  remembered.write(remembered.read().filter((song) => song.id !== id));
  try {
    await getJson(`/api/jobs/${id}`, { method: "DELETE" });
  } catch (error) {
    if (error.status !== 404) showProblem(error.message);
  }
  listEarlier();
};

// The filter: what the roll shows is what is heard and downloaded.

const keyOf = (note) => (note.is_drum ? DRUMS : note.program);
const isWanted = (note) =>
  !current?.off.has(keyOf(note)) && (note.is_drum || note.offset - note.onset >= $("shortest").value / 1000 - 1e-9);

const refilter = (delay = 300) => {
  if (current?.job?.state !== "done") return;
  const { job, off } = current;
  roll.setFilter(isWanted);
  const query = new URLSearchParams();
  if (off.size) query.set("programs", job.instruments.map((one) => one.program).filter((one) => !off.has(one)).join(","));
  if ($("shortest").value > 0) query.set("min_note_ms", $("shortest").value);
  const address = (part) => `/api/jobs/${job.id}/${part}${query.size ? `?${query}` : ""}`;
  for (const part of ["midi", "json", "csv", "audio"]) $(`get-${part}`).href = address(part);
  $("shown").textContent = `${roll.shown} of ${plural(job.notes, "note")}`;
  clearTimeout(soundTimer);
  const setSound = () => player.setTranscription(address("audio"));
  if (delay) soundTimer = setTimeout(setSound, delay); // who moves the slider wants one sound, not twenty
  else setSound();
};

const showShortest = () => ($("shortest-text").textContent = `${$("shortest").value} ms`);

const make = (tag, values = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), values);
  element.append(...children);
  return element;
};

const listInstruments = (instruments) => {
  const rows = instruments.map((one) => {
    const input = make("input", { type: "checkbox", checked: !current.off.has(one.program), value: one.program });
    input.addEventListener("change", () => {
      if (input.checked) current.off.delete(one.program);
      else current.off.add(one.program);
      refilter();
    });
    const swatch = make("span", { className: "swatch" });
    swatch.style.setProperty("--colour", one.colour);
    const count = make("span", { className: "count quiet", textContent: one.notes });
    return make("li", {}, make("label", {}, input, swatch, one.name, count));
  });
  $("instrument-list").replaceChildren(...(rows.length ? rows : [make("li", { className: "quiet", textContent: "None were heard" })]));
};

const chooseAll = (isOn) => {
  current.off = new Set(isOn ? [] : current.job.instruments.map((one) => one.program));
  listInstruments(current.job.instruments);
  refilter();
};

// Earlier songs

let listing = 0; // of several lists on their way only the last counts: an older one may hold a removed song

const listEarlier = async () => {
  const mine = ++listing;
  const songs = remembered.read();
  const found = await Promise.all(
    songs.map(({ id }) => getJson(`/api/jobs/${id}`).catch((error) => (error.status === 404 ? "gone" : null))),
  );
  remembered.write(remembered.read().filter(({ id }) => found[songs.findIndex((song) => song.id === id)] !== "gone"));
  if (mine !== listing) return;
  const jobs = found.filter((job) => job && job !== "gone" && job.id !== current?.job?.id);
  const rows = jobs.map((job) => {
    const open = make("button", { type: "button", className: "open", textContent: job.name });
    open.addEventListener("click", () => reopen(job));
    const drop = make("button", { type: "button", textContent: job.state === "done" ? "Remove" : "Cancel" });
    drop.setAttribute("aria-label", `${drop.textContent} ${job.name}`);
    drop.addEventListener("click", () => remove(job.id));
    const word = job.state === "done" ? plural(job.notes, "note") : job.state;
    return make("li", {}, open, make("span", { className: "quiet", textContent: word }), drop);
  });
  $("earlier-list").replaceChildren(...rows);
  $("earlier").hidden = !rows.length;
};

const reopen = (job) => {
  if (job.state === "failed") {
    showProblem(`${job.name} could not be transcribed: ${job.error}`);
    return;
  }
  begin(job.name, null);
  show(job);
  scrollTo({ top: 0 });
};

// Wiring

$("file").addEventListener("change", () => {
  const [file] = $("file").files;
  if (file) transcribe(file);
  $("file").value = ""; // so that the same file can be chosen again
});
let depth = 0; // entering a child comes before leaving its parent
const carriesFile = (event) => event.dataTransfer?.types.includes("Files");
addEventListener("dragenter", (event) => carriesFile(event) && (event.preventDefault(), ($("veil").hidden = ++depth === 0)));
addEventListener("dragleave", (event) => carriesFile(event) && ($("veil").hidden = --depth <= 0));
addEventListener("dragover", (event) => carriesFile(event) && event.preventDefault());
addEventListener("drop", (event) => {
  if (!carriesFile(event)) return;
  event.preventDefault();
  depth = 0;
  $("veil").hidden = true;
  const [file] = event.dataTransfer.files;
  if (file) transcribe(file);
});
$("cancel").addEventListener("click", () => {
  const id = current?.job?.id;
  close("");
  announce("Stopped");
  if (id) remove(id);
});
$("again").addEventListener("click", () => transcribe(current.file));
$("play").addEventListener("click", () => player.toggle());
$("hear").addEventListener("change", (event) => player.setMode(event.target.value));
$("zoom-in").addEventListener("click", () => roll.zoom(0.5));
$("zoom-out").addEventListener("click", () => roll.zoom(2));
$("zoom-all").addEventListener("click", () => roll.showAll());
$("all").addEventListener("click", () => chooseAll(true));
$("none").addEventListener("click", () => chooseAll(false));
$("shortest").addEventListener("input", () => {
  showShortest();
  refilter();
});

const start = async () => {
  info = await described;
  const name = [info.experiment, info.checkpoint].filter(Boolean).join(", ");
  $("model").textContent = `${name} · ${info.task} · ${info.device}`;
  $("bounds").textContent = `WAV, FLAC, MP3, OGG and others, up to ${+(info.max_seconds / 60).toFixed(1)} minutes and ${Math.floor(info.max_bytes / 2 ** 20)} MiB. Nothing leaves this server.`;
  const shares = [...new Set([0, 0.25, 0.5, 0.75, info.overlap])].sort((a, b) => a - b);
  $("overlap").replaceChildren(
    ...shares.map((share) => make("option", { value: share, textContent: `${Math.round(share * 100)} %`, selected: share === info.overlap })),
  );
  $("subtask-field").hidden = info.subtasks.length < 2;
  $("subtask").replaceChildren(
    ...info.subtasks.map((task) => make("option", { value: task, textContent: task, selected: task === info.subtask })),
  );
  const id = location.hash.slice(1);
  if (/^[\w-]+$/.test(id)) {
    const job = await getJson(`/api/jobs/${id}`).catch(() => null);
    if (job && !current) reopen(job);
  }
  await listEarlier();
};
start().catch((error) => showProblem(error.message));
