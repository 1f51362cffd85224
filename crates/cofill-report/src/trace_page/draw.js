// The page of a trace: a replay of its steps in the elements of body.html.

const $ = (name) => document.getElementById(name);
const SVG = "http://www.w3.org/2000/svg";

function element(tag, attributes = {}, ...children) {
  const drawn = ["path", "line", "polyline"].includes(tag);
  const made = drawn ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children); // texts become text nodes, never markup
  return made;
}

const replay = new Replay(JSON.parse($("trace").textContent));
const last = replay.steps.length;
let frame = 0;

// ---- the canvas

const canvas = $("canvas");
canvas.classList.toggle("words", replay.words);
canvas.classList.toggle("large", replay.length > 600); // too many to fade
const cells = replay.given.map((_, position) => {
  const text = element("span", { class: "text" });
  const cell = element("span", { class: "cell", "data-position": position }, text);
  const line = element("span", { class: "line" }); // shown where a piece ends a line
  return { cell, text, line, drawn: "" };
});

// A long prompt is folded, but for the line of the first mask.
const FOLD = 160;
const firstMask = Math.max(replay.masked.indexOf(true), 0);
let folded = firstMask > FOLD ? firstMask - 1 : 0;
while (folded > firstMask - FOLD / 2 && folded > 0 && !replay.given[folded - 1].endsWith("\n")) folded -= 1;
for (const { cell, line } of cells.slice(0, folded)) {
  cell.hidden = line.hidden = true;
}
if (folded) {
  const more = element("button", { type: "button", class: "more", "aria-expanded": "false" }, `… ${folded} given positions before`);
  more.addEventListener("click", () => {
    for (const { cell, line } of cells.slice(0, folded)) cell.hidden = line.hidden = false;
    more.remove();
    arcs();
  });
  canvas.append(more);
}
canvas.append(...cells.flatMap(({ cell, line }) => [cell, line]));

function paint(position) {
  const shown = cells[position];
  const { kind, text, reserve, commit } = replay.at(position, frame);
  const late = replay.deferred(frame)?.position === position;
  const state = `${kind} ${late} ${text ?? reserve}`;
  if (state === shown.drawn) return;
  shown.drawn = state;
  const { cell, line } = shown;
  const piece = text ?? reserve;
  cell.className = ["cell", kind, late && "late", replay.edges.has(position) && "edge"].filter(Boolean).join(" ");
  shown.text.textContent = visible(piece);
  shown.text.ariaHidden = text === undefined ? "true" : null;
  const lines = piece.split("\n").length - 1;
  line.classList.toggle("ends", lines > 0);
  if (lines) line.style.setProperty("--lines", Math.min(lines, 3));
  if (commit) cell.style.setProperty("--c", commit.confidence ?? 0);
  if (replay.born[position]) cell.hidden = line.hidden = kind === "unborn"; // the canvas grows
  if (late) {
    cell.tabIndex = 0;
    cell.setAttribute("role", "button");
    cell.setAttribute("aria-label", replay.reason(frame).join(" "));
  } else {
    for (const name of ["tabindex", "role", "aria-label"]) cell.removeAttribute(name);
  }
}

// ---- whoever waits, and for whom

const arcLayer = $("arcs");
const marked = [];

function arcs() {
  arcLayer.replaceChildren();
  const deferred = replay.deferred(frame);
  for (const { cell } of marked.splice(0)) cell.classList.remove("reason", "via");
  if (!deferred) return;
  const stops = [deferred.position, ...(deferred.through ?? []), deferred.by];
  for (const position of stops.slice(1)) {
    cells[position].cell.classList.add(position === deferred.by ? "reason" : "via");
    marked.push(cells[position]);
  }
  const origin = canvas.getBoundingClientRect();
  arcLayer.setAttribute("width", canvas.clientWidth);
  arcLayer.setAttribute("height", canvas.clientHeight);
  const width = Math.min(1.2 + Math.log2(1 + Math.max(deferred.discount ?? 0, 0)), 5);
  for (let i = 1; i < stops.length; i += 1) {
    const [from, to] = [stops[i - 1], stops[i]].map((position) => cells[position].cell.getBoundingClientRect());
    if (!from.width || !to.width) continue; // folded away
    const d = arc(from, to, origin);
    const line = element("path", { class: "arc", d, "stroke-width": width.toFixed(2) });
    if (!deferred.waits) line.classList.add("brief");
    if (i === stops.length - 1) line.setAttribute("marker-end", "url(#head)");
    arcLayer.append(line, element("path", { class: "grip", d }));
  }
}

// From above a cell to above another of the same line, or across lines from the edges that face each other.
function arc(from, to, origin) {
  const x1 = (from.left + from.right) / 2 - origin.left;
  const x2 = (to.left + to.right) / 2 - origin.left;
  if (Math.abs(from.top - to.top) < 4) {
    const y = from.top - origin.top;
    const lift = Math.min(12 + Math.abs(x2 - x1) / 20, 22);
    return `M${x1} ${y - 1}C${x1} ${y - lift} ${x2} ${y - lift} ${x2} ${y - 4}`;
  }
  const up = to.top < from.top;
  const y1 = (up ? from.top - 1 : from.bottom + 1) - origin.top;
  const y2 = (up ? to.bottom + 4 : to.top - 4) - origin.top;
  const bend = Math.max(Math.abs(y2 - y1) / 2, 14) * (up ? -1 : 1);
  return `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
}

// ---- beside the canvas

function detail() {
  const step = replay.steps[frame - 1];
  $("which").textContent = frame === 0 ? "Start" : `Step ${step.step}`;
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
  if (frame === last && !replay.ended) notes.push("The trace ends here: the run was interrupted.");
  else if (frame === last && replay.left[last] > 0) notes.push(`The run ended here, with ${count(replay.left[last], "mask")} left.`);
  $("notes").replaceChildren(...notes.map((note) => element("p", {}, note)));
  if (replay.deferred(frame)) {
    const [why, ...rest] = replay.reason(frame);
    $("notes").append(element("p", { class: "why" }, element("b", {}, "Deferred. "), [why, ...rest].join(" ")));
  }
  const row = ({ position, confidence, entropy, score, utility, token }, i) => {
    const piece = replay.events[position]?.find((event) => event.step === frame - 1 && event.commit)?.piece ?? String(token);
    const swatch = element("span", { class: "cell done" }, visible(piece));
    swatch.style.setProperty("--c", confidence ?? 0);
    const lost = score - utility;
    const numbers = [number(confidence), number(entropy), number(score, 3), lost > 1e-12 ? number(lost) : ""].map((text) => element("td", {}, text));
    return element("tr", { "data-position": position }, element("td", {}, `${position}`), element("td", { class: "word" }, swatch), ...numbers);
  };
  $("commits").replaceChildren(...(step?.commits ?? []).map(row));
  $("table").hidden = !step?.commits.length;
}

function status() {
  const filled = replay.filled[frame];
  const facts = {
    at: frame === 0 ? "start" : `step ${replay.steps[frame - 1].step}`,
    done: `${frame} of ${last} done`,
    nfe: `${replay.nfe[frame]}`,
    per: replay.nfe[frame] ? (filled / replay.nfe[frame]).toFixed(2) : "–",
    left: `${replay.left[frame]}`,
  };
  for (const [name, text] of Object.entries(facts)) $(name).textContent = text;
  $("slider").value = frame;
  $("slider").setAttribute("aria-valuetext", replay.summary(frame));
  $("first").disabled = $("back").disabled = frame === 0;
  $("next").disabled = $("final").disabled = frame === last;
  $("deferral").disabled = replay.seek(frame, 1) === null;
}

// ---- a strip below the slider: commits and masks left, step by step

const strip = $("strip");

// In pixels: a stroke that is stretched with its drawing is blurred.
const along = (k) => (strip.clientWidth * k) / Math.max(last, 1);

function drawStrip() {
  const most = Math.max(...replay.steps.map((step) => step.commits.length), 1);
  const width = Math.max(Math.min(along(0.7), 14), 1);
  const line = (name, k, y1, y2) => element("line", { class: name, x1: along(k), x2: along(k), y1, y2, "stroke-width": width });
  const bars = replay.steps.map((step, i) => line("bar", i + 1, 26, 26 - (24 * step.commits.length) / most));
  const late = replay.steps.flatMap((_, i) => (replay.deferred(i + 1) ? [line("late", i + 1, 28, 32)] : []));
  const points = replay.left.map((left, k) => `${along(k)},${26 - (24 * left) / Math.max(...replay.left, 1)}`);
  const head = element("line", { class: "head", id: "playhead", y1: 0, y2: 32 });
  strip.replaceChildren(...bars, ...late, element("polyline", { class: "left", points: points.join(" ") }), head);
  movePlayhead();
}

function movePlayhead() {
  $("playhead").setAttribute("x1", along(frame));
  $("playhead").setAttribute("x2", along(frame));
}

// ---- moving

function go(to) {
  frame = Math.max(0, Math.min(last, to));
  for (let position = 0; position < cells.length; position += 1) paint(position);
  status();
  detail();
  arcs();
  movePlayhead();
  hideTip();
  if (!timer) $("said").textContent = [replay.summary(frame), ...(replay.deferred(frame) ? replay.reason(frame) : [])].join(" ");
}

// Of a canvas that is longer than the window, shows what changed. Scrolls this window alone, not a page around it.
function follow() {
  const changed = [replay.deferred(frame)?.position, ...(replay.steps[frame - 1]?.commits ?? []).map((commit) => commit.position)];
  const boxes = changed.flatMap((position) => (cells[position] ? [cells[position].cell.getBoundingClientRect()] : []));
  const top = $("controls").getBoundingClientRect().bottom;
  const seen = boxes.some((box) => box.height && box.top >= top && box.bottom <= window.innerHeight);
  if (boxes.length && !seen) window.scrollBy({ top: boxes[0].top - (top + window.innerHeight) / 2, behavior: "instant" });
}

let timer = null;
const PACE = Math.max(Math.min(30_000 / Math.max(last, 1), 700), 60); // ms a step: half a minute at most

function pause() {
  clearTimeout(timer);
  timer = null;
  playing();
}

function play() {
  if (frame === last) go(0);
  const tick = () => {
    timer = setTimeout(tick, PACE / Number($("speed").value));
    go(frame + 1);
    follow();
    if (frame === last) pause();
  };
  timer = setTimeout(tick, PACE / Number($("speed").value) / 2);
  playing();
}

function playing() {
  document.body.classList.toggle("playing", Boolean(timer));
  $("play").setAttribute("aria-label", timer ? "Pause" : "Play");
}

const toggle = () => (timer ? pause() : play());
const jump = (to) => {
  pause();
  go(to);
  follow();
};

$("slider").max = last;
$("slider").addEventListener("input", (event) => jump(Number(event.target.value)));
$("play").addEventListener("click", toggle);
$("first").addEventListener("click", () => jump(0));
$("back").addEventListener("click", () => jump(frame - 1));
$("next").addEventListener("click", () => jump(frame + 1));
$("final").addEventListener("click", () => jump(last));
$("deferral").hidden = $("legend-late").hidden = replay.seek(0, 1) === null;
$("legend-back").hidden = !replay.steps.some((step) => step.remasked?.length);
$("deferral").addEventListener("click", () => jump(replay.seek(frame, 1) ?? frame));
strip.addEventListener("pointerdown", (event) => {
  const box = strip.getBoundingClientRect();
  jump(Math.round(((event.clientX - box.left) / box.width) * last));
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("select, input")) return;
  const keys = {
    ArrowLeft: () => jump(frame - 1),
    ArrowRight: () => jump(frame + 1),
    Home: () => jump(0),
    End: () => jump(last),
    " ": event.target.closest("button, [role=button]") ? undefined : toggle,
    d: () => jump(replay.seek(frame, 1) ?? frame),
    D: () => jump(replay.seek(frame, -1) ?? frame),
    Escape: hideTip,
  };
  if (!keys[event.key]) return;
  keys[event.key]();
  event.preventDefault();
});

// ---- what is under the pointer, or has the focus

const tip = $("tip");

function showTip(box, sentences) {
  tip.replaceChildren(...sentences.map((sentence) => element("p", {}, sentence)));
  tip.hidden = false;
  const margin = 8;
  const left = Math.min(Math.max(box.left, margin), window.innerWidth - tip.offsetWidth - margin);
  const below = box.bottom + margin;
  const top = below + tip.offsetHeight < window.innerHeight ? below : Math.max(box.top - tip.offsetHeight - margin, margin);
  tip.style.left = `${Math.max(left, margin)}px`;
  tip.style.top = `${top}px`;
}

function hideTip() {
  tip.hidden = true;
}

function tell(event) {
  const cell = event.target.closest?.(".canvas .cell");
  if (event.target.closest?.(".grip")) showTip(event.target.getBoundingClientRect(), replay.reason(frame));
  else if (cell) {
    const position = Number(cell.dataset.position);
    const why = replay.deferred(frame)?.position === position ? replay.reason(frame) : [];
    showTip(cell.getBoundingClientRect(), [...replay.about(position, frame), ...why]);
  } else hideTip();
}

for (const kind of ["pointerover", "click", "focusin"]) $("stage").addEventListener(kind, tell);
for (const kind of ["pointerleave", "focusout"]) $("stage").addEventListener(kind, hideTip);
// A row of the table points at its position.
const point = (event, on) => {
  const position = event.target.closest("[data-position]")?.dataset.position;
  canvas.querySelector(".pointed")?.classList.remove("pointed");
  if (on && position !== undefined) cells[position]?.cell.classList.add("pointed");
};
$("commits").addEventListener("pointerover", (event) => point(event, true));
$("commits").addEventListener("pointerleave", (event) => point(event, false));

new ResizeObserver(() => {
  arcs();
  drawStrip();
}).observe($("stage"));
drawStrip();
// The end is what most want to see, also where the page is printed; `#step=3` leads elsewhere, and playing begins at the start.
const asked = /^#step=(\d+)$/.exec(location.hash);
go(asked ? Number(asked[1]) + 1 : last);
