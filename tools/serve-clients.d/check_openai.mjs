// The official package for JavaScript, either major. Packages are found from the folder that COFILL_PACKAGES names.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { ASK, BUSY, EXPECT, KEY, KEYED, OPEN, holds, quiet, raises, run, same, valid } from "./harness.mjs";

const here = createRequire(`${process.env.COFILL_PACKAGES}/package.json`);
const load = async (name) => import(pathToFileURL(here.resolve(name)));
const { default: OpenAI } = await load("openai");
const { zodResponseFormat } = await load("openai/helpers/zod");
const { z } = await load("zod");
// The package does not let its own package.json be imported.
const { version } = JSON.parse(readFileSync(`${process.env.COFILL_PACKAGES}/node_modules/openai/package.json`));

const client = new OpenAI({ baseURL: `${OPEN}/v1`, apiKey: "none", maxRetries: 0 });
const chat = (fields = {}, options = {}) => client.chat.completions.create({ model: EXPECT.model, messages: ASK, ...fields }, options);
const slow = { max_tokens: EXPECT.slow.max_tokens, ignore_eos: true, cofill: { sampler: EXPECT.slow.sampler, stream: "delta" } };

async function pieces(stream) {
  const chunks = [];
  for await (const chunk of await stream) chunks.push(chunk);
  return [chunks.map((chunk) => chunk.choices[0]?.delta?.content ?? "").join(""), chunks];
}

await run(`openai-js ${version} (node ${process.versions.node})`, {
  chat: async () => {
    const answer = await chat();
    same(answer.choices[0].message.content, EXPECT.answer);
    same([answer.choices[0].finish_reason, answer.object], ["stop", "chat.completion"]);
    holds(answer.usage.completion_tokens > 0 && answer._request_id, "usage and request id");
  },
  "chat, streamed": async () => {
    const [text, chunks] = await pieces(chat({ stream: true }));
    same(text, EXPECT.answer);
    same(chunks.at(-1).choices[0].finish_reason, "stop");
    holds(chunks.every((chunk) => Array.isArray(chunk.choices)), "every chunk has choices");
  },
  "usage of a stream": async () => {
    const [, chunks] = await pieces(chat({ stream: true, stream_options: { include_usage: true } }));
    same(chunks.at(-1).choices, []);
    same(chunks.at(-1).usage, (await chat()).usage);
  },
  "completion with suffix": async () => {
    const fields = { model: EXPECT.model, prompt: EXPECT.prefix, suffix: EXPECT.suffix, max_tokens: EXPECT.gap };
    same((await client.completions.create(fields)).choices[0].text, EXPECT.filling);
    let text = "";
    for await (const chunk of await client.completions.create({ ...fields, stream: true })) text += chunk.choices[0]?.text ?? "";
    same(text, EXPECT.filling);
  },
  models: async () => {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    same(ids, EXPECT.models);
    same((await client.models.retrieve(EXPECT.model)).id, EXPECT.model);
  },
  "unknown model": async () => {
    const error = await raises(() => chat({ model: EXPECT.unknown_model }));
    same([error.constructor.name, error.status, error.code], ["NotFoundError", 404, "model_not_found"]);
    holds(error.message.includes(EXPECT.model), "the message names what is served");
  },
  "bad fields": async () => {
    const error = await raises(() => chat({ temperature: -3 }));
    same([error.constructor.name, error.param, error.type], ["BadRequestError", "temperature", "invalid_request_error"]);
    const streamed = await raises(() => chat({ stream: true, cofill: { sampler: "nonsense" } }));
    same([streamed.status, streamed.param], [400, "cofill.sampler"]);
  },
  keys: async () => {
    const other = new OpenAI({ baseURL: `${KEYED}/v1`, apiKey: "wrong", maxRetries: 0 });
    const error = await raises(() => other.models.list());
    same([error.constructor.name, error.code], ["AuthenticationError", "invalid_api_key"]);
    const right = new OpenAI({ baseURL: `${KEYED}/v1`, apiKey: KEY, maxRetries: 0 });
    same((await right.chat.completions.create({ model: EXPECT.model, messages: ASK })).choices[0].message.content, EXPECT.answer);
  },
  "full queue": async () => {
    const busy = new OpenAI({ baseURL: `${BUSY}/v1`, apiKey: "none", maxRetries: 0 });
    const all = await Promise.allSettled([1, 2, 3, 4, 5, 6].map(() => busy.chat.completions.create({ model: EXPECT.model, messages: ASK, ...slow })));
    const refused = all.filter((one) => one.status === "rejected").map((one) => one.reason);
    holds(refused.length > 0, "six requests at once, and none was refused");
    for (const error of refused) {
      same([error.status, error.code], [429, "queue_full"]);
      const after = Number(error.headers.get("retry-after"));
      holds(after >= 1 && after <= 60, `retry-after ${after}`);
    }
  },
  "full queue, with retries": async () => {
    const busy = new OpenAI({ baseURL: `${BUSY}/v1`, apiKey: "none", maxRetries: 20 });
    const all = await Promise.all([1, 2, 3, 4, 5, 6].map(() => busy.chat.completions.create({ model: EXPECT.model, messages: ASK, ...slow })));
    same(new Set(all.map((answer) => answer.choices[0].message.content)).size, 1, "different answers:");
  },
  "structured output": async () => {
    const response_format = { type: "json_schema", json_schema: { name: "verdict", schema: EXPECT.schema, strict: true } };
    valid((await chat({ response_format, max_tokens: 48 })).choices[0].message.content);
    valid((await pieces(chat({ response_format, max_tokens: 48, stream: true })))[0]);
  },
  "structured output, parsed": async () => {
    const response_format = zodResponseFormat(z.object({ answer: z.number().int(), sure: z.boolean() }), "verdict");
    valid((await client.chat.completions.parse({ model: EXPECT.model, messages: ASK, response_format, max_tokens: 48 })).choices[0].message.parsed);
  },
  "delta frames": async () => {
    const [text, chunks] = await pieces(chat({ stream: true, cofill: { stream: "delta" } }));
    same(text, EXPECT.answer);
    holds(chunks.some((chunk) => chunk.cofill?.commits?.length > 0), "no frame has commits");
  },
  "the streaming helper": async () => {
    const stream = client.chat.completions.stream({ model: EXPECT.model, messages: ASK, cofill: { stream: "delta" } });
    same((await stream.finalChatCompletion()).choices[0].message.content, EXPECT.answer);
  },
  seeds: async () => {
    const texts = [];
    for (const seed of [1, 1, 2, 3, 4]) texts.push((await chat({ messages: [{ role: "user", content: EXPECT.open_question }], ...EXPECT.wild, seed })).choices[0].message.content);
    same(texts[0], texts[1], "the same seed gave");
    holds(new Set(texts).size > 1, "four seeds, one text");
  },
  "log-probabilities": async () => {
    const rows = (await chat({ logprobs: true, top_logprobs: 2 })).choices[0].logprobs.content;
    same(rows.map((row) => row.token).join(""), EXPECT.answer);
    holds(rows.every((row) => row.top_logprobs.length === 2), "two alternatives each");
  },
  "a stream that is left": async () => {
    for (let count = 0; count < 3; count += 1) {
      for await (const chunk of await chat({ ...slow, stream: true })) {
        holds(chunk, "a chunk");
        break; // the package aborts the request
      }
    }
    await quiet(OPEN);
    same((await chat()).choices[0].message.content, EXPECT.answer);
  },
  "a timeout": async () => {
    same((await raises(() => chat(slow, { timeout: 200 }))).constructor.name, "APIConnectionTimeoutError");
    await quiet(OPEN);
  },
});
