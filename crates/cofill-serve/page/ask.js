// A request: as the form has it, as the server wants it, as a link says it. Nothing here touches a page, so that node can test it.

// Every field of the form, as text; what is not given is "".
const FIELDS = ["text", "as", "model", "sampler", "versus", "seed", "length", "block", "temperature", "max_nfe", "top", "stop", "constraint", "rule", "tokens"];

// One question of each kind that the tiny models know, and how it is best asked.
const EXAMPLES = {
  chain: { about: "word problems, solved step by step", text: "Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?", sampler: "topk:4+ad" },
  sums: { about: "different equations with one result", text: "Write 6 different equations with result 14 using 2, 7, 5, 8, 3, 10.", sampler: "topk:4+ad" },
  code: { about: "a Python function with a given value", text: "Write f so that f(17) is 23: add 6, subtract 4, subtract, add.", sampler: "topk:2" },
  sudoku: { about: "4 by 4", text: "Sudoku:\n0 0 0 0\n2 0 1 0\n3 2 0 0\n1 0 0 0", sampler: "topk:2+ad" },
  predicates: {
    about: "gaps in arithmetic; four at a time, with and without waiting for each other",
    text: "Fill the gaps:\n[MASK:1]*[MASK:1]*[MASK:1]=[MASK:1]\n[MASK:1]*4*[MASK:1]=24\n[MASK:1]+6+[MASK:1]=13\n4*2*[MASK:1]=8\n[MASK:1]+[MASK:1]+[MASK:1]=[MASK:1]",
    sampler: "topk:4",
    versus: "topk:4+ad",
  },
};

class Wrong extends Error {
  constructor(field, message) {
    super(message);
    this.param = field;
  }
}

const GAP = /\[MASK:(\d+|auto)\]/;

function amount(fields, name, whole) {
  const text = (fields[name] ?? "").trim();
  if (!text) return {};
  const value = Number(text);
  const fine = whole ? Number.isSafeInteger(value) && value >= 0 : Number.isFinite(value) && value >= 0;
  if (!fine) throw new Wrong(name, `${name}: ${whole ? "a whole number" : "a number"} from 0 on, not “${text}”`);
  return { [name]: value };
}

// What the canvas holds: ids with null for masks, a chat, a text with gaps, or a prompt.
function content({ text = "", as, tokens }) {
  if (tokens) return { tokens: tokens.split(",").map((id) => (id === "" ? null : Number(id))) };
  if (!text.trim()) throw new Wrong("text", "Ask something first.");
  if (as === "chat") return { messages: [{ role: "user", content: text }] };
  return GAP.test(text) ? { template: text } : { prompt: text };
}

function constraint({ constraint: kind, rule = "" }) {
  if (!kind || !rule.trim()) return {};
  if (kind === "choice") return { choice: rule.split("\n").filter((line) => line !== "") };
  if (kind === "regex") return { regex: rule };
  try {
    return { schema: JSON.parse(rule) };
  } catch (error) {
    throw new Wrong("rule", `The schema is not JSON: ${error.message}`);
  }
}

// The body of `POST /v1/cofill/decode`. Throws `Wrong`, which names the field.
function body(fields, sampler = fields.sampler) {
  const length = (fields.length ?? "").trim();
  const stop = (fields.stop ?? "").split("|").filter(Boolean).map((text) => text.replaceAll("\\n", "\n"));
  return {
    ...(fields.model ? { model: fields.model } : {}),
    ...content(fields),
    ...(sampler?.trim() ? { sampler: sampler.trim() } : {}),
    ...(fields.tokens ? {} : length === "auto" ? { length } : amount(fields, "length", true)), // ids say it themselves
    ...amount(fields, "block", true),
    ...amount(fields, "temperature", false),
    ...amount(fields, "seed", true),
    ...amount(fields, "max_nfe", true),
    ...amount(fields, "top", true),
    ...(stop.length ? { stop } : {}),
    ...constraint(fields),
    stream: true,
  };
}

// `#text=…&sampler=…`: everything that was asked, and nothing else; a key never gets here.
function fragment(fields) {
  const said = FIELDS.flatMap((name) => (fields[name] ? [[name, fields[name]]] : []));
  return `#${new URLSearchParams(said)}`;
}

// The fields of a link, or null where it has none.
function asked(hash) {
  const said = new URLSearchParams(hash.replace(/^#/, ""));
  const fields = Object.fromEntries(FIELDS.flatMap((name) => (said.get(name) ? [[name, said.get(name)]] : [])));
  if (fields.tokens && !/^\d*(,\d*)*$/.test(fields.tokens)) delete fields.tokens;
  return fields.text || fields.tokens ? { fields, at: /^\d+$/.test(said.get("at")) ? Number(said.get("at")) : null } : null;
}

export { FIELDS, EXAMPLES, Wrong, body, fragment, asked };
