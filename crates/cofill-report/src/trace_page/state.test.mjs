// Run by `it::trace` of the command, which writes traces and the texts they end with to the file that TRACES names.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

// A module by what it holds, since its name says `.js` and no package says what that means.
const source = readFileSync(new URL("state.js", import.meta.url), "utf8");
const { Replay, visible, number, list } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
const cases = JSON.parse(readFileSync(process.env.TRACES, "utf8"));
const [adas, p2, hostile, veto, grown, ended] = cases.map(({ trace }) => new Replay(trace));
const positions = (replay) => Array.from({ length: replay.length }, (_, position) => position);

test("the last frame is the end of the decode", () => {
  for (const { trace, text } of cases) {
    const replay = new Replay(trace);
    const shown = positions(replay).map((position) => replay.at(position, replay.steps.length).text ?? "[MASK]");
    assert.equal(shown.join(" "), text);
  }
});

test("masks left and forwards are those of the steps", () => {
  for (const replay of [adas, p2, hostile]) {
    replay.steps.forEach((step, k) => assert.equal(replay.left[k], step.n_masked));
    for (let k = 0; k <= replay.steps.length; k += 1) {
      const masks = positions(replay).filter((position) => replay.at(position, k).text === undefined);
      assert.equal(masks.length, replay.left[k]);
    }
    assert.equal(replay.nfe.at(-1), replay.steps.reduce((sum, step) => sum + step.forwards, 0));
  }
});

test("a canvas that grows has its positions when they are there", () => {
  const at = grown.steps.findIndex((step) => step.appended);
  const there = (k) => positions(grown).filter((position) => grown.at(position, k).kind !== "unborn").length;
  assert.equal(there(at + 1) - there(at), 20);
  assert.equal(there(0), grown.length - grown.steps.reduce((sum, step) => sum + (step.appended ?? 0), 0));
  for (let k = 0; k <= grown.steps.length; k += 1) {
    const masks = positions(grown).filter((position) => ["mask", "back"].includes(grown.at(position, k).kind));
    assert.equal(masks.length, grown.left[k]);
  }
  assert.equal(grown.filled.at(-1), grown.masked.filter(Boolean).length);
  assert.match(grown.about(grown.length - 1, 0)[0], /is not there yet/);
  assert.match(grown.summary(at + 1), /20 positions more/);
});

test("what an end of text ended says so, and has no numbers", () => {
  assert.equal(ended.at(3, 1).text, ended.at(2, 1).text);
  assert.match(ended.about(4, 1)[0], /the text ends at 2/);
  assert.match(ended.summary(1), /2 ended; 2 masks left/);
  assert.deepEqual([ended.left, ended.filled.at(-1)], [[6, 2, 0], 6]);
});

test("steps that arrive one by one lead to the same", () => {
  for (const { trace } of cases) {
    const whole = new Replay(trace);
    const live = new Replay({ header: trace.header, steps: [] });
    for (const step of trace.steps) live.push(step);
    for (const field of ["events", "nfe", "left", "filled", "entropy", "words", "steps", "born", "edges", "given"]) assert.deepEqual(live[field], whole[field]);
  }
});

test("a frame is found by its forwards, and a token by its frame", () => {
  for (const { trace } of cases) {
    const replay = new Replay(trace);
    const last = replay.steps.length;
    for (let k = 0; k <= last; k += 1) assert.equal(replay.frame(replay.nfe[k]), k);
    assert.deepEqual([replay.frame(-1), replay.frame(1e9)], [0, last]);
    const at = (k) => positions(replay).filter((position) => replay.born[position] <= k).map((position) => replay.token(position, k) ?? trace.header.mask_id);
    assert.deepEqual(at(0), trace.header.tokens);
    if (trace.end) assert.deepEqual(at(last), trace.end.tokens);
  }
});

test("a frame marks what its step did, and nothing else", () => {
  for (const replay of [adas, p2]) {
    replay.steps.forEach((step, i) => {
      const of = (kind) => positions(replay).filter((position) => replay.at(position, i + 1).kind === kind);
      const back = [...(step.remasked ?? [])].sort((a, b) => a - b);
      assert.deepEqual(of("back"), back);
      const fresh = step.commits.map((commit) => commit.position).filter((position) => !back.includes(position));
      assert.deepEqual(of("new"), fresh.sort((a, b) => a - b));
    });
  }
  assert.ok(p2.steps.some((step) => step.remasked?.length), "P2 takes something back here");
});

test("a mask keeps room for what comes next", () => {
  assert.equal(adas.at(1, 0).reserve, "Turing");
  const cut = new Replay({ header: adas_header(), steps: [], end: null });
  assert.equal(cut.at(1, 0).reserve, " ");
});

const adas_header = () => cases[0].trace.header;

test("a deferral says who waits, for whom, what it cost, and who went instead", () => {
  const k = adas.seek(0, 1);
  const [why, instead, after] = adas.reason(k);
  assert.match(why, /^Position 1 \(c 0\.474\) attends to 0 “Alan”, which was chosen first and took 7\.501 from its score\.$/);
  assert.match(instead, /^3 “San” went instead\.$/);
  assert.match(after, /^It was committed in step \d as “Turing”/);
  assert.equal(adas.seek(k, -1), null);
});

test("a deferral through masks names them, and a veto has no successor", () => {
  const [why, instead] = veto.reason(1);
  assert.match(why, /^Position 5 \(c 0\.500\) depends, through 2.* and 3.*, on 1.*, which was chosen first and took 0\.250/);
  assert.equal(instead, "Nobody went instead: the step ended there.");
});

test("a deferral off the canvas is not drawn", () => {
  const { trace } = cases[3];
  const steps = structuredClone(trace.steps);
  steps[0].deferred.by = 99;
  assert.equal(new Replay({ ...trace, steps }).deferred(1), null);
});

test("ids stand for pieces that are not there", () => {
  const { header, steps } = structuredClone(cases[0].trace);
  delete header.pieces;
  for (const step of steps) delete step.pieces;
  const bare = new Replay({ header, steps });
  const { position, token } = steps[0].commits[0];
  assert.equal(bare.at(position, 1).text, String(token));
  assert.ok(bare.words && !bare.ended);
});

test("blocks tile what was masked at the start", () => {
  const header = { tokens: [0, 0, 7, 0, 0, 0], mask_id: 0, block: 2 };
  assert.deepEqual([...new Replay({ header, steps: [] }).edges], [3, 5]); // of 0 1 | 3 4 | 5
});

test("what is invisible becomes visible", () => {
  assert.equal(visible("a\r\nb\n"), "a⏎b⏎");
  assert.equal(visible("\0\x1b[31m\t\x7f"), "␀␛[31m␉␡");
  assert.equal(visible("\u202eabc\u2028"), "\ufffdabc\ufffd");
  assert.equal(visible(""), "∅");
  assert.equal(visible("<|endoftext|>"), "∎");
});

test("numbers are short", () => {
  const shown = [0, 0.4744, 12.04, 1.5e-6, -0.6891, 1, 1 - 2.5e-5, null].map((x) => number(x));
  assert.deepEqual(shown, ["0.000", "0.474", "12.0", "1.5e-6", "-0.689", "1.000", "1−2.5e-5", "–"]);
  assert.deepEqual([number(1 - 2.5e-5, 3), number(null, 3)], ["1.000", "–"]);
  assert.deepEqual([[], ["4"], ["4", "7"], ["1", "2", "3"]].map(list), ["", "4", "4 and 7", "1, 2 and 3"]);
});
