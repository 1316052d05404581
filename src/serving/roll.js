// The piano roll: a canvas that shows a part of the song, and above it one that shows all of it.

const GUTTER = 44; // pixels for the names of notes
const RULER = 20; // pixels for the seconds
const LANE = 13; // pixels of a row of drums
const SHORTEST_VIEW = 1.5; // seconds
const FIRST_VIEW = 30; // seconds that are seen at first of a long song
const NAMES = ["C", "C♯", "D", "E♭", "E", "F", "F♯", "G", "A♭", "A", "B♭", "B"];
const DARK_KEYS = new Set([1, 3, 6, 8, 10]);
const TICKS = [0.25, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600];

export const clockText = (seconds) => {
  const whole = Math.max(0, Math.floor(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
};

const nameOf = (pitch) => `${NAMES[pitch % 12]}${Math.floor(pitch / 12) - 1}`;

// The colours are made for white paper; on dark paper they are mixed with white, as the style sheet says.
const lightened = (colour, share) => {
  const parts = [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16));
  return `rgb(${parts.map((part) => Math.round(part + (255 - part) * share)).join(" ")})`;
};

export class Roll {
  #notes = [];
  #colours = new Map();
  #lanes = [];
  #wanted = () => true;
  #shown = [];
  #duration = 0;
  #ready = 0;
  #time = 0;
  #start = 0;
  #span = FIRST_VIEW;
  #isMoved = false; // by the user, who is then not carried along
  #isDrawn = true;

  constructor({ box, notes, overview, playhead, nothing, onSeek, onToggle }) {
    Object.assign(this, { box, notes, overview, playhead, nothing, onSeek, onToggle });
    new ResizeObserver(() => this.#redraw()).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#redraw());
    box.addEventListener("pointerdown", (event) => this.#press(event));
    box.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    box.addEventListener("keydown", (event) => this.#key(event));
    overview.addEventListener("pointerdown", (event) => this.#drag(event));
    overview.addEventListener("pointermove", (event) => event.buttons && this.#drag(event));
  }

  reset(duration, lanes) {
    this.#notes = [];
    this.#lanes = lanes;
    this.#duration = duration;
    this.#ready = this.#time = this.#start = 0;
    this.#span = Math.min(Math.max(duration, SHORTEST_VIEW), FIRST_VIEW);
    this.#isMoved = false;
    this.box.setAttribute("aria-valuemax", duration.toFixed(1));
    this.setTime(0);
    this.#redraw();
  }

  add(notes) {
    this.#notes.push(...notes);
    this.#redraw();
  }

  // How far the song is transcribed, in seconds.
  setReady(seconds) {
    this.#ready = Math.min(seconds, this.#duration);
    if (!this.#isMoved) {
      if (this.#ready >= this.#duration) this.#look(0);
      else if (this.#ready > this.#start + this.#span) this.#look(this.#ready - this.#span * 0.9);
    }
    this.#redraw();
  }

  setColours(colours) {
    this.#colours = colours;
    this.#redraw();
  }

  setFilter(wanted) {
    this.#wanted = wanted;
    this.#redraw();
  }

  get shown() {
    return this.#notes.filter(this.#wanted).length;
  }

  setTime(seconds, follow = false) {
    this.#time = seconds;
    if (follow && (seconds < this.#start || seconds > this.#start + this.#span)) this.#look(seconds - this.#span * 0.05);
    this.box.setAttribute("aria-valuenow", seconds.toFixed(1));
    this.box.setAttribute("aria-valuetext", `${clockText(seconds)} of ${clockText(this.#duration)}`);
    this.#placePlayhead();
  }

  zoom(factor, around = null) {
    const middle = around ?? (this.#isSeen(this.#time) ? this.#time : this.#start + this.#span / 2);
    const share = (middle - this.#start) / this.#span;
    this.#isMoved = true;
    this.#span = Math.min(Math.max(this.#span * factor, SHORTEST_VIEW), Math.max(this.#duration, SHORTEST_VIEW));
    this.#look(middle - share * this.#span);
  }

  showAll() {
    this.#isMoved = true;
    this.#span = Math.max(this.#duration, SHORTEST_VIEW);
    this.#look(0);
  }

  #isSeen(seconds) {
    return seconds >= this.#start && seconds <= this.#start + this.#span;
  }

  #look(start) {
    this.#start = Math.min(Math.max(start, 0), Math.max(this.#duration - this.#span, 0));
    this.#redraw();
  }

  #seconds(x) {
    return this.#start + ((x - GUTTER) / (this.box.clientWidth - GUTTER)) * this.#span;
  }

  #press(event) {
    if (event.button !== 0) return;
    const x = event.clientX - this.box.getBoundingClientRect().left;
    this.onSeek(Math.min(Math.max(this.#seconds(x), 0), this.#duration));
  }

  #drag(event) {
    const { left, width } = this.overview.getBoundingClientRect();
    this.overview.setPointerCapture(event.pointerId);
    this.#isMoved = true;
    this.#look(((event.clientX - left - GUTTER) / (width - GUTTER)) * this.#duration - this.#span / 2);
  }

  #wheel(event) {
    if (event.ctrlKey) {
      event.preventDefault();
      const x = event.clientX - this.box.getBoundingClientRect().left;
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.#seconds(x));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.#isMoved = true;
      this.#look(this.#start + ((event.deltaX || event.deltaY) / this.box.clientWidth) * this.#span);
    }
  }

  #key(event) {
    const step = event.shiftKey ? 1 : 5;
    const moves = {
      ArrowLeft: this.#time - step,
      ArrowDown: this.#time - step,
      ArrowRight: this.#time + step,
      ArrowUp: this.#time + step,
      PageDown: this.#time - 30,
      PageUp: this.#time + 30,
      Home: 0,
      End: this.#duration,
    };
    if (event.key in moves) this.onSeek(Math.min(Math.max(moves[event.key], 0), this.#duration));
    else if (event.key === " ") this.onToggle();
    else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else return;
    event.preventDefault();
  }

  #redraw() {
    if (!this.#isDrawn) return;
    this.#isDrawn = false;
    requestAnimationFrame(() => {
      this.#isDrawn = true;
      this.#draw();
    });
  }

  #draw() {
    const style = getComputedStyle(document.documentElement);
    const paint = (name) => style.getPropertyValue(name).trim();
    const share = parseFloat(paint("--lighten")) / 100;
    const colours = new Map([...this.#colours].map(([key, value]) => [key, lightened(value, share)]));
    const notes = this.#notes.filter(this.#wanted);
    this.nothing.hidden = notes.length > 0 || this.#ready < this.#duration || this.#duration === 0;
    const lanes = this.#lanes.filter((lane) => this.#notes.some((note) => note.is_drum && this.#lane(note) === lane));
    const pitches = this.#notes.filter((note) => !note.is_drum).map((note) => note.pitch);
    let low = Math.min(...pitches, 127) - 2;
    let high = Math.max(...pitches, 0) + 2;
    if (!pitches.length) [low, high] = [48, 72];
    const missing = Math.max(23 - (high - low), 0);
    [low, high] = [low - Math.floor(missing / 2), high + Math.ceil(missing / 2)];
    this.#drawView(paint, colours, notes, lanes, low, high);
    this.#drawOverview(paint, colours, notes, low, high);
    this.#placePlayhead();
  }

  #lane(note) {
    return this.#lanes.find((lane) => lane.pitches.includes(note.pitch)) ?? this.#lanes.at(-1);
  }

  #canvas(canvas) {
    const scale = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    return [context, width, height];
  }

  #drawView(paint, colours, notes, lanes, low, high) {
    const [context, width, height] = this.#canvas(this.notes);
    if (!width || !height) return;
    const bottom = height - (lanes.length ? lanes.length * LANE + 8 : 0);
    const rows = high - low + 1;
    const row = (bottom - RULER) / rows;
    const y = (pitch) => RULER + (high - pitch) * row;
    const x = (seconds) => GUTTER + ((seconds - this.#start) / this.#span) * (width - GUTTER);
    const stop = this.#start + this.#span;

    context.fillStyle = paint("--roll");
    context.fillRect(0, 0, width, height);
    context.font = "10.5px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (let pitch = low; pitch <= high; pitch++) {
      const place = pitch % 12;
      if (DARK_KEYS.has(place)) {
        context.fillStyle = paint("--roll-dark-key");
        context.fillRect(GUTTER, y(pitch), width - GUTTER, row);
      }
      if (place === 0) {
        context.fillStyle = paint("--roll-octave");
        context.fillRect(GUTTER, y(pitch) + row - 0.5, width - GUTTER, 1);
      }
      if (place === 0 || (row >= 12 && !DARK_KEYS.has(place))) {
        context.fillStyle = paint("--quiet");
        context.textAlign = "right";
        context.fillText(nameOf(pitch), GUTTER - 8, y(pitch) + row / 2);
      }
    }
    if (this.#ready < this.#duration) {
      context.fillStyle = paint("--roll-todo");
      const from = Math.max(x(this.#ready), GUTTER);
      context.fillRect(from, RULER, Math.max(width - from, 0), height - RULER);
    }

    const tick = TICKS.find((seconds) => (seconds / this.#span) * (width - GUTTER) >= 64) ?? 1200;
    context.textAlign = "left";
    for (let time = Math.ceil(this.#start / tick) * tick; time <= stop; time += tick) {
      context.fillStyle = paint("--roll-line");
      context.fillRect(Math.round(x(time)), RULER - 5, 1, height - RULER + 5);
      context.fillStyle = paint("--quiet");
      const part = tick < 1 ? (time % 1).toFixed(2).slice(1) : "";
      if (x(time) < width - 30) context.fillText(clockText(time) + part, x(time) + 4, RULER / 2);
    }
    lanes.forEach((lane, number) => {
      context.fillStyle = paint("--quiet");
      context.textAlign = "right";
      context.fillText(lane.name, GUTTER - 6, bottom + 8 + (number + 0.5) * LANE);
    });
    if (lanes.length) {
      context.fillStyle = paint("--roll-octave");
      context.fillRect(0, bottom + 3, width, 1);
    }

    context.save();
    context.beginPath();
    context.rect(GUTTER, 0, width - GUTTER, height);
    context.clip();
    for (const note of notes) {
      if (note.offset < this.#start || note.onset > stop) continue;
      context.fillStyle = colours.get(note.is_drum ? 128 : note.program) ?? paint("--accent");
      const left = x(note.onset);
      context.beginPath();
      if (note.is_drum) {
        const middle = bottom + 8 + (lanes.indexOf(this.#lane(note)) + 0.5) * LANE;
        context.roundRect(left - 1.5, middle - 4, 4, 8, 1.5);
      } else {
        const gap = row > 6 ? 1 : 0.25;
        context.roundRect(left, y(note.pitch) + gap, Math.max(x(note.offset) - left - 0.5, 2), Math.max(row - 2 * gap, 2), Math.min(3, row / 3));
      }
      context.fill();
    }
    context.restore();
  }

  #drawOverview(paint, colours, notes, low, high) {
    const [context, width, height] = this.#canvas(this.overview);
    if (!width || !this.#duration) return;
    const x = (seconds) => GUTTER + (seconds / this.#duration) * (width - GUTTER);
    const row = (height - 8) / (high - low + 1);
    context.fillStyle = paint("--roll");
    context.fillRect(0, 0, width, height);
    context.fillStyle = paint("--roll-todo");
    context.fillRect(x(this.#ready), 0, width - x(this.#ready), height);
    for (const note of notes) {
      context.fillStyle = colours.get(note.is_drum ? 128 : note.program) ?? paint("--accent");
      const top = note.is_drum ? height - 5 : 4 + (high - note.pitch) * row;
      context.fillRect(x(note.onset), top, Math.max(x(note.is_drum ? note.onset : note.offset) - x(note.onset), 1), Math.max(row, 1.5));
    }
    if (this.#span < this.#duration - 1e-6) {
      context.strokeStyle = paint("--accent");
      context.lineWidth = 1.5;
      context.strokeRect(x(this.#start) + 1, 1, Math.max(x(this.#span) - GUTTER - 2, 3), height - 2);
    }
  }

  #placePlayhead() {
    const width = this.box.clientWidth - GUTTER;
    const place = GUTTER + ((this.#time - this.#start) / this.#span) * width;
    this.playhead.hidden = !this.#isSeen(this.#time) || !this.#duration;
    this.playhead.style.transform = `translateX(${place.toFixed(1)}px)`;
  }
}
