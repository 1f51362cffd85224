// What every position was, and when. Nothing here touches a page, so that node can test it.
//
// A trace has the form of its file: `header`, `steps` and perhaps `end`, as the lines are. Frame k is the canvas after k steps.

const BREAK = "⏎";

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
    const { mask_id, pieces, block } = header;
    const named = pieces?.length === header.tokens.length;
    // A canvas that grows is drawn as long as it becomes; `born` is the frame in which a position is there.
    const born = header.tokens.map(() => 0);
    const grow = (n, frame) => {
      for (let i = 0; i < (n ?? 0); i += 1) born.push(frame);
    };
    steps.forEach((step, at) => grow(step.appended, at + 1));
    grow(end?.appended, steps.length);
    const tokens = born.map((_, position) => header.tokens[position] ?? mask_id);
    this.born = born;
    this.length = tokens.length;
    this.steps = steps;
    this.ended = Boolean(end);
    this.masked = tokens.map((token) => token === mask_id);
    this.given = tokens.map((token, position) => (named ? (pieces[position] ?? "[MASK]") : String(token)));
    this.events = tokens.map(() => []); // of each position: { step, commit, piece }, or { step } when it was masked again
    this.nfe = [header.probes ?? 0]; // after k steps
    this.left = [this.masked.filter((masked, position) => masked && born[position] === 0).length];
    this.filled = [0];
    steps.forEach((step, at) => {
      const spelled = step.pieces?.length === step.commits.length;
      let left = this.left[at] + (step.appended ?? 0);
      let filled = this.filled[at];
      step.commits.forEach((commit, i) => {
        const piece = spelled ? step.pieces[i] : String(commit.token);
        this.events[commit.position]?.push({ step: at, commit, piece });
        left -= 1;
        filled += 1;
      });
      for (const position of step.remasked ?? []) {
        this.events[position]?.push({ step: at });
        left += 1;
        filled -= 1;
      }
      // Behind an end there is nothing but it: these have its piece, and no numbers of their own.
      const ended = step.collapsed;
      const piece = ended && (this.events[ended.by]?.findLast((event) => event.commit)?.piece ?? String(ended.token));
      for (const position of ended?.positions ?? []) {
        this.events[position]?.push({ step: at, commit: { position, token: ended.token }, piece, by: ended.by });
        left -= 1;
        filled += 1;
      }
      this.nfe.push(this.nfe[at] + step.forwards);
      this.left.push(left);
      this.filled.push(filled);
    });
    const text = this.given.filter((_, position) => !this.masked[position]);
    const all = text.concat(this.events.flat().map((event) => event.piece ?? ""));
    // Words and ids need a gap; pieces bring their own spaces.
    this.words = !all.some((piece) => /^\s|\s$/.test(piece));
    const free = this.masked.flatMap((masked, position) => (masked ? [position] : []));
    this.edges = new Set(block ? free.filter((_, i) => i > 0 && i % block === 0) : []);
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
