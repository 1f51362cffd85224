// What every position was, and when. Nothing here touches a page, so that node can test it.
//
// A trace has the form of its file: `header`, `steps` and perhaps `end`, as the lines are. Frame k is the canvas after k steps.

const BREAK = "⏎";
const SPACED = /^\s|\s$/;

// A piece on one line: nothing invisible, and nothing that would turn the text around it.
function visible(piece) {
  if (piece === "<|endoftext|>") return "∎";
  const shown = piece
    .replace(/\r\n|\n/g, BREAK)
    .replace(/[\0-\x1f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/\x7f/g, "\u2421")
    .replace(/[\x80-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\ufff9-\ufffb]/g, "\ufffd");
  return shown || "∅";
}

// 0.474, 12.0, 1.5e-6, and 1−1.5e-6 for what is not quite 1; `digits` are for columns that need no more. What JSON cannot hold is a dash.
function number(x, digits) {
  if (typeof x !== "number" || !Number.isFinite(x)) return "–";
  if (digits !== undefined) return x.toFixed(digits);
  if (x >= 0.9995 && x < 1) return `1−${(1 - x).toExponential(1)}`;
  if (x === 0 || Math.abs(x) >= 1e-3) return x.toFixed(Math.abs(x) >= 10 ? 1 : 3);
  return x.toExponential(1);
}

// `4`, `4 and 7`, `4, 5 and 7`
function list(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

class Replay {
  constructor({ header, steps, end }) {
    this.header = header;
    this.length = 0;
    this.born = []; // the frame in which a position is there: a canvas may grow
    this.masked = [];
    this.given = [];
    this.events = []; // of each position: { step, commit, piece }, or { step } when it was masked again
    this.edges = new Set(); // where blocks begin
    this.words = true; // words and ids need a gap; pieces bring their own spaces
    this.free = 0;
    const named = header.pieces?.length === header.tokens.length;
    header.tokens.forEach((token, position) => this.add(token, named ? header.pieces[position] : String(token), 0));
    this.steps = [];
    this.nfe = [header.probes ?? 0]; // after k steps
    this.left = [this.free];
    this.filled = [0];
    this.entropy = [0]; // mean of what step k - 1 committed, in nats
    for (const step of steps) this.push(step);
    if (end) this.end(end);
  }

  // One more position, which is there from frame `born` on.
  add(token, piece, born) {
    const { block, mask_id } = this.header;
    const masked = token === mask_id;
    if (masked && block && this.free > 0 && this.free % block === 0) this.edges.add(this.length);
    this.free += masked;
    this.words &&= masked || !SPACED.test(piece);
    this.born.push(born);
    this.masked.push(masked);
    this.given.push(piece);
    this.events.push([]);
    this.length += 1;
  }

  grow(n, born) {
    const { mask_id, pieces } = this.header;
    for (let i = 0; i < (n ?? 0); i += 1) this.add(mask_id, pieces?.length ? "[MASK]" : String(mask_id), born);
  }

  // One more step, as it arrives.
  push(step) {
    const at = this.steps.length;
    const spelled = step.pieces?.length === step.commits.length;
    const fill = (position, event) => {
      this.events[position]?.push({ step: at, ...event });
      this.words &&= !SPACED.test(event.piece);
    };
    this.grow(step.appended, at + 1);
    step.commits.forEach((commit, i) => fill(commit.position, { commit, piece: spelled ? step.pieces[i] : String(commit.token) }));
    const remasked = step.remasked ?? [];
    for (const position of remasked) this.events[position]?.push({ step: at });
    // Behind an end there is nothing but it: these have its piece, and no numbers of their own.
    const { by, token, positions = [] } = step.collapsed ?? {};
    const piece = this.events[by]?.findLast((event) => event.commit)?.piece ?? String(token);
    for (const position of positions) fill(position, { commit: { position, token }, piece, by });
    const filled = step.commits.length + positions.length - remasked.length;
    this.steps.push(step);
    this.nfe.push(this.nfe[at] + step.forwards);
    this.left.push(this.left[at] + (step.appended ?? 0) - filled);
    this.filled.push(this.filled[at] + filled);
    this.entropy.push(step.commits.reduce((sum, { entropy }) => sum + (entropy ?? 0), 0) / Math.max(step.commits.length, 1));
  }

  // How it ended: `nfe` of all, and masks that were added and that no step came to.
  end({ nfe, appended }) {
    this.ended = true;
    this.total = nfe;
    this.late = appended ?? 0;
    this.grow(appended, this.steps.length);
    this.left[this.left.length - 1] += this.late;
  }

  // The last frame that took no more than `nfe` forwards.
  frame(nfe) {
    let k = this.steps.length;
    while (k > 0 && this.nfe[k] > nfe) k -= 1;
    return k;
  }

  // The token at a position in frame k, or null for a mask.
  token(position, k) {
    if (position >= this.length) return null;
    const { kind, commit } = this.at(position, k);
    return kind === "given" ? this.header.tokens[position] : (commit?.token ?? null);
  }

  // A position in frame k. `reserve` is the text that a mask keeps room for, so that nothing moves when it is filled.
  at(position, k) {
    const events = this.events[position];
    let i = events.length - 1;
    while (i >= 0 && events[i].step >= k) i -= 1;
    const last = events[i];
    if (last?.commit) {
      const { piece: text, commit, step, by } = last;
      return { kind: step === k - 1 ? "new" : "done", text, commit, step, by };
    }
    if (this.born[position] > k) return { kind: "unborn", reserve: " " };
    if (!this.masked[position]) return { kind: "given", text: this.given[position] };
    const next = events.slice(i + 1).find((event) => event.commit);
    const reserve = next?.piece ?? events.findLast((event) => event.commit)?.piece ?? " ";
    return { kind: last?.step === k - 1 ? "back" : "mask", reserve, next };
  }

  // Who was deferred by the step that led to frame k.
  deferred(k) {
    const deferred = this.steps[k - 1]?.deferred;
    const named = deferred && [deferred.position, deferred.by, ...(deferred.through ?? [])];
    return named?.every((position) => position < this.length) ? deferred : null;
  }

  // The next frame after k, or before it, that deferred somebody.
  seek(k, by) {
    for (let at = k + by; at >= 0 && at < this.nfe.length; at += by) if (this.deferred(at)) return at;
    return null;
  }

  name(position, k) {
    const { text } = this.at(position, k);
    return text === undefined ? `${position}` : `${position} “${visible(text)}”`;
  }

  // Why somebody waits in frame k, in sentences.
  reason(k) {
    const d = this.deferred(k);
    const through = d.through ?? [];
    const by = this.name(d.by, k);
    const path = through.length ? `depends, through ${list(through.map((mask) => this.name(mask, k)))}, on ${by}` : `attends to ${by}`;
    const said = [
      `Position ${d.position} (c ${number(d.confidence)}) ${path}, which was chosen first and took ${number(d.discount)} from its score.`,
    ];
    const taken = d.instead == null || this.steps[k - 1].commits.some((commit) => commit.position === d.instead);
    if (d.instead == null) said.push("Nobody went instead: the step ended there.");
    else if (taken) said.push(`${this.name(d.instead, k)} went instead.`);
    else said.push(`${this.name(d.instead, k)} was tried instead, and the rule refused it.`);
    const end = this.events[d.position].find((event) => event.commit && event.step >= k);
    if (!d.waits) said.push("It was picked later in the same step.");
    else if (end) said.push(`It was committed in step ${end.step} as “${visible(end.piece)}” (c ${number(end.commit.confidence)}).`);
    else said.push("It was not committed after that.");
    return said;
  }

  // One position in frame k, in sentences.
  about(position, k) {
    const { kind, text, commit, step, by, next } = this.at(position, k);
    if (kind === "unborn") return [`Position ${position} is not there yet: the canvas grows in step ${this.born[position] - 1}.`];
    if (kind === "given") return [`Position ${position} “${visible(text)}” was given.`];
    if (!commit) {
      const again = kind === "back" ? ", masked again in this step" : "";
      const later = next ? [`Committed in step ${next.step} as “${visible(next.piece)}”.`] : ["Never committed after that."];
      return [`Position ${position} is masked${again}.`, ...later];
    }
    if (by !== undefined) return [`Position ${position} “${visible(text)}”: the text ends at ${by}, and so does everything behind it.`];
    const { confidence, entropy, score, utility } = commit;
    const said = [
      `Position ${position} “${visible(text)}”, token ${commit.token}, committed in step ${step}.`,
      `Confidence ${number(confidence)}, entropy ${number(entropy)} nats.`,
    ];
    if (score !== utility) said.push(`Score ${number(score)}, ${number(utility)} after discounts.`);
    return said;
  }

  // Frame k on one line.
  summary(k) {
    if (k === 0) return `Start: ${count(this.left[0], "mask")}.`;
    const step = this.steps[k - 1];
    const more = [];
    if (step.forced) more.push("forced");
    if (step.appended) more.push(`${count(step.appended, "position")} more`);
    if (step.collapsed) more.push(`${step.collapsed.positions.length} ended`);
    if (step.remasked?.length) more.push(`${step.remasked.length} masked again`);
    if (this.deferred(k)) more.push(`${step.deferred.position} deferred`);
    return `Step ${step.step}: ${count(step.commits.length, "commit")}${more.map((m) => `, ${m}`).join("")}; ${count(this.left[k], "mask")} left.`;
  }
}

export { Replay, visible, number, list, count };
