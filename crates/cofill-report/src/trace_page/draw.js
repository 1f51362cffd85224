// Traces drawn: cells that fill, arcs from whoever waits, numbers of a step, a strip, and controls. The page of one trace (trace.js) and the
// page of a server are made of these. Text of a trace becomes text nodes, never markup.

import { visible, number, list, count } from "./state.js";

const SVG = "http://www.w3.org/2000/svg";
const DRAWN = new Set(["svg", "path", "line", "polyline"]);

function element(tag, attributes = {}, ...children) {
  const made = DRAWN.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// ---- what is under the pointer, or has the focus

class Tip {
  constructor() {
    this.box = element("div", { id: "tip", role: "tooltip", hidden: "" });
    document.body.append(this.box);
  }

  show(near, sentences) {
    const { box } = this;
    box.replaceChildren(...sentences.map((sentence) => element("p", {}, sentence)));
    box.hidden = false;
    const margin = 8;
    const left = Math.min(near.left, window.innerWidth - box.offsetWidth - margin);
    const below = near.bottom + margin;
    const top = below + box.offsetHeight < window.innerHeight ? below : Math.max(near.top - box.offsetHeight - margin, margin);
    box.style.left = `${Math.max(left, margin)}px`;
    box.style.top = `${top}px`;
  }

  hide() {
    this.box.hidden = true;
  }
}

// ---- the canvas: one cell per position, and arcs over them

const FOLD = 160; // a longer prompt is folded, but for the line of the first mask

class Sheet {
  // `pick` is called with a position that was clicked; `marks` gives more classes for a position, `more` more to say of it in a frame. A page that has none only shows.
  constructor(stage, tip, { pick, marks, more } = {}) {
    Object.assign(this, { stage, tip, pick, marks, more, frame: 0, cells: [], reasons: [] });
    this.canvas = element("div", { class: "canvas" });
    this.layer = element("svg", { class: "arcs", "aria-hidden": "true" });
    stage.append(this.canvas, this.layer);
    for (const kind of ["pointerover", "click", "focusin"]) stage.addEventListener(kind, (event) => this.tell(event));
    for (const kind of ["pointerleave", "focusout"]) stage.addEventListener(kind, () => tip.hide());
    if (pick) this.listen();
    new ResizeObserver(() => this.arcs()).observe(stage);
  }

  load(replay) {
    this.replay = replay;
    this.canvas.classList.toggle("large", replay.length > 600); // too many to fade
    this.cells = replay.given.map((_, position) => made(position));
    const first = Math.max(replay.masked.indexOf(true), 0);
    let folded = first > FOLD ? first - 1 : 0;
    while (folded > first - FOLD / 2 && folded > 0 && !replay.given[folded - 1].endsWith("\n")) folded -= 1;
    const hide = (hidden) => this.cells.slice(0, folded).forEach(({ cell, line }) => (cell.hidden = line.hidden = hidden));
    const more = element("button", { type: "button", class: "more", "aria-expanded": "false" }, `… ${folded} given positions before`);
    more.addEventListener("click", () => {
      hide(false);
      more.remove();
      this.arcs();
    });
    hide(true);
    this.canvas.replaceChildren(...(folded ? [more] : []), ...this.cells.flatMap(({ cell, line }) => [cell, line]));
  }

  show(frame) {
    this.frame = frame;
    while (this.cells.length < this.replay.length) {
      const { cell, line } = this.cells[this.cells.push(made(this.cells.length)) - 1]; // the canvas has grown
      this.canvas.append(cell, line);
    }
    this.canvas.classList.toggle("words", this.replay.words);
    this.cells.forEach((_, position) => this.paint(position));
    this.arcs();
    this.tip.hide();
  }

  paint(position) {
    const { replay, frame } = this;
    const shown = this.cells[position];
    const { kind, text, reserve, commit } = replay.at(position, frame);
    const late = replay.deferred(frame)?.position === position;
    const marks = this.marks?.(position) ?? "";
    const state = `${kind} ${late} ${marks} ${commit?.confidence} ${text ?? reserve}`;
    if (state === shown.drawn) return;
    shown.drawn = state;
    const { cell, line } = shown;
    const piece = text ?? reserve;
    cell.className = ["cell", kind, late && "late", replay.edges.has(position) && "edge", marks].filter(Boolean).join(" ");
    shown.text.textContent = visible(piece);
    cell.classList.toggle("unseen", /^[⏎∎]+$/.test(shown.text.textContent));
    shown.text.ariaHidden = text === undefined ? "true" : null;
    const lines = piece.split("\n").length - 1;
    line.classList.toggle("ends", lines > 0);
    if (lines) line.style.setProperty("--lines", Math.min(lines, 3));
    if (commit) cell.style.setProperty("--c", commit.confidence ?? 1); // an end behind an end has none, and is sure
    if (replay.born[position]) cell.hidden = line.hidden = kind === "unborn";
    for (const name of ["role", "aria-label", "aria-pressed"]) cell.removeAttribute(name);
    if (!this.pick) cell.removeAttribute("tabindex");
    else if (cell.tabIndex === 0) cell.tabIndex = -1; // not removed: whoever has the focus keeps it
    if (late) {
      cell.tabIndex = 0;
      cell.setAttribute("aria-label", replay.reason(frame).join(" "));
    }
    if (late || (this.pick && text !== undefined)) cell.setAttribute("role", "button");
    if (this.pick && text !== undefined) cell.setAttribute("aria-pressed", marks.includes("picked"));
  }

  // Whoever waits, and for whom.
  arcs() {
    this.layer.replaceChildren();
    for (const { cell } of this.reasons.splice(0)) cell.classList.remove("reason", "via");
    const deferred = this.replay?.deferred(this.frame);
    if (!deferred) return;
    const stops = [deferred.position, ...(deferred.through ?? []), deferred.by];
    for (const position of stops.slice(1)) {
      this.cells[position].cell.classList.add(position === deferred.by ? "reason" : "via");
      this.reasons.push(this.cells[position]);
    }
    const origin = this.canvas.getBoundingClientRect();
    this.layer.setAttribute("width", this.canvas.clientWidth);
    this.layer.setAttribute("height", this.canvas.clientHeight);
    const width = Math.min(1.6 + Math.log2(1 + Math.max(deferred.discount ?? 0, 0)), 5);
    for (let i = 1; i < stops.length; i += 1) {
      const [from, to] = [stops[i - 1], stops[i]].map((position) => this.cells[position].cell.getBoundingClientRect());
      if (!from.width || !to.width) continue; // folded away
      const gap = parseFloat(getComputedStyle(this.canvas).lineHeight) - from.height;
      const { d, head } = arc(from, to, origin, { gap, side: this.side(from, to) - origin.left, last: i === stops.length - 1 });
      this.layer.append(element("path", { class: deferred.waits ? "arc" : "arc brief", d, "stroke-width": width.toFixed(2) }));
      if (head) this.layer.append(element("path", { class: "tip", d: head }));
      this.layer.append(element("path", { class: "grip", d }));
    }
  }

  // Right of every cell from one line to another, if the canvas has room there.
  side(from, to) {
    const [above, below] = [Math.min(from.top, to.top), Math.max(from.bottom, to.bottom)];
    const boxes = this.cells.map(({ cell }) => cell.getBoundingClientRect()).filter((box) => box.top >= above && box.bottom <= below);
    return Math.min(Math.max(...boxes.map((box) => box.right)) + 10, this.canvas.getBoundingClientRect().right - 3);
  }

  // Of a canvas that is longer than the window, shows what changed. Scrolls this window alone, not a page around it.
  follow(top) {
    const { replay, frame, cells } = this;
    const changed = [replay.deferred(frame)?.position, ...(replay.steps[frame - 1]?.commits ?? []).map((commit) => commit.position)];
    const boxes = changed.flatMap((position) => (cells[position] ? [cells[position].cell.getBoundingClientRect()] : []));
    const seen = boxes.some((box) => box.height && box.top >= top && box.bottom <= window.innerHeight);
    if (boxes.length && !seen) window.scrollBy({ top: boxes[0].top - (top + window.innerHeight) / 2, behavior: "instant" });
  }

  about(position) {
    const why = this.replay.deferred(this.frame)?.position === position ? this.replay.reason(this.frame) : [];
    return [...this.replay.about(position, this.frame), ...why, ...(this.more?.(position, this.frame) ?? [])];
  }

  tell(event) {
    const cell = event.target.closest?.(".cell");
    if (event.target.closest?.(".grip")) this.tip.show(event.target.getBoundingClientRect(), this.replay.reason(this.frame));
    else if (cell) this.tip.show(cell.getBoundingClientRect(), this.about(Number(cell.dataset.position)));
    else this.tip.hide();
  }

  point(position) {
    this.canvas.querySelector(".pointed")?.classList.remove("pointed");
    this.cells[position]?.cell.classList.add("pointed");
  }

  // Cells by mouse and by keys: one of them can be reached by Tab, arrows go on from there, Enter and space pick.
  listen() {
    const { canvas } = this;
    const chosen = (event) => event.target.closest?.(".cell:is(.given, .done, .new)");
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "group");
    canvas.setAttribute("aria-label", "Tokens. Arrow keys go from token to token, Enter masks one.");
    canvas.addEventListener("click", (event) => chosen(event) && this.pick(Number(chosen(event).dataset.position), event.shiftKey));
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const cell = event.target.closest(".cell");
      const from = cell ? Number(cell.dataset.position) : -1;
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (by) {
        let to = from + by;
        while (this.cells[to]?.cell.hidden) to += by;
        this.focus(to);
      } else if (["Enter", " "].includes(event.key) && chosen(event)) this.pick(from, event.shiftKey);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  focus(position) {
    const cell = this.cells[position]?.cell;
    if (!cell) return;
    cell.tabIndex = -1;
    cell.setAttribute("aria-label", this.about(position).join(" "));
    cell.focus({ preventScroll: false });
  }
}

function made(position) {
  const text = element("span", { class: "text" });
  const cell = element("span", { class: "cell", "data-position": position }, text);
  const line = element("span", { class: "line" }); // shown where a piece ends a line
  return { cell, text, line, drawn: "" };
}

// Never through text: above the line between cells of one line, else through the gaps between lines, and past the ends of those that lie between.
// `gap` is the height between two lines, `side` what lies right of them; both ends are upright.
function arc(from, to, origin, { gap, side, last }) {
  const [left, top] = [origin.left, origin.top];
  const x1 = (from.left + from.right) / 2 - left;
  const x2 = (to.left + to.right) / 2 - left;
  const same = Math.abs(from.top - to.top) < 4;
  const up = to.top < from.top - 4;
  const y1 = (same || up ? from.top - 1 : from.bottom + 1) - top;
  const y2 = (up ? to.bottom + 4 : to.top - 4) - top;
  const end = last ? y2 + (up ? 5 : -5) : y2;
  const head = last && `M${x2 - 4} ${end}h8L${x2} ${y2}z`;
  if (same) {
    const peak = y1 - Math.max(gap, 12) / 0.75;
    return { d: `M${x1} ${y1}C${x1} ${peak} ${x2} ${peak} ${x2} ${end}`, head };
  }
  const leave = (up ? from.top - gap / 3 : from.bottom + gap / 3) - top;
  const enter = (up ? to.bottom + (gap * 2) / 3 : to.top - (gap * 2) / 3) - top;
  const lanes = Math.abs(leave - enter) < 6 ? [[x1, leave], [x2, leave]] : [[x1, leave], [side, leave], [side, enter], [x2, enter]];
  return { d: rounded([[x1, y1], ...lanes, [x2, end]]), head };
}

// A path along points, its corners rounded.
function rounded(points) {
  const toward = ([x, y], [u, v], r) => {
    const far = Math.hypot(u - x, v - y) || 1;
    return [x + ((u - x) * Math.min(r, far / 2)) / far, y + ((v - y) * Math.min(r, far / 2)) / far];
  };
  const corners = points.slice(1, -1).map((point, i) => `L${toward(point, points[i], 7).join(" ")}Q${point.join(" ")} ${toward(point, points[i + 2], 7).join(" ")}`);
  return `M${points[0].join(" ")}${corners.join("")}L${points.at(-1).join(" ")}`;
}

// ---- one step in numbers

const COLUMNS = [
  ["position", ""],
  ["token", ""],
  ["c", "confidence: the probability of the token"],
  ["H", "entropy in nats"],
  ["score", "the score before discounts"],
  ["lost", "what discounts had taken from the score when it was picked"],
];

class Detail {
  constructor(host, sheet) {
    this.which = element("h2");
    this.notes = element("div", { class: "notes" });
    this.rows = element("tbody");
    const heads = COLUMNS.map(([name, title]) => element("th", { scope: "col", title, class: name === "token" ? "word" : "" }, name));
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), this.rows);
    this.table = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Commits of this step" }, table);
    host.append(this.which, this.notes, this.table);
    // A row points at its position.
    this.rows.addEventListener("pointerover", (event) => sheet.point(event.target.closest("tr")?.dataset.position));
    this.rows.addEventListener("pointerleave", () => sheet.point(null));
  }

  // `whole`: nothing more will come.
  show(replay, frame, whole = true) {
    const step = replay.steps[frame - 1];
    const last = replay.steps.length;
    this.which.textContent = frame === 0 ? "Start" : `Step ${step.step}`;
    const notes = [];
    if (frame === 0) notes.push(`${count(replay.left[0], "mask")} on a canvas of ${count(replay.length, "position")}.`);
    if (step) {
      const companion = step.companion ? `, ${step.companion} of the companion` : "";
      notes.push(`${count(step.candidates, "candidate")} of ${count(step.n_masked, "mask")}; ${count(step.forwards, "forward")}${companion}.`);
    }
    if (step?.forced) notes.push("Forced: nobody was admissible, and the best was committed anyway.");
    if (step?.appended) notes.push(`The canvas grew by ${count(step.appended, "position")} before this step: the text had no end.`);
    if (step?.collapsed) notes.push(`The text ends at ${step.collapsed.by}: ${count(step.collapsed.positions.length, "mask")} behind it needed no forward.`);
    if (step?.remasked?.length) notes.push(`Masked again: ${list(step.remasked.map(String))}.`);
    if (whole && frame === last && !replay.ended) notes.push("The trace ends here: the run was interrupted.");
    else if (whole && frame === last && replay.left[last] > 0) notes.push(`The run ended here, with ${count(replay.left[last], "mask")} left.`);
    this.notes.replaceChildren(...notes.map((note) => element("p", {}, note)));
    if (replay.deferred(frame)) {
      this.notes.append(element("p", { class: "why" }, element("b", {}, "Deferred. "), replay.reason(frame).join(" ")));
    }
    this.rows.replaceChildren(...(step?.commits ?? []).map((commit) => row(replay, frame, commit)));
    this.table.hidden = !step?.commits.length;
  }
}

function row(replay, frame, { position, confidence, entropy, score, utility, token }) {
  const piece = replay.events[position]?.find((event) => event.step === frame - 1 && event.commit)?.piece ?? String(token);
  const swatch = element("span", { class: "cell done" }, visible(piece));
  swatch.style.setProperty("--c", confidence ?? 0);
  const lost = score - utility;
  const numbers = [number(confidence), number(entropy), number(score, 3), lost > 1e-12 ? number(lost) : ""].map((text) => element("td", {}, text));
  return element("tr", { "data-position": position }, element("td", {}, `${position}`), element("td", { class: "word" }, swatch), ...numbers);
}

// ---- where a frame stands

class Status {
  constructor(host) {
    const fact = (name, label) => element("span", { class: "fact" }, `${label} `, (this[name] = element("b", { class: name })));
    this.at = element("b", { class: "at" });
    this.done = element("span", { class: "dim" });
    host.append(element("p", { class: "status" }, this.at, this.done, fact("nfe", "NFE"), fact("per", "tokens per forward"), fact("left", "masks left")));
  }

  show(replay, frame) {
    const nfe = replay.nfe[frame];
    this.at.textContent = frame === 0 ? "start" : `step ${replay.steps[frame - 1].step}`;
    this.done.textContent = `${frame} of ${replay.steps.length} done`;
    this.nfe.textContent = `${nfe}`;
    this.per.textContent = nfe ? (replay.filled[frame] / nfe).toFixed(2) : "–";
    this.left.textContent = `${replay.left[frame]}`;
  }
}

// ---- commits, their entropy, and masks left, frame by frame

class Strip {
  constructor(host, jump) {
    this.svg = element("svg", { class: "strip", "aria-hidden": "true" });
    host.append(this.svg);
    this.svg.addEventListener("pointerdown", (event) => {
      const box = this.svg.getBoundingClientRect();
      jump(Math.round(((event.clientX - box.left) / box.width) * this.most));
    });
    new ResizeObserver(() => this.replay && this.draw(this.replay, this)).observe(this.svg);
  }

  // Frame k stands at `at[k]` of `most`; `mark` is where two traces part.
  draw(replay, { at, most, mark = null }) {
    Object.assign(this, { replay, at, most, mark });
    // In pixels: a stroke that is stretched with its drawing is blurred.
    const along = (x) => (this.svg.clientWidth * x) / Math.max(most, 1);
    const busiest = Math.max(...replay.steps.map((step) => step.commits.length), 1);
    const vaguest = Math.max(...replay.entropy, 0.1);
    const width = Math.max(Math.min(along(0.7), 14), 1);
    const line = (name, x, y1, y2) => element("line", { class: name, x1: along(x), x2: along(x), y1, y2, "stroke-width": width });
    const curve = (name, ys, from) => element("polyline", { class: name, points: ys.map((y, i) => `${along(at[i + from])},${26 - 24 * y}`).join(" ") });
    const bars = replay.steps.map((step, i) => line("bar", at[i + 1], 26, 26 - (24 * step.commits.length) / busiest));
    const late = replay.steps.flatMap((_, i) => (replay.deferred(i + 1) ? [line("late", at[i + 1], 28, 32)] : []));
    const left = curve("left", replay.left.map((left) => left / Math.max(...replay.left, 1)), 0);
    const entropy = curve("entropy", replay.entropy.slice(1).map((entropy) => entropy / vaguest), 1);
    const part = mark === null ? [] : [element("line", { class: "part", x1: along(mark), x2: along(mark), y1: 0, y2: 32 })];
    this.head = element("line", { class: "head", y1: 0, y2: 32 });
    this.svg.replaceChildren(...bars, ...late, entropy, left, ...part, this.head);
    this.move(this.now ?? 0);
  }

  move(now) {
    this.now = now;
    for (const end of ["x1", "x2"]) this.head.setAttribute(end, (this.svg.clientWidth * now) / Math.max(this.most, 1));
  }
}

// ---- moving

const ICONS = {
  first: ["To the start", "M3 3h2v10H3zM14 3v10L6 8z"],
  back: ["One step back", "M11 3v10L4 8z"],
  play: ["Play", "M4 2l10 6-10 6z", "M3 2h4v12H3zM9 2h4v12H9z"],
  next: ["One step on", "M5 3v10l7-5z"],
  final: ["To the end", "M11 3h2v10h-2zM2 3v10l8-5z"],
};

class Player {
  // `show(at)` draws; `seek(at, by)` finds a deferral; `follow()` brings what changed into sight; `wait(at)` is how long the next step really took, in ms, where that is known.
  constructor(host, { show, seek, follow, wait = null, longest = 30_000, slowest = 700 }) {
    Object.assign(this, { show, seek, follow, wait, longest, slowest, at: 0, last: 0, live: false, timer: null });
    this.buttons = Object.fromEntries(Object.entries(ICONS).map(([id, [label, ...paths]]) => {
      const drawn = paths.map((d, i) => element("path", { d, class: id === "play" ? ["go", "stop"][i] : "" }));
      return [id, element("button", { type: "button", id, "aria-label": label }, element("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, ...drawn))];
    }));
    this.deferral = element("button", { type: "button", id: "deferral", title: "The next step that deferred a position (d)" }, "next deferral");
    this.speed = element("select", { id: "speed", "aria-label": "Speed" });
    for (const [value, text] of [[0.5, "½"], [1, "1"], [2, "2"], [4, "4"], ["real", "real"]]) this.speed.append(element("option", { value }, text));
    this.speed.value = "1";
    this.speed.lastChild.hidden = !wait;
    const speed = element("label", { class: "speed" }, element("span", {}, "speed"), " ", this.speed);
    this.slider = element("input", { type: "range", id: "slider", min: 0, max: 0, value: 0, step: 1, "aria-label": "Step" });
    this.row = element("div", { class: "row" }, element("div", { class: "buttons" }, ...Object.values(this.buttons), this.deferral, speed));
    host.append(this.row, this.slider);
    const moves = { first: () => 0, back: () => this.at - 1, next: () => this.at + 1, final: () => this.last };
    for (const [id, to] of Object.entries(moves)) this.buttons[id].addEventListener("click", () => this.jump(to()));
    this.buttons.play.addEventListener("click", () => this.toggle());
    this.deferral.addEventListener("click", () => this.jump(this.seek(this.at, 1) ?? this.at));
    this.slider.addEventListener("input", () => this.jump(Number(this.slider.value)));
    document.addEventListener("keydown", (event) => this.key(event));
  }

  // There are `last` frames after the first, and while `live` there will be more.
  span(last, live = false) {
    const idle = this.timer === "waiting" && last > this.at;
    this.last = this.slider.max = last;
    this.live = live;
    if (idle) this.tick();
    else if (this.timer === "waiting" && !live) this.pause();
    this.draw();
  }

  go(to) {
    this.at = Math.max(0, Math.min(this.last, to));
    this.draw();
    this.show(this.at);
  }

  draw() {
    this.slider.value = this.at;
    this.buttons.first.disabled = this.buttons.back.disabled = this.at === 0;
    this.buttons.next.disabled = this.buttons.final.disabled = this.at === this.last;
    this.deferral.disabled = this.seek(this.at, 1) === null;
  }

  jump(to) {
    this.pause();
    this.go(to);
    this.follow();
  }

  // Steps arrive faster than the eye: a step takes its time, half a minute in all at most, but one that comes late is shown at once.
  pace() {
    if (this.speed.value === "real") return this.wait(this.at);
    return Math.max(Math.min(this.longest / Math.max(this.last, 1), this.slowest), 60) / Number(this.speed.value);
  }

  tick() {
    this.go(this.at + 1);
    this.follow();
    this.rest();
  }

  rest() {
    if (this.at < this.last) this.timer = setTimeout(() => this.tick(), this.pace());
    else if (this.live) this.timer = "waiting";
    else {
      this.pause();
      this.show(this.at); // once more, now that nothing moves and there is time to read
    }
  }

  play() {
    if (this.at === this.last && !this.live) this.go(0);
    if (this.at === this.last) this.timer = "waiting";
    else this.timer = setTimeout(() => this.tick(), this.pace() / 2);
    this.state();
  }

  pause() {
    clearTimeout(this.timer);
    this.timer = null;
    this.state();
  }

  toggle() {
    if (this.timer) this.pause();
    else this.play();
  }

  state() {
    document.body.classList.toggle("playing", Boolean(this.timer));
    this.buttons.play.setAttribute("aria-label", this.timer ? "Pause" : "Play");
  }

  key(event) {
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.target.closest("select, input:not([type=range]), textarea, dialog")) return;
    if (event.target === this.slider && !" dD".includes(event.key)) return; // it moves by itself
    const keys = {
      ArrowLeft: () => this.jump(this.at - 1),
      ArrowRight: () => this.jump(this.at + 1),
      Home: () => this.jump(0),
      End: () => this.jump(this.last),
      " ": event.target.closest("button, summary, a, [role=button]") ? undefined : () => this.toggle(),
      d: () => this.jump(this.seek(this.at, 1) ?? this.at),
      D: () => this.jump(this.seek(this.at, -1) ?? this.at),
    };
    if (!keys[event.key]) return;
    keys[event.key]();
    event.preventDefault();
  }
}

export { element, Tip, Sheet, Detail, Status, Strip, Player };
