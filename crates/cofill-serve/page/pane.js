// One decode on the page: its canvas, its numbers, its strip, its verdict.

import { Replay, visible, number } from "./state.js";
import { element, Sheet, Detail, Status, Strip } from "./draw.js";

// A trace that grows, or one that was read whole, with the times its steps arrived at and what the server said at the end.
class Run {
  // `open`: the text should come to an end by itself, as answers do and gaps do not.
  constructor(trace, open = false) {
    this.open = open;
    this.replay = new Replay(trace);
    this.times = [performance.now()];
    this.tops = []; // of each step, where alternatives were asked for: position -> tokens
    this.done = null;
  }

  push(step, top = []) {
    this.replay.push(step);
    this.tops.push(new Map(top.map(({ position, tokens }) => [position, tokens])));
    this.times.push(performance.now());
  }

  end(done) {
    this.done = done;
    const appended = Math.max((done.tokens?.length ?? 0) - this.replay.length, 0); // that no step came to
    this.replay.end({ nfe: done.nfe, appended });
  }

  // What else the model thought of at a position: when it was committed, or in the step that leads to frame k.
  others(position, k) {
    const step = this.replay.at(position, k).step ?? k - 1;
    const tokens = this.tops[step]?.get(position) ?? [];
    return tokens.length ? [`Likeliest in step ${step}: ${tokens.map(({ piece, p }) => `“${visible(piece)}” ${number(p)}`).join(", ")}.`] : [];
  }

  // The answer as text: the server's, or what was filled.
  answer() {
    const { replay, done } = this;
    if (typeof done?.text === "string") return done.text;
    const pieces = replay.given.flatMap((_, position) => (replay.masked[position] ? [replay.at(position, replay.steps.length).text ?? "░"] : []));
    return pieces.filter((piece) => piece !== "<|endoftext|>").join(replay.words ? " " : "");
  }

  // What there is to say of it, and of what kind that is.
  verdict() {
    const { judged, finish, ended, warnings = [] } = this.done ?? {};
    const cut = finish === "capped" ? "cut off: the most forwards are used up" : ended === "full" && this.open ? "no end of text: the window is full" : "";
    const right = judged && (judged.right ? `✓ ${judged.task}: right` : `✗ ${judged.task}: wrong${judged.why ? `, ${judged.why}` : ""}`);
    return [[right, cut, ...warnings].filter(Boolean).join("; "), judged ? (judged.right ? "right" : "wrong") : ""];
  }
}

class Pane {
  // Frames are found by step, or `byForward` where two panes are compared.
  constructor(letter, host, strips, { tip, pick, jump, save }) {
    Object.assign(this, { letter, run: null, byForward: false, picked: new Set(), differs: new Set(), anchor: null });
    this.title = element("b", { class: "sampler" });
    this.verdict = element("span", { class: "verdict" });
    const saving = element("button", { type: "button", class: "quiet save", title: "Save this trace as JSONL" }, "save trace");
    saving.addEventListener("click", () => save(this));
    const head = element("header", { class: "pane-head" }, element("span", { class: "letter" }, letter), this.title);
    this.status = new Status(head);
    head.append(this.verdict, saving);
    const stage = element("div", { class: "stage" });
    const aside = element("aside", { "aria-label": "This step" });
    this.host = element("section", { class: "pane", "aria-label": `Decode ${letter}`, hidden: "" }, head, element("div", { class: "trace" }, stage, aside));
    host.append(this.host);
    const marks = (position) => [this.picked.has(position) && "picked", this.differs.has(position) && "differs"].filter(Boolean).join(" ");
    this.sheet = new Sheet(stage, tip, { pick: (position, range) => pick(this, position, range), marks, more: (position, k) => this.run.others(position, k) });
    this.detail = new Detail(aside, this.sheet);
    this.band = element("div", { class: "band", "data-letter": letter });
    strips.append(this.band);
    this.strip = new Strip(this.band, jump);
  }

  get replay() {
    return this.run?.replay;
  }

  hide(hidden) {
    this.host.hidden = this.band.hidden = hidden;
  }

  take(run) {
    this.run = run;
    this.anchor = null;
    this.picked.clear();
    this.differs.clear();
    if (run) this.sheet.load(run.replay);
  }

  frame(at) {
    return this.byForward ? this.replay.frame(at) : Math.min(at, this.replay.steps.length);
  }

  draw(at, live) {
    const { replay } = this;
    const frame = this.frame(at);
    this.sheet.show(frame);
    this.status.show(replay, frame);
    this.detail.show(replay, frame, replay.ended || !live);
    this.strip.move(at);
    this.title.textContent = visible(String(replay.header.sampler ?? ""));
    // Only at the end: nobody wants to know how it ends while it plays.
    const [verdict, name] = frame === replay.steps.length ? this.run.verdict() : ["", ""];
    this.verdict.textContent = verdict;
    this.verdict.className = `verdict ${name}`;
  }
}

export { Run, Pane };
