"""The official Python package, either major."""

import asyncio
import concurrent.futures

import openai
from harness import ASK, BUSY, EXPECT, KEY, KEYED, OPEN, SCHEMA, checks, quiet, raises, run, same, valid, version
from openai import AsyncOpenAI, OpenAI

client = OpenAI(base_url=f"{OPEN}/v1", api_key="none", max_retries=0)
create = client.chat.completions.create
table, check = checks()
TALE = [{"role": "user", "content": EXPECT.open_question}]


def chat(**fields):
    return create(**{"model": EXPECT.model, "messages": ASK, **fields})


def pieces(stream):
    """The text of a stream, and its chunks."""
    chunks = list(stream)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), chunks


@check("chat")
def _():
    answer = chat()
    choice = answer.choices[0]
    same(choice.message.content, EXPECT.answer)
    same((choice.message.role, choice.finish_reason, answer.object), ("assistant", "stop", "chat.completion"))
    same(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
    assert answer.usage.completion_tokens > 0 and answer.id.startswith("chatcmpl-") and answer.model == EXPECT.model
    assert answer._request_id, "no x-request-id"


@check("chat, streamed")
def _():
    text, chunks = pieces(chat(stream=True))
    same(text, EXPECT.answer)
    same(chunks[0].choices[0].delta.role, "assistant")
    same(chunks[-1].choices[0].finish_reason, "stop")
    same({chunk.object for chunk in chunks}, {"chat.completion.chunk"})
    assert len({chunk.id for chunk in chunks}) == 1, "one id for a stream"
    assert all(chunk.usage is None for chunk in chunks), "usage was not asked for"


@check("usage of a stream")
def _():
    text, chunks = pieces(chat(stream=True, stream_options={"include_usage": True}))
    same(text, EXPECT.answer)
    same(chunks[-1].choices, [])
    same(chunks[-1].usage, chat().usage)
    assert all(chunk.usage is None for chunk in chunks[:-1])


@check("chat, asynchronous, eight at once")
def _():
    async def go():
        async with AsyncOpenAI(base_url=f"{OPEN}/v1", api_key="none", max_retries=0) as many:
            answers = [many.chat.completions.create(model=EXPECT.model, messages=ASK) for _ in range(8)]
            return [answer.choices[0].message.content for answer in await asyncio.gather(*answers)]
    same(asyncio.run(go()), [EXPECT.answer] * 8)


@check("completion with suffix")
def _():
    fields = dict(model=EXPECT.model, prompt=EXPECT.prefix, suffix=EXPECT.suffix, max_tokens=EXPECT.gap)
    answer = client.completions.create(**fields)
    same(answer.object, "text_completion")
    same(answer.choices[0].text, EXPECT.filling)
    streamed = "".join(chunk.choices[0].text for chunk in client.completions.create(**fields, stream=True) if chunk.choices)
    same(streamed, EXPECT.filling)


@check("completions of several prompts")
def _():
    answer = client.completions.create(model=EXPECT.model, prompt=[EXPECT.question, EXPECT.question], n=2, max_tokens=8)
    same([choice.index for choice in answer.choices], [0, 1, 2, 3])
    same(len({choice.text for choice in answer.choices}), 1, "at temperature 0, different texts:")


@check("models")
def _():
    same([model.id for model in client.models.list()], EXPECT.models)
    same(client.models.retrieve(EXPECT.model).owned_by, "cofill")


@check("unknown model")
def _():
    error = raises(openai.NotFoundError, lambda: chat(model=EXPECT.unknown_model))
    same((error.status_code, error.code, error.type), (404, "model_not_found", "not_found_error"))
    assert EXPECT.model in str(error), "the message should name what is served"


@check("bad fields")
def _():
    for fields, param in [
        ({"temperature": -3}, "temperature"),
        ({"n": 0}, "n"),
        ({"top_logprobs": 99, "logprobs": True}, "top_logprobs"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": []}, "messages"),
        ({"extra_body": {"cofill": {"sampler": "nonsense:1"}}}, "cofill.sampler"),
        ({"extra_body": {"cofill": {"bogus": 1}}}, "cofill"),
    ]:
        error = raises(openai.BadRequestError, lambda: chat(**fields))
        same((error.type, (error.param or "").split(".bogus")[0]), ("invalid_request_error", param), f"{fields}:")
        assert param.split(".")[-1].split("[")[0] in str(error), f"{fields}: the message does not name the field: {error}"


@check("keys")
def _():
    for key in ["wrong", KEY[:-1], KEY + "x"]:
        other = OpenAI(base_url=f"{KEYED}/v1", api_key=key, max_retries=0)
        error = raises(openai.AuthenticationError, lambda: other.models.list())
        same((error.code, error.type), ("invalid_api_key", "authentication_error"))
        assert error.request_id and key not in str(error).replace("API key", "").replace("KEY", "")
    right = OpenAI(base_url=f"{KEYED}/v1", api_key=KEY, max_retries=0)
    same(right.chat.completions.create(model=EXPECT.model, messages=ASK).choices[0].message.content, EXPECT.answer)


def flood(retries):
    """Six requests at once to a server that holds two: answers, or errors."""
    busy = OpenAI(base_url=f"{BUSY}/v1", api_key="none", max_retries=retries)

    def one(_):
        try:
            return busy.chat.completions.create(
                model=EXPECT.model, messages=ASK, max_tokens=EXPECT.slow.max_tokens,
                extra_body={"cofill": {"sampler": EXPECT.slow.sampler}, "ignore_eos": True})
        except openai.APIStatusError as error:
            return error
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        return list(pool.map(one, range(6)))


@check("full queue")
def _():
    refused = [answer for answer in flood(0) if isinstance(answer, Exception)]
    assert refused, "six requests at once, and none was refused"
    for error in refused:
        same((error.status_code, error.code, error.type), (429, "queue_full", "rate_limit_error"))
        assert 1 <= int(error.response.headers["retry-after"]) <= 60


@check("full queue, with retries")
def _():
    answers = flood(20)
    failed = [answer for answer in answers if isinstance(answer, Exception)]
    assert not failed, failed
    same(len({answer.choices[0].message.content for answer in answers}), 1, "different answers:")


@check("structured output")
def _():
    shape = {"type": "json_schema", "json_schema": {"name": "verdict", "schema": SCHEMA, "strict": True}}
    for temperature in [0, 1]:
        valid(chat(response_format=shape, max_tokens=48, temperature=temperature, seed=3).choices[0].message.content)
    text, _ = pieces(chat(response_format=shape, max_tokens=48, stream=True))
    valid(text)


@check("structured output, parsed")
def _():
    from pydantic import BaseModel

    class Verdict(BaseModel):
        answer: int
        sure: bool
    for completions in [client.chat.completions, client.beta.chat.completions]:
        parsed = completions.parse(model=EXPECT.model, messages=ASK, response_format=Verdict, max_tokens=48)
        assert isinstance(parsed.choices[0].message.parsed, Verdict)


@check("a schema that cannot be")
def _():
    bad = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "string", "minLength": 5000}, "strict": True}}
    error = raises(openai.BadRequestError, lambda: chat(response_format=bad, max_tokens=16))
    assert error.code in ("unsatisfiable_schema", "invalid_schema"), error.code


@check("delta frames")
def _():
    text, chunks = pieces(chat(stream=True, extra_body={"cofill": {"stream": "delta"}}))
    same(text, EXPECT.answer)
    frames = [chunk.model_extra["cofill"] for chunk in chunks if "cofill" in (chunk.model_extra or {})]
    commits = [commit["position"] for frame in frames for commit in frame.get("commits", [])]
    assert commits and len(commits) == len(set(commits)), "positions are committed once"
    assert any("canvas" in frame for frame in frames), "the canvas comes first"


@check("drafts")
def _():
    for fields in [{"cofill": {"stream": "draft"}}, {"diffusing": True}]:
        _, chunks = pieces(chat(stream=True, extra_body=fields))
        shown = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
        same(shown[-1], EXPECT.answer)
        assert any("░" in text for text in shown), "no draft had masks"


@check("the streaming helper")
def _():
    with client.chat.completions.stream(model=EXPECT.model, messages=ASK, extra_body={"cofill": {"stream": "delta"}}) as stream:
        for _ in stream:
            pass
        same(stream.get_final_completion().choices[0].message.content, EXPECT.answer)


@check("seeds")
def _():
    texts = [chat(messages=TALE, **vars(EXPECT.wild), seed=seed).choices[0].message.content for seed in [1, 1, 2, 3, 4]]
    same(texts[0], texts[1], "the same seed gave")
    assert len(set(texts[1:])) > 1, "four seeds, one text"
    drawn = chat(messages=TALE, **vars(EXPECT.wild))
    again = chat(messages=TALE, **vars(EXPECT.wild), seed=drawn.model_extra["cofill"]["seed"])
    same(again.choices[0].message.content, drawn.choices[0].message.content, "with the seed that was drawn:")


@check("several choices")
def _():
    answer = chat(messages=TALE, **vars(EXPECT.wild), n=3, seed=5)
    same([choice.index for choice in answer.choices], [0, 1, 2])
    texts = {}
    for chunk in chat(messages=TALE, **vars(EXPECT.wild), n=3, seed=5, stream=True):
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
    same(texts, {choice.index: choice.message.content for choice in answer.choices})


@check("stop")
def _():
    same(chat(stop=EXPECT.stop).choices[0].message.content, EXPECT.answer_before_stop)
    same(pieces(chat(stop=[EXPECT.stop, "never"], stream=True))[0], EXPECT.answer_before_stop)


@check("log-probabilities")
def _():
    rows = chat(logprobs=True, top_logprobs=3).choices[0].logprobs.content
    same("".join(row.token for row in rows), EXPECT.answer)
    assert all(row.logprob <= 1e-6 and len(row.top_logprobs) == 3 for row in rows)
    assert all(row.top_logprobs[0].logprob >= row.top_logprobs[1].logprob for row in rows)
    lists = client.completions.create(model=EXPECT.model, prompt=EXPECT.question, max_tokens=8, logprobs=2).choices[0].logprobs
    same(len({len(part) for part in [lists.tokens, lists.token_logprobs, lists.top_logprobs, lists.text_offset]}), 1, "lengths")


@check("a stream that is left")
def _():
    for _ in range(4):
        with chat(stream=True, max_tokens=EXPECT.slow.max_tokens, extra_body={
                "ignore_eos": True, "cofill": {"sampler": EXPECT.slow.sampler, "stream": "delta"}}) as stream:
            next(iter(stream))
    quiet(OPEN)
    same(chat().choices[0].message.content, EXPECT.answer)


@check("a timeout")
def _():
    raises(openai.APITimeoutError, lambda: chat(
        max_tokens=EXPECT.slow.max_tokens, timeout=0.2, extra_body={"ignore_eos": True, "cofill": {"sampler": EXPECT.slow.sampler}}))
    quiet(OPEN)
    same(chat().choices[0].message.content, EXPECT.answer)


run(f"openai-python {version('openai')}", table)
