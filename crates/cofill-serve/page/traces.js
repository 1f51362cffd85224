// Files of traces, and two traces compared. Nothing here touches a page, so that node can test it.

const MOST = 20_000; // positions that a browser can still draw

// A trace from its lines; `header`, `steps` and perhaps `end`. Says which line is wrong.
function read(text) {
  const lines = text.split("\n").map((line) => line.trim());
  while (lines.at(-1) === "") lines.pop();
  const fail = (at, problem) => {
    throw new Error(`line ${at + 1}: ${problem}`);
  };
  const objects = lines.map((line, at) => {
    try {
      return JSON.parse(line) ?? {};
    } catch {
      return fail(at, "not JSON");
    }
  });
  const [header, ...rest] = objects;
  if (header?.cofill_trace === undefined) fail(0, "not a cofill trace: no `cofill_trace` version");
  if (header.cofill_trace !== 1) fail(0, `version ${header.cofill_trace}, but this page reads version 1`);
  const ids = (list) => Array.isArray(list) && list.every(Number.isInteger);
  if (!ids(header.tokens)) fail(0, "`tokens` is not a list of ids");
  if (header.tokens.length > MOST) fail(0, `${header.tokens.length} positions; this page draws ${MOST}`);
  const texts = (list) => list === undefined || (Array.isArray(list) && list.every((text) => typeof text === "string"));
  if (!texts(header.pieces)) fail(0, "`pieces` is not a list of texts");
  let { length } = header.tokens;
  const grow = (at, n = 0) => {
    if (!Number.isInteger(n) || n < 0 || (length += n) > MOST) fail(at, "`appended` is not a number of positions, or too large");
  };
  const on = (position) => Number.isInteger(position) && position >= 0 && position < length;
  const all = (list) => Array.isArray(list) && list.every(on);
  const steps = [];
  let end = null;
  rest.forEach((line, i) => {
    if (end) fail(i + 1, "text after the closing line");
    grow(i + 1, line.appended);
    if (line.nfe !== undefined && line.commits === undefined) {
      end = line;
      return;
    }
    if (line.step !== steps.length) fail(i + 1, `step ${line.step} where step ${steps.length} should be`);
    if (!Array.isArray(line.commits) || !line.commits.every((commit) => on(commit?.position))) fail(i + 1, "`commits` are not positions of the canvas");
    if (!texts(line.pieces) || !Number.isInteger(line.forwards) || line.forwards < 0) fail(i + 1, "`pieces` or `forwards` has the wrong type");
    if (!all(line.remasked ?? [])) fail(i + 1, "`remasked` are not positions of the canvas");
    if (line.collapsed && !(on(line.collapsed.by) && all(line.collapsed.positions))) fail(i + 1, "`collapsed` are not positions of the canvas");
    if (line.deferred && !(typeof line.deferred === "object" && Array.isArray(line.deferred.through ?? []))) fail(i + 1, "`deferred` has the wrong type");
    steps.push(line);
  });
  return { header, steps, end };
}

// The lines of a replay. The closing line is written for a decode that ended.
function write(replay) {
  const last = replay.steps.length;
  const tokens = replay.given.map((_, position) => replay.token(position, last) ?? replay.header.mask_id);
  const end = replay.ended ? [{ nfe: replay.total ?? replay.nfe[last], tokens, ...(replay.late ? { appended: replay.late } : {}) }] : [];
  return [replay.header, ...replay.steps, ...end].map((line) => `${JSON.stringify(line)}\n`).join("");
}

// The first NFE after which two replays of the same canvas differ, and who committed what alone; null if never, `start` if they never were alike.
function part(a, b) {
  if (a.header.tokens.length !== b.header.tokens.length || a.header.tokens.some((token, position) => token !== b.header.tokens[position])) return { start: true };
  const touched = (replay, from, to) => replay.steps.slice(from, to).flatMap(({ commits, remasked, collapsed }) => [...commits.map(({ position }) => position), ...(remasked ?? []), ...(collapsed?.positions ?? [])]);
  let [i, j] = [0, 0];
  for (const nfe of [...new Set([...a.nfe, ...b.nfe])].sort((x, y) => x - y)) {
    const [k, l] = [a.frame(nfe), b.frame(nfe)];
    const changed = new Set([...touched(a, i, k), ...touched(b, j, l)]);
    const differ = [...changed].filter((position) => a.token(position, k) !== b.token(position, l)).sort((x, y) => x - y);
    if (differ.length) return { nfe, frames: [k, l], differ };
    [i, j] = [k, l];
  }
  return null;
}

// Two texts, word by word: lists of [text, whether the other has it, too].
function diff(a, b) {
  const [x, y] = [a, b].map((text) => text.match(/\s+|[\p{L}_]+|\p{N}+|[^]/gu) ?? []);
  const same = x.map(() => new Uint16Array(y.length + 1)); // longest common part of the rest
  if (x.length * y.length > 4e6) return [a, b].map((text) => [[text, a === b]]);
  for (let i = x.length - 1; i >= 0; i -= 1) {
    for (let j = y.length - 1; j >= 0; j -= 1) same[i][j] = x[i] === y[j] ? 1 + (same[i + 1]?.[j + 1] ?? 0) : Math.max(same[i + 1]?.[j] ?? 0, same[i][j + 1]);
  }
  const parts = [[], []];
  const put = (side, text, common) => (parts[side].at(-1)?.[1] === common ? (parts[side].at(-1)[0] += text) : parts[side].push([text, common]));
  let [i, j] = [0, 0];
  while (i < x.length || j < y.length) {
    if (i < x.length && j < y.length && x[i] === y[j]) {
      put(0, x[i++], true);
      put(1, y[j++], true);
    } else if (j < y.length && (i === x.length || same[i][j + 1] >= (same[i + 1]?.[j] ?? 0))) put(1, y[j++], false);
    else put(0, x[i++], false);
  }
  return parts;
}

export { read, write, part, diff };
