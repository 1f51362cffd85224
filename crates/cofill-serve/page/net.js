// Requests to the server that served this page, and to nobody else.

// The server said no: `message` is its own, `param` the field it means.
class Refused extends Error {
  constructor(status, error, retry) {
    super(error?.message ?? `The server answered ${status}.`);
    Object.assign(this, { status, param: error?.param ?? null, retry });
  }
}

// There is no server, or it went away in the middle.
class Gone extends Error {}

let key = null;
const KEY = "cofill-key";

// For this tab alone; where a browser keeps nothing, as long as the page is open.
function useKey(given) {
  key = given;
  try {
    if (given) sessionStorage.setItem(KEY, given);
    else sessionStorage.removeItem(KEY);
  } catch {
    // it is in `key`
  }
}

const headers = () => {
  try {
    key ??= sessionStorage.getItem(KEY);
  } catch {
    // nothing is kept
  }
  return { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
};

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: headers(), cache: "no-store", credentials: "omit" });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Gone("There is no answer.");
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => null);
  throw new Refused(response.status, answer?.error, Number(response.headers.get("retry-after")) || null);
}

const models = async () => ((await (await ask("v1/models")).json()).data ?? []).map(({ id }) => String(id));

// The `data:` of every event in a stream of texts, whatever the pieces it comes in.
async function* data(texts) {
  let rest = "";
  let lines = [];
  for await (const text of texts) {
    const parts = (rest + text).split(/\r\n|\n|\r(?!$)/);
    rest = parts.pop();
    for (const line of parts) {
      if (line === "" && lines.length) {
        yield lines.join("\n");
        lines = [];
      } else if (line.startsWith("data:")) lines.push(line.slice(5).replace(/^ /, ""));
    }
  }
}

async function* texts(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      yield decoder.decode(value, { stream: true });
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// What `cofill` says in the chunks of a decode: `header`, then `step` for step, then `done`.
async function* decode(body, signal) {
  const response = await ask("v1/cofill/decode", { method: "POST", body: JSON.stringify(body), signal });
  try {
    for await (const event of data(texts(response.body))) {
      if (event === "[DONE]") return;
      const chunk = JSON.parse(event);
      if (chunk.error?.code === "draining") throw new Gone("The server is going down.");
      if (chunk.error) throw new Refused(Number(chunk.error.code) || 500, chunk.error, null);
      if (chunk.cofill) yield chunk.cofill;
    }
  } catch (error) {
    throw error instanceof TypeError ? new Gone("The answer broke off.") : error;
  }
  throw new Gone("The answer broke off.");
}

export { Gone, useKey, models, data, decode };
