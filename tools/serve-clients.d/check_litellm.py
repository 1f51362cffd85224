"""LiteLLM as a library: the providers `openai/` and `inception/`."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no request leaves this host

import litellm
from harness import ASK, BUSY, EXPECT, KEY, KEYED, OPEN, SCHEMA, checks, quiet, raises, run, same, valid, version

litellm.telemetry = False
litellm.suppress_debug_info = True
table, check = checks()
TALE = [{"role": "user", "content": EXPECT.open_question}]


def chat(url=OPEN, **fields):
    return litellm.completion(**{
        "model": f"openai/{EXPECT.model}", "api_base": f"{url}/v1", "api_key": "none", "messages": ASK, "max_retries": 0, **fields})


def joined(stream):
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


@check("chat")
def _():
    answer = chat()
    same(answer.choices[0].message.content, EXPECT.answer)
    same(answer.choices[0].finish_reason, "stop")
    assert answer.usage.completion_tokens > 0


@check("chat, streamed")
def _():
    same(joined(chat(stream=True)), EXPECT.answer)


@check("usage of a stream")
def _():
    chunks = list(chat(stream=True, stream_options={"include_usage": True}))
    same(joined(chunks), EXPECT.answer)
    usage = [chunk.usage for chunk in chunks if getattr(chunk, "usage", None)]
    same(usage[-1].total_tokens, chat().usage.total_tokens)


@check("completion with suffix")
def _():
    answer = litellm.text_completion(
        model=f"text-completion-openai/{EXPECT.model}", api_base=f"{OPEN}/v1", api_key="none", prompt=EXPECT.prefix, suffix=EXPECT.suffix,
        max_tokens=EXPECT.gap)
    same(answer.choices[0].text, EXPECT.filling)


@check("the provider of Mercury")
def _():
    fields = dict(model=f"inception/{EXPECT.model}")
    same(chat(**fields).choices[0].message.content, EXPECT.answer)
    # Drafts replace what was shown: the last one is the text.
    drafts = [chunk.choices[0].delta.content for chunk in chat(**fields, stream=True, diffusing=True) if chunk.choices]
    same([draft for draft in drafts if draft][-1], EXPECT.answer)


@check("unknown model")
def _():
    error = raises(litellm.NotFoundError, lambda: chat(model=f"openai/{EXPECT.unknown_model}"))
    assert EXPECT.model in str(error), error


@check("bad fields")
def _():
    error = raises(litellm.BadRequestError, lambda: chat(temperature=-3))
    assert "temperature" in str(error), error


@check("keys")
def _():
    raises(litellm.AuthenticationError, lambda: chat(KEYED, api_key="wrong"))
    same(chat(KEYED, api_key=KEY).choices[0].message.content, EXPECT.answer)


@check("full queue, with retries")
def _():
    import concurrent.futures
    slow = dict(max_retries=20, max_tokens=EXPECT.slow.max_tokens, extra_body={"ignore_eos": True, "cofill": {"sampler": EXPECT.slow.sampler}})
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        texts = list(pool.map(lambda _: chat(BUSY, **slow).choices[0].message.content, range(6)))
    same(len(set(texts)), 1, "different answers:")


@check("structured output")
def _():
    shape = {"type": "json_schema", "json_schema": {"name": "verdict", "schema": SCHEMA, "strict": True}}
    valid(chat(response_format=shape, max_tokens=48).choices[0].message.content)


@check("delta frames")
def _():
    same(joined(chat(stream=True, extra_body={"cofill": {"stream": "delta"}})), EXPECT.answer)


@check("seeds")
def _():
    wild = [chat(messages=TALE, **vars(EXPECT.wild), seed=seed).choices[0].message.content for seed in [1, 1, 2, 3, 4]]
    same(wild[0], wild[1], "the same seed gave")
    assert len(set(wild)) > 1


@check("log-probabilities")
def _():
    rows = chat(logprobs=True, top_logprobs=2).choices[0].logprobs.content
    same("".join(row["token"] if isinstance(row, dict) else row.token for row in rows), EXPECT.answer)


@check("a stream that is left")
def _():
    for _ in range(3):
        stream = chat(stream=True, max_tokens=EXPECT.slow.max_tokens, extra_body={
            "ignore_eos": True, "cofill": {"sampler": EXPECT.slow.sampler, "stream": "delta"}})
        next(iter(stream))
        stream.completion_stream.close()
    quiet(OPEN)
    same(chat().choices[0].message.content, EXPECT.answer)


run(f"litellm {version('litellm')} (openai {version('openai')})", table)
