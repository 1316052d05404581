// Two sounds that play together, of which one or both are heard: the song, and its transcription.

const DRIFT = 0.06; // seconds by which the two may part

export class Player {
  #song = new Audio();
  #other = new Audio(); // the transcription
  #otherUrl = null; // what it should play
  #fallback = null; // the server's copy, for files this browser cannot play
  #objectUrl = null;
  #mode = "song";
  #isPlaying = false;
  #isSongBroken = false;
  #time = 0;
  #frame = 0;

  constructor({ onTime, onPlaying, onWaiting, onProblem }) {
    Object.assign(this, { onTime, onPlaying, onWaiting, onProblem });
    for (const sound of [this.#song, this.#other]) {
      sound.preload = "auto";
      sound.addEventListener("ended", () => sound === this.#clock && this.pause());
      sound.addEventListener("loadedmetadata", () => {
        sound.currentTime = this.#time;
        if (this.#isPlaying) this.#start(sound);
      });
    }
    this.#other.addEventListener("canplay", () => this.#apply());
    this.#song.addEventListener("error", () => this.#songFailed());
    this.#other.addEventListener("error", () => this.#other.getAttribute("src") && this.onProblem("The transcription cannot be played."));
  }

  // The song is the user's own file where there is one, else the server's copy of it.
  setSong(file, fallback) {
    this.pause();
    this.#time = 0;
    this.#isSongBroken = false;
    this.#fallback = file ? fallback : null;
    if (this.#objectUrl) URL.revokeObjectURL(this.#objectUrl);
    this.#objectUrl = file ? URL.createObjectURL(file) : null;
    this.#song.src = this.#objectUrl ?? fallback;
    this.#otherUrl = null;
    this.#other.removeAttribute("src");
    this.setMode("song");
  }

  // Fetched when it is to be heard: the server makes it then.
  setTranscription(url) {
    this.#otherUrl = url;
    this.#load();
  }

  setMode(mode) {
    this.#mode = mode;
    this.#load();
    this.#apply();
  }

  toggle() {
    if (this.#isPlaying) this.pause();
    else this.play();
  }

  play() {
    this.#isPlaying = true;
    if (this.#time >= (this.#clock.duration || Infinity) - 0.05) this.seek(0);
    for (const sound of [this.#song, this.#other]) if (sound.readyState > 0) this.#start(sound);
    this.onPlaying(true);
    this.#tick();
  }

  pause() {
    this.#isPlaying = false;
    this.#song.pause();
    this.#other.pause();
    this.onPlaying(false);
  }

  seek(seconds) {
    this.#time = seconds;
    for (const sound of [this.#song, this.#other]) if (sound.readyState > 0) sound.currentTime = seconds;
    this.onTime(seconds);
  }

  get #clock() {
    return this.#isSongBroken ? this.#other : this.#song;
  }

  get #isOtherReady() {
    return this.#other.readyState >= 2 && this.#other.getAttribute("src") === this.#otherUrl;
  }

  #load() {
    if (this.#otherUrl && this.#mode !== "song" && this.#other.getAttribute("src") !== this.#otherUrl) {
      this.#other.src = this.#otherUrl;
    }
    this.#apply();
  }

  // Until the transcription is there, the song is heard.
  #apply() {
    const isWaiting = this.#mode !== "song" && !this.#isOtherReady;
    this.#song.muted = this.#mode === "transcription" && !isWaiting;
    this.#other.muted = this.#mode === "song";
    this.onWaiting(isWaiting && Boolean(this.#otherUrl));
  }

  #start(sound) {
    sound.play().catch((error) => {
      if (error.name === "NotAllowedError") this.pause();
    });
  }

  #songFailed() {
    if (!this.#song.getAttribute("src")) return;
    this.#isSongBroken = true;
    if (!this.#fallback) return;
    this.#song.src = this.#fallback;
    this.#fallback = null;
    this.#isSongBroken = false;
  }

  #tick() {
    if (!this.#isPlaying) return;
    const clock = this.#clock;
    if (clock.readyState > 0) this.#time = clock.currentTime;
    if (clock !== this.#other && this.#isOtherReady && !this.#other.seeking && !this.#other.ended) {
      if (Math.abs(this.#other.currentTime - this.#time) > DRIFT) this.#other.currentTime = this.#time;
    }
    this.onTime(this.#time);
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#tick());
  }
}
