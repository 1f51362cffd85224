// What the checks in JavaScript share; see harness.py.
import { readFileSync } from "node:fs";

export const OPEN = process.env.COFILL_OPEN;
export const KEYED = process.env.COFILL_KEYED;
export const KEY = process.env.COFILL_KEY;
export const BUSY = process.env.COFILL_BUSY;
export const EXPECT = JSON.parse(readFileSync(new URL("expect.json", import.meta.url)));
export const ASK = [{ role: "user", content: EXPECT.question }];

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

export function same(got, want, what = "got") {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${what} ${JSON.stringify(got)}, expected ${JSON.stringify(want)}`);
}

export function holds(truth, what) {
  if (!truth) throw new Error(what);
}

// The error that a call must end with.
export async function raises(call) {
  let got;
  try {
    got = await call();
  } catch (error) {
    return error;
  }
  throw new Error(`expected an error, got ${JSON.stringify(got)?.slice(0, 200)}`);
}

export function valid(given) {
  const value = typeof given === "string" ? JSON.parse(given) : given;
  same(Object.keys(value).sort(), ["answer", "sure"], "keys");
  holds(Number.isInteger(value.answer) && typeof value.sure === "boolean", `not as the schema says: ${JSON.stringify(value)}`);
}

// After a cancelled request: the server is well, and soon nothing runs any more.
export async function quiet(url) {
  same((await (await fetch(`${url}/health`)).json()).status, "ok", "health");
  for (let tries = 0; ; tries += 1) {
    const lines = (await (await fetch(`${url}/metrics`)).text()).split("\n");
    const running = lines.filter((line) => /^cofill_requests_(running|waiting)/.test(line)).reduce((sum, line) => sum + Number(line.split(" ").pop()), 0);
    if (running === 0) return;
    holds(tries < 200, `${running} requests still run 10 s after their client left`);
    await sleep(50);
  }
}

// A line for each check: `ok` or `FAIL`, the client, the check, and why.
export async function run(client, checks) {
  let failed = 0;
  for (const [name, check] of Object.entries(checks)) {
    let line = `ok   ${client}: ${name}`;
    try {
      await check();
    } catch (error) {
      failed += 1;
      line = `FAIL ${client}: ${name}: ${`${error?.name}: ${error?.message}`.replaceAll("\n", " ").slice(0, 600)}`;
      if (process.env.COFILL_VERBOSE) console.error(error);
    }
    console.log(line);
  }
  process.exit(failed ? 1 : 0);
}
