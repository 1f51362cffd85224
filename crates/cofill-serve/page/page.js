// The page of a server: asks, shows the answer while it fills, replays and compares it. `draw.js` and `state.js` are those of the page of a trace.

import { visible, list, count } from "./state.js";
import { element, Tip, Player } from "./draw.js";
import { Run, Pane } from "./pane.js";
import { FIELDS, EXAMPLES, body, fragment, asked } from "./ask.js";
import { read, write, part, diff } from "./traces.js";
import { Gone, useKey, models, decode } from "./net.js";

const $ = (name) => document.getElementById(name);
const form = $("ask");
const field = (name) => form.elements.namedItem(name);
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const SAMPLERS = ["topk:1", "topk:2", "topk:4", "topk:2+ad", "topk:4+ad", "topk:4+paths", "fast:1", "fast:2", "fast:2+ad", "eb:1", "eb:3", "eb:3+ad", "klass", "dapd", "p2:20"];

let request = {}; // the fields of what is shown
let controller = new AbortController(); // of what is being asked
let running = 0; // streams that have not ended
let held = null; // the first picture waits a moment: most decodes end within it, and then masks have the right room
let comparing = false;
let parted = null; // where two traces part
let goal = null; // where a link leads, as soon as that much has arrived
let quiet = true; // nothing scrolls before somebody asks

const tip = new Tip();
const shown = () => panes.slice(0, comparing ? 2 : 1).filter((pane) => pane.replay);

// ---- moving: by steps, or by forwards where two are compared

const player = new Player($("controls"), {
  show,
  seek(at, by) {
    const found = shown().map((pane) => {
      const to = pane.replay.seek(comparing && by < 0 && pane.replay.nfe[pane.frame(at)] < at ? pane.frame(at) + 1 : pane.frame(at), by);
      return to === null ? null : comparing ? pane.replay.nfe[to] : to;
    });
    const fine = found.filter((to) => to !== null);
    return fine.length ? (by > 0 ? Math.min(...fine) : Math.max(...fine)) : null;
  },
  follow: () => quiet || shown()[0]?.sheet.follow($("controls").getBoundingClientRect().bottom),
  wait(at) {
    const took = shown().map((pane) => pane.run.times[pane.frame(at) + 1] - pane.run.times[pane.frame(at)]);
    return Math.max(16, ...took.filter(Number.isFinite));
  },
  longest: 12_000,
  slowest: 600,
});
const strips = element("div", { id: "strips" });
const parting = element("button", { type: "button", id: "part", hidden: "" }, "first divergence");
const axis = element("span", { class: "dim", id: "axis" });
player.row.querySelector(".buttons").append(parting);
player.row.append(axis);
$("controls").append(strips);
const panes = ["A", "B"].map((letter) => new Pane(letter, $("panes"), strips, { tip, pick, jump: (at) => player.jump(at), save }));

function show(at) {
  const here = shown();
  for (const pane of here) pane.draw(at, running > 0);
  const said = here.map((pane) => (comparing ? `${pane.letter}: ` : "") + pane.replay.summary(pane.frame(at)));
  const why = here.flatMap((pane) => (pane.replay.deferred(pane.frame(at)) ? pane.replay.reason(pane.frame(at)) : []));
  player.slider.setAttribute("aria-valuetext", said.join(" "));
  axis.textContent = comparing ? `forward ${at} of ${player.last}` : "";
  const end = at === player.last && !running;
  if (!player.timer) $("said").textContent = [...said, ...why, ...(end ? here.map((pane) => `Answer: ${pane.run.answer()} ${pane.verdict.textContent}`) : [])].join(" ");
  answers(end && comparing && here.length === 2 ? here : null);
}

// What depends on how much has arrived.
function redraw() {
  const here = shown();
  document.body.classList.toggle("comparing", comparing);
  $("controls").hidden = !here.length;
  $("link").hidden = !request;
  panes.forEach((pane) => pane.hide(!here.includes(pane)));
  if (!here.length) return;
  for (const pane of here) pane.byForward = comparing;
  const last = Math.max(...here.map(({ replay }) => (comparing ? replay.nfe.at(-1) : replay.steps.length)));
  compare(here);
  for (const { strip, replay } of here) {
    strip.draw(replay, { at: comparing ? replay.nfe : replay.nfe.map((_, k) => k), most: last, mark: parted?.nfe ?? null });
  }
  player.span(last, running > 0);
  player.go(goal ?? (calm.matches && running ? last : player.at));
  if (!running) goal = null;
}

let due = false;
function refresh() {
  if (due || held !== null) return;
  due = true; // once per picture
  requestAnimationFrame(() => {
    due = false;
    redraw();
  });
}

function compare(here) {
  parted = comparing && here.length === 2 && !running ? part(...here.map((pane) => pane.replay)) : null;
  parting.hidden = !parted?.nfe;
  $("legend-differs").hidden = !comparing;
  for (const pane of here) pane.differs.clear();
  if (!parted?.nfe) return;
  const [a, b] = here.map((pane) => pane.replay);
  (a.length > b.length ? a : b).given.forEach((_, position) => {
    if (a.token(position, a.steps.length) !== b.token(position, b.steps.length)) here.forEach((pane) => pane.differs.add(position));
  });
}
parting.addEventListener("click", () => parted?.nfe && player.jump(parted.nfe));

const lines = (text) => text.replace(/[^\n]+/g, visible);

// Where they part, and both answers with what the other has not.
function answers(here) {
  $("answers").hidden = !here;
  if (!here) return;
  const sides = diff(...here.map((pane) => pane.run.answer()));
  const said = element("p", {}, partingSaid(here));
  const cards = here.map((pane, i) => {
    const text = sides[i].map(([text, common]) => (common ? lines(text) : element("mark", {}, lines(text))));
    const [verdict, name] = pane.run.verdict();
    const head = element("p", {}, element("span", { class: "letter" }, pane.letter), " ", element("b", {}, pane.title.textContent), ` ${count(pane.replay.total ?? pane.replay.nfe.at(-1), "forward")} `);
    return element("div", { class: "answer" }, head, element("pre", {}, ...text), element("p", { class: `verdict ${name}` }, verdict));
  });
  $("answers").replaceChildren(element("h2", {}, "Answers"), said, element("div", { class: "cards" }, ...cards));
}

function partingSaid(here) {
  if (!parted) return "Both filled the canvas in the same way.";
  if (parted.start) return "The two began with different canvases.";
  const has = (pane, k) => parted.differ.filter((position) => pane.replay.token(position, k) !== null).map((position) => pane.replay.name(position, k));
  const wrote = here.map((pane, i) => `${pane.letter} has ${list(has(pane, parted.frames[i])) || "nothing there yet"}`);
  const why = here.flatMap((pane, i) => (pane.replay.deferred(parted.frames[i]) ? [` ${pane.letter}: ${pane.replay.reason(parted.frames[i])[0]}`] : []));
  return `They part at forward ${parted.nfe}: ${wrote.join("; ")}.${why.join("")}`;
}

// ---- asking

function fields() {
  return Object.fromEntries(FIELDS.filter((name) => name !== "tokens").map((name) => [name, field(name).value]));
}

function fill(values) {
  for (const name of FIELDS) if (field(name) && name !== "model") field(name).value = values[name] ?? (name === "seed" ? "0" : "");
  choose(values.model ?? field("model").options[0]?.value);
  if (["length", "block", "temperature", "max_nfe", "top", "stop", "constraint", "as"].some((name) => values[name])) $("more").open = true;
  fit();
}

function choose(model) {
  if (!model) return;
  const options = [...field("model").options].map((option) => option.value);
  if (!options.includes(model)) field("model").append(element("option", {}, model));
  field("model").value = model;
}

// A text area is as high as its text, and a rule is asked for where there is a constraint.
function fit() {
  form.querySelector(".rule").hidden = !field("constraint").value;
  for (const area of form.querySelectorAll("textarea")) {
    area.style.height = "0";
    area.style.height = `${Math.min(area.scrollHeight + 2, 220)}px`;
  }
}

function problem(message, name) {
  $("problem").textContent = message;
  $("problem").hidden = !message;
  for (const input of form.elements) input.removeAttribute("aria-invalid");
  if (message && name && field(name)) field(name).setAttribute("aria-invalid", "true");
}

// Both sides are asked at once, with the same seed. `at` is where to stop instead of playing.
async function start(values, at = null) {
  let bodies;
  try {
    bodies = [values.sampler, values.versus].filter((sampler, i) => i === 0 || sampler?.trim()).map((sampler) => body(values, sampler));
  } catch (error) {
    problem(error.message, error.param);
    return;
  }
  halt();
  problem("");
  request = values;
  history.replaceState(null, "", fragment(values));
  $("from").hidden = !values.tokens;
  const { signal } = (controller = new AbortController());
  const runs = bodies.map(() => null);
  let revealed = false;
  running = bodies.length;
  $("halt").hidden = false;
  const reveal = () => {
    clearTimeout(held);
    held = null;
    if (!runs.some(Boolean)) return;
    revealed = true;
    comparing = bodies.length > 1;
    panes.forEach((pane, i) => pane.take(runs[i] ?? null));
    picks();
    goal = at;
    player.pause();
    player.at = calm.matches ? Infinity : 0;
    redraw();
    if (at === null && !calm.matches) player.play();
  };
  await Promise.all(bodies.map((sent, i) => stream(sent, signal, {
    header(header) {
      runs[i] = new Run({ header, steps: [] }, "prompt" in sent || "messages" in sent);
      if (revealed) panes[i].take(runs[i]);
      else held ??= setTimeout(reveal, 250);
      refresh();
    },
    step(step, { top }) {
      runs[i].push(step, top);
      refresh();
    },
    done: (done) => runs[i].end(done),
    end() {
      running -= 1;
      if (running) return;
      $("halt").hidden = true;
      if (!revealed) reveal();
      refresh();
    },
  })));
}

// One stream, through restarts of the server: what is shown stays until there is more.
async function stream(sent, signal, on) {
  for (let tries = 0; !signal.aborted; tries += 1) {
    try {
      for await (const event of decode(sent, signal)) {
        net("");
        for (const kind of ["header", "step", "done"]) if (event[kind]) on[kind](event[kind], event);
      }
      break;
    } catch (error) {
      if (signal.aborted) return;
      if (!(await again(error, tries, signal))) {
        problem(error.message, error.param);
        break;
      }
    }
  }
  if (!signal.aborted) on.end();
}

// Whether to ask again after this; waits until then.
async function again(error, tries, signal) {
  if (error.status === 401) return askKey();
  const busy = [429, 503].includes(error.status);
  if (!busy && !(error instanceof Gone)) return false;
  const seconds = error.retry ?? Math.min(2 ** tries, 8);
  const what = busy ? error.message : "The server does not answer.";
  for (let left = seconds; left > 0 && !signal?.aborted; left -= 1) {
    net(`${what} What is shown stays; next try in ${left} s.`);
    await new Promise((done) => {
      setTimeout(done, 1000);
      $("net").querySelector("button").onclick = () => done((left = 0));
    });
  }
  net("Asking again …");
  return true;
}

function net(message) {
  $("net").hidden = !message;
  $("net").querySelector("span").textContent = message;
}

let typed = null; // one question for a key, however many requests wait for it
function askKey() {
  useKey(null);
  typed ??= new Promise((done) => {
    $("key").showModal();
    $("key").onclose = () => {
      const input = $("key").querySelector("input");
      if (input.value) useKey(input.value);
      done(Boolean(input.value));
      input.value = "";
      typed = null;
    };
  });
  return typed;
}

function halt() {
  controller.abort();
  clearTimeout(held);
  held = null;
  running = 0;
  net("");
  $("halt").hidden = true;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  quiet = false;
  start(fields());
});
form.addEventListener("input", fit);
window.addEventListener("resize", fit);
field("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
$("halt").addEventListener("click", () => {
  halt();
  refresh();
});
for (const [name, { about, ...values }] of Object.entries(EXAMPLES)) {
  const button = element("button", { type: "button", class: "chip", title: about }, values.versus ? `${name} (two samplers)` : name);
  button.addEventListener("click", () => {
    fill({ ...values, model: field("model").value });
    start(fields());
  });
  $("examples").append(button);
}
$("samplers").append(...SAMPLERS.map((value) => element("option", { value })));

// ---- masked by hand, filled again

function pick(pane, position, range) {
  const frame = pane.frame(player.at);
  const other = panes.find((each) => each !== pane);
  if (other.picked.size) {
    other.picked.clear();
    if (other.replay) other.sheet.show(other.frame(player.at));
  }
  player.pause();
  const from = range && pane.anchor !== null ? pane.anchor : position;
  const chosen = pane.replay.given.map((_, i) => i).slice(Math.min(from, position), Math.max(from, position) + 1);
  const off = pane.picked.has(position) && !range;
  for (const each of chosen.filter((i) => pane.replay.token(i, frame) !== null)) off ? pane.picked.delete(each) : pane.picked.add(each);
  pane.anchor = position;
  pane.sheet.show(frame);
  picks();
}

function picks() {
  const pane = panes.find((each) => each.picked.size);
  $("again").hidden = !pane;
  if (pane) $("again").querySelector("span").textContent = `${count(pane.picked.size, "token")} masked by hand`;
}

const [refill, leave] = $("again").querySelectorAll("button");
refill.addEventListener("click", () => {
  const pane = panes.find((each) => each.picked.size);
  const frame = pane.frame(player.at);
  const there = pane.replay.given.filter((_, position) => pane.replay.born[position] <= frame);
  const tokens = there.map((_, position) => (pane.picked.has(position) ? "" : (pane.replay.token(position, frame) ?? "")));
  const sides = comparing ? {} : { sampler: String(pane.replay.header.sampler), versus: "" };
  quiet = false;
  start({ ...fields(), ...sides, tokens: tokens.join(",") });
});
leave.addEventListener("click", () => {
  for (const pane of panes) pane.picked.clear();
  for (const pane of shown()) pane.sheet.show(pane.frame(player.at));
  picks();
});

// ---- files and links

function save(pane) {
  const address = URL.createObjectURL(new Blob([write(pane.replay)], { type: "application/jsonl" }));
  const name = `cofill-${String(pane.replay.header.sampler).replace(/[^\w.+-]+/g, "_").slice(0, 60)}.jsonl`;
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

async function load(files) {
  const traces = [];
  for (const file of [...files].slice(0, 2)) {
    try {
      traces.push(read(await file.text()));
    } catch (error) {
      problem(`${file.name}: ${error.message}`);
      return;
    }
  }
  if (!traces.length) return;
  halt();
  problem("");
  comparing = traces.length > 1;
  panes.forEach((pane, i) => pane.take(traces[i] ? new Run(traces[i]) : null));
  request = null;
  picks();
  player.pause();
  player.at = Infinity; // the end, wherever that is
  refresh();
}

$("open").addEventListener("click", () => $("files").click());
$("files").addEventListener("change", (event) => load(event.target.files).finally(() => (event.target.value = "")));
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  document.body.classList.add("dropping");
});
document.addEventListener("dragleave", (event) => event.relatedTarget ?? document.body.classList.remove("dropping"));
document.addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("dropping");
  load(event.dataTransfer.files);
});
$("link").addEventListener("click", async () => {
  history.replaceState(null, "", `${fragment(request)}&at=${player.at}`);
  const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
  $("link").textContent = copied ? "copied" : "it is in the address";
  setTimeout(() => ($("link").textContent = "copy link"), 2000);
});
document.addEventListener("keydown", (event) => event.key === "Escape" && tip.hide());

// ---- colours

const THEMES = { "": ["◐", "as the system"], light: ["☀", "light"], dark: ["☾", "dark"] };
function theme(name) {
  document.documentElement.dataset.theme = name;
  [$("theme").textContent] = THEMES[name];
  $("theme").setAttribute("aria-label", `Colours: ${THEMES[name][1]}`);
}
$("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length];
  theme(next);
  try {
    localStorage.setItem("cofill-theme", next);
  } catch {
    // this time only
  }
});
try {
  const kept = localStorage.getItem("cofill-theme");
  theme(kept && Object.hasOwn(THEMES, kept) ? kept : "");
} catch {
  theme("");
}

// ---- the first picture: a question that the tiny models can answer, or what a link asks

async function names() {
  for (let tries = 0; ; tries += 1) {
    try {
      const found = await models();
      net("");
      return found;
    } catch (error) {
      if (await again(error, tries)) continue;
      problem(error.message);
      return [];
    }
  }
}

function arrive() {
  const linked = asked(location.hash);
  const values = linked?.fields ?? EXAMPLES.chain;
  fill(values);
  start({ ...fields(), ...(values.tokens ? { tokens: values.tokens } : {}) }, linked?.at ?? null);
}

window.addEventListener("hashchange", arrive);
const served = await names();
field("model").append(...served.map((id) => element("option", {}, id)));
const tiny = served.some((id) => id.startsWith("tiny-"));
$("hint").textContent = tiny ? "The tiny models know five kinds of questions:" : "Try:";
arrive();
