// Run by `it::trace` of the command, like `state.test.mjs` of the page of a trace: what needs no browser.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

// Modules by what they hold: a folder without a package does not say what `.js` means.
const load = (path) => import(`data:text/javascript,${encodeURIComponent(readFileSync(new URL(path, import.meta.url), "utf8"))}`);
const { body, fragment, asked, EXAMPLES } = await load("ask.js");
const { read, write, part, diff } = await load("traces.js");
const { data } = await load("net.js");
const { Replay } = await load("../../cofill-report/src/trace_page/state.js");
const cases = JSON.parse(readFileSync(process.env.TRACES, "utf8"));
const lines = ({ header, steps, end }) => [header, ...steps, ...(end ? [end] : [])].map((line) => JSON.stringify(line)).join("\n");

test("a body says what the form says, and nothing that was left empty", () => {
  const fields = { text: "How many?", sampler: " topk:4 ", seed: "7", length: "auto", temperature: "0.5", stop: "a|\\n\\n", model: "tiny-llada", block: "" };
  const expected = { model: "tiny-llada", prompt: "How many?", sampler: "topk:4", length: "auto", temperature: 0.5, seed: 7, stop: ["a", "\n\n"], stream: true };
  assert.deepEqual(body(fields), expected);
  assert.deepEqual(body({ text: "x", length: "12" }), { prompt: "x", length: 12, stream: true });
  assert.equal(body(fields, "eb:3").sampler, "eb:3");
});

test("a text with gaps is a template, a chat is messages, and ids come first", () => {
  assert.deepEqual(body({ text: "a [MASK:3] b" }), { template: "a [MASK:3] b", stream: true });
  assert.deepEqual(Object.keys(body({ text: "a[MASK:auto]" })), ["template", "stream"]);
  assert.deepEqual(body({ text: "a", as: "chat" }).messages, [{ role: "user", content: "a" }]);
  assert.deepEqual(body({ text: "a", tokens: "5,,7," }), { tokens: [5, null, 7, null], stream: true });
});

test("constraints: a schema is JSON, choices are lines", () => {
  assert.deepEqual(body({ text: "a", constraint: "schema", rule: '{"type":"integer"}' }).schema, { type: "integer" });
  assert.equal(body({ text: "a", constraint: "regex", rule: "[0-9]+" }).regex, "[0-9]+");
  assert.deepEqual(body({ text: "a", constraint: "choice", rule: "yes\nno\n" }).choice, ["yes", "no"]);
  assert.deepEqual(body({ text: "a", constraint: "", rule: "left over" }), { prompt: "a", stream: true });
});

test("what is wrong is refused by the name of its field", () => {
  const wrong = { text: [{ text: " " }], seed: [{ text: "a", seed: "-1" }, { text: "a", seed: "1.5" }, { text: "a", seed: "9007199254740993" }], temperature: [{ text: "a", temperature: "hot" }], length: [{ text: "a", length: "all" }], rule: [{ text: "a", constraint: "schema", rule: "{" }] };
  for (const [name, forms] of Object.entries(wrong)) for (const fields of forms) assert.throws(() => body(fields), (error) => error.param === name, name);
});

test("a link brings back every field", () => {
  for (const fields of [...Object.values(EXAMPLES).map(({ about, ...fields }) => fields), { text: "ä & <b>#?=+%\n\u202e😀", rule: "{}", constraint: "schema", seed: "3" }, { tokens: "1,,2", text: "x" }]) {
    assert.deepEqual(asked(fragment(fields)), { fields, at: null });
    assert.equal(asked(`${fragment(fields)}&at=3`).at, 3);
  }
  for (const hash of ["", "#", "#step=3", "#sampler=topk:1", "#tokens=1;alert(1)"]) assert.equal(asked(hash), null);
});

test("a trace that is read and written is the same", () => {
  for (const { trace } of cases) {
    const again = read(`${lines(trace)}\n`);
    assert.deepEqual(again, { ...trace, end: trace.end ?? null });
    assert.equal(write(new Replay(again)).trim(), lines(trace));
  }
});

test("a bad file is refused with its line", () => {
  const good = lines(cases[0].trace).split("\n");
  const bad = [["", /^line 1: not a cofill trace/], ["{}", /^line 1: not a cofill/], ["no", /^line 1: not JSON/], ["null", /^line 1: not a/], ['{"cofill_trace":2}', /^line 1: version 2/], ['{"cofill_trace":1,"tokens":"a"}', /^line 1: `tokens`/], [[good[0], good[2]].join("\n"), /^line 2: step 1 where step 0/], [[...good, good[1]].join("\n"), /text after the closing line/], [[good[0], good[1].replaceAll('"position":', '"position":9')].join("\n"), /^line 2: `commits`/], [[good[0], "null"].join("\n"), /^line 2: step undefined/], [[good[0], good[1].replace("{", '{"deferred":{"through":3},')].join("\n"), /^line 2: `deferred`/]];
  for (const [text, message] of bad) assert.throws(() => read(text), (error) => message.test(error.message), text);
});

test("two traces part where their canvases first differ after as many forwards", () => {
  // Brute force: every position after every forward.
  const free = structuredClone(cases[0].trace);
  free.steps.slice(1, 3).forEach((step) => (step.forwards = 0)); // two steps that cost nothing
  const replays = [...cases.map(({ trace }) => trace), free].map((trace) => new Replay(trace));
  for (const a of replays) {
    for (const b of replays) {
      const found = part(a, b);
      if (found?.start) {
        assert.notDeepEqual(a.header.tokens, b.header.tokens);
        continue;
      }
      const most = Math.max(a.nfe.at(-1), b.nfe.at(-1));
      let expected = null;
      for (let nfe = 0; nfe <= most && !expected; nfe += 1) {
        const differ = (a.length > b.length ? a : b).given.map((_, i) => i).filter((i) => a.token(i, a.frame(nfe)) !== b.token(i, b.frame(nfe)));
        if (differ.length) expected = { nfe, frames: [a.frame(nfe), b.frame(nfe)], differ };
      }
      assert.deepEqual(found, expected);
    }
  }
  assert.equal(part(replays[0], replays[0]), null);
  const other = new Replay({ header: { ...cases[0].trace.header, tokens: [1] }, steps: [] });
  assert.deepEqual(part(replays[0], other), { start: true });
});

test("a diff keeps both texts and marks what only one has", () => {
  const words = ["a", "b", " ", "12", "ü", "\n", "="];
  const random = (n) => Array.from({ length: n }, (_, i) => words[(i * 7919 + n * 31 + ((i * i) % 5)) % words.length]).join("");
  for (let n = 0; n < 40; n += 1) {
    const [a, b] = [random(n), random(39 - n)];
    const [x, y] = diff(a, b);
    assert.deepEqual([x, y].map((parts) => parts.map(([text]) => text).join("")), [a, b]);
    const common = (parts) => parts.filter(([, same]) => same).map(([text]) => text).join("");
    assert.equal(common(x), common(y));
  }
  assert.deepEqual(diff("3*4*3=24", "2*4*3=24"), [[["3", false], ["*4*3=24", true]], [["2", false], ["*4*3=24", true]]]);
});

test("events come whole, however the stream is cut", async () => {
  const stream = ': \n\ndata: {"a":"ü"}\n\ndata: one\ndata: two\r\n\r\nevent: x\ndata:[DONE]\n\ndata: unfinished';
  for (let size = 1; size < stream.length; size += 1) {
    const cut = async function* () {
      for (let at = 0; at < stream.length; at += size) yield stream.slice(at, at + size);
    };
    const found = [];
    for await (const event of data(cut())) found.push(event);
    assert.deepEqual(found, ['{"a":"ü"}', "one\ntwo", "[DONE]"], `pieces of ${size}`);
  }
});
