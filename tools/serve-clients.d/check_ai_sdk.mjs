// Vercel's AI SDK with its provider for compatible servers, which validates every event.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { BUSY, EXPECT, KEY, KEYED, OPEN, holds, quiet, raises, run, same, valid } from "./harness.mjs";

const here = createRequire(`${process.env.COFILL_PACKAGES}/package.json`);
const load = async (name) => import(pathToFileURL(here.resolve(name)));
globalThis.AI_SDK_LOG_WARNINGS = false;
const { generateText, streamText, Output } = await load("ai");
const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
const { z } = await load("zod");
const version = (name) => here(`${name}/package.json`).version;

const provider = (url = OPEN, apiKey = "none", fields = {}) =>
  createOpenAICompatible({ name: "cofill", baseURL: `${url}/v1`, apiKey, supportsStructuredOutputs: true, transformRequestBody: (body) => ({ ...body, ...fields }) });
const ask = (model = provider()(EXPECT.model), more = {}) => ({ model, prompt: EXPECT.question, maxRetries: 0, ...more });
const slow = { max_tokens: EXPECT.slow.max_tokens, ignore_eos: true, cofill: { sampler: EXPECT.slow.sampler, stream: "delta" } };
// Both majors have `fullStream`; errors in it are parts, which must not be overlooked.
async function streamed(options) {
  const result = streamText({ ...options, onError: () => {} });
  let text = "";
  for await (const part of result.fullStream) {
    if (part.type === "error") throw part.error;
    if (part.type === "text-delta") text += part.text;
  }
  return [text, result];
}
// With retries, the SDK wraps what it got.
const inner = (error) => error.lastError ?? error;

await run(`ai ${version("ai")}, openai-compatible ${version("@ai-sdk/openai-compatible")} (node ${process.versions.node})`, {
  chat: async () => {
    const answer = await generateText(ask());
    same(answer.text, EXPECT.answer);
    same(answer.finishReason, "stop");
    holds(answer.usage.outputTokens > 0, "usage");
  },
  "chat, streamed": async () => {
    const [text, result] = await streamed(ask());
    same(text, EXPECT.answer);
    same(await result.finishReason, "stop");
  },
  "usage of a stream": async () => {
    const [, result] = await streamed(ask(createOpenAICompatible({ name: "cofill", baseURL: `${OPEN}/v1`, includeUsage: true })(EXPECT.model)));
    same((await result.usage).outputTokens, (await generateText(ask())).usage.outputTokens);
  },
  // The SDK writes roles around the prompt of a completion, so that nobody can tell which text is right.
  "completion with suffix": async () => {
    const model = provider().completionModel(EXPECT.model);
    const options = { prompt: EXPECT.prefix, maxOutputTokens: EXPECT.gap, providerOptions: { cofill: { suffix: EXPECT.suffix } } };
    const answer = await generateText(ask(model, options));
    holds(typeof answer.text === "string" && answer.text.length > 0, "no text");
  },
  "unknown model": async () => {
    const error = inner(await raises(() => generateText(ask(provider()(EXPECT.unknown_model)))));
    same(error.statusCode, 404);
    holds(error.message.includes(EXPECT.model), `the message names what is served: ${error.message}`);
  },
  "bad fields": async () => {
    const error = inner(await raises(() => generateText(ask(undefined, { temperature: -3 }))));
    same(error.statusCode, 400);
    holds(error.message.includes("temperature"), error.message);
    same(inner(await raises(() => streamed(ask(undefined, { temperature: -3 })))).statusCode, 400);
  },
  keys: async () => {
    same(inner(await raises(() => generateText(ask(provider(KEYED, "wrong")(EXPECT.model))))).statusCode, 401);
    same((await generateText(ask(provider(KEYED, KEY)(EXPECT.model)))).text, EXPECT.answer);
  },
  "full queue, with retries": async () => {
    const model = provider(BUSY, "none", slow)(EXPECT.model);
    const all = await Promise.all([1, 2, 3, 4, 5, 6].map(() => generateText(ask(model, { maxRetries: 20 }))));
    same(new Set(all.map((answer) => answer.text)).size, 1, "different answers:");
  },
  "structured output": async () => {
    const output = Output.object({ schema: z.object({ answer: z.number().int(), sure: z.boolean() }) });
    const answer = await generateText(ask(undefined, { output, maxOutputTokens: 48 }));
    valid(answer.output ?? answer.experimental_output);
  },
  "delta frames": async () => same((await streamed(ask(provider(OPEN, "none", { cofill: { stream: "delta" } })(EXPECT.model))))[0], EXPECT.answer),
  seeds: async () => {
    const texts = [];
    for (const seed of [1, 1, 2, 3, 4]) texts.push((await generateText(ask(undefined, { prompt: EXPECT.open_question, temperature: 1, maxOutputTokens: 24, seed }))).text);
    same(texts[0], texts[1], "the same seed gave");
    holds(new Set(texts).size > 1, "four seeds, one text");
  },
  "a stream that is left": async () => {
    for (let count = 0; count < 3; count += 1) {
      const leave = new AbortController();
      const result = streamText({ ...ask(provider(OPEN, "none", slow)(EXPECT.model)), abortSignal: leave.signal, onError: () => {} });
      for await (const part of result.fullStream) {
        if (part.type === "start-step") setTimeout(() => leave.abort(), 100);
        if (part.type === "abort") break;
      }
    }
    await quiet(OPEN);
    same((await generateText(ask())).text, EXPECT.answer);
  },
});
