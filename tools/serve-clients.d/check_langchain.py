"""LangChain's ChatOpenAI and OpenAI."""

import openai
from harness import BUSY, EXPECT, KEY, KEYED, OPEN, SCHEMA, checks, quiet, raises, run, same, valid, version
from langchain_openai import ChatOpenAI
from langchain_openai import OpenAI as TextOpenAI

table, check = checks()
QUESTION = [("user", EXPECT.question)]


def model(url=OPEN, **fields):
    return ChatOpenAI(**{"base_url": f"{url}/v1", "api_key": "none", "model": EXPECT.model, "max_retries": 0, **fields})


def joined(stream):
    """The chunks of a stream, added up as LangChain does."""
    whole = None
    for chunk in stream:
        whole = chunk if whole is None else whole + chunk
    return whole


@check("chat")
def _():
    answer = model().invoke(QUESTION)
    same(answer.content, EXPECT.answer)
    same(answer.response_metadata["finish_reason"], "stop")
    assert answer.usage_metadata["output_tokens"] > 0


@check("chat, streamed")
def _():
    whole = joined(model().stream(QUESTION))
    same(whole.content, EXPECT.answer)
    same(whole.response_metadata["finish_reason"], "stop")


@check("usage of a stream")
def _():
    whole = joined(model(stream_usage=True).stream(QUESTION))
    same(whole.usage_metadata["total_tokens"], model().invoke(QUESTION).usage_metadata["total_tokens"])


@check("a batch")
def _():
    same([answer.content for answer in model().batch([QUESTION] * 4)], [EXPECT.answer] * 4)


@check("completion with suffix")
def _():
    text = TextOpenAI(base_url=f"{OPEN}/v1", api_key="none", model=EXPECT.model, max_tokens=EXPECT.gap, max_retries=0,
                      model_kwargs={"suffix": EXPECT.suffix})
    same(text.invoke(EXPECT.prefix), EXPECT.filling)
    same("".join(text.stream(EXPECT.prefix)), EXPECT.filling)


@check("unknown model")
def _():
    error = raises(openai.NotFoundError, lambda: model(model=EXPECT.unknown_model).invoke(QUESTION))
    same(error.code, "model_not_found")


@check("bad fields")
def _():
    error = raises(openai.BadRequestError, lambda: model(temperature=-3).invoke(QUESTION))
    same(error.param, "temperature")
    assert "temperature" in str(error)
    raises(openai.BadRequestError, lambda: joined(model(temperature=-3).stream(QUESTION)))


@check("keys")
def _():
    raises(openai.AuthenticationError, lambda: model(KEYED, api_key="wrong").invoke(QUESTION))
    same(model(KEYED, api_key=KEY).invoke(QUESTION).content, EXPECT.answer)


@check("full queue, with retries")
def _():
    slow = model(BUSY, max_retries=20, max_tokens=EXPECT.slow.max_tokens,
                 extra_body={"ignore_eos": True, "cofill": {"sampler": EXPECT.slow.sampler}})
    same(len({answer.content for answer in slow.batch([QUESTION] * 6)}), 1, "different answers:")


@check("structured output")
def _():
    from pydantic import BaseModel

    class Verdict(BaseModel):
        answer: int
        sure: bool
    assert isinstance(model(max_tokens=48).with_structured_output(Verdict).invoke(QUESTION), Verdict)
    named = dict(SCHEMA, title="verdict")
    valid(model(max_tokens=48).with_structured_output(named, method="json_schema").invoke(QUESTION))


@check("delta frames")
def _():
    same(joined(model(extra_body={"cofill": {"stream": "delta"}}).stream(QUESTION)).content, EXPECT.answer)


@check("seeds")
def _():
    wild = [model(**vars(EXPECT.wild), seed=seed).invoke(EXPECT.open_question).content for seed in [1, 1, 2, 3, 4]]
    same(wild[0], wild[1], "the same seed gave")
    assert len(set(wild)) > 1


@check("log-probabilities")
def _():
    rows = model(logprobs=True, top_logprobs=2).invoke(QUESTION).response_metadata["logprobs"]["content"]
    same("".join(row["token"] for row in rows), EXPECT.answer)


@check("a stream that is left")
def _():
    slow = model(max_tokens=EXPECT.slow.max_tokens, extra_body={
        "ignore_eos": True, "cofill": {"sampler": EXPECT.slow.sampler, "stream": "delta"}})
    for _ in range(3):
        stream = slow.stream(QUESTION)
        next(stream)
        stream.close()
    quiet(OPEN)
    same(model().invoke(QUESTION).content, EXPECT.answer)


run(f"langchain-openai {version('langchain-openai')} (openai {version('openai')})", table)
