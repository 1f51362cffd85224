"""What the load asks for, and what must come: every case is asked once alone, and each later answer is compared with that."""

import asyncio
import json
import random
from dataclasses import dataclass, field

from http1 import Broken, ask, stream

NAMES = ["Gus", "Ann", "Bob", "Eve", "Kim", "Leo", "Mia", "Tom"]
THINGS = ["books", "coins", "cards", "shells", "pens", "apples"]
SAMPLERS = [None, None, "topk:1", "topk:4+ad", "eb:3+ad", "fast:1", "klass", "p2:12", "dapd"]
MODES = ["append", "draft", "delta"]


@dataclass
class Case:
    """One request that has one right answer."""

    kind: str
    path: str
    body: dict
    texts: list = field(default_factory=list)
    finish: list = field(default_factory=list)
    usage: dict | None = None


def cases(seed=1, count=48):
    """Chats, completions, gaps, of both models; with and without temperature, always with a seed."""
    choose = random.Random(seed)
    made = []
    for index in range(count):
        kind = choose.choices(["chat", "completion", "suffix", "fim", "infill"], [6, 2, 2, 1, 1])[0]
        model = choose.choice(["tiny-llada", "tiny-llada", "tiny-dream"])
        name, things, a, b, c = choose.choice(NAMES), choose.choice(THINGS), choose.randint(2, 20), choose.randint(1, 9), choose.randint(1, 9)
        question = f"{name} has {a} {things}, doubles, wins {b}, gets {c}. How many {things}?"
        body = {"model": model, "seed": 1000 + index, "temperature": choose.choice([0, 0, 0.7, 1])}
        sampler = choose.choice(SAMPLERS)
        if sampler:
            body["cofill"] = {"sampler": sampler}
        tokens = choose.choice([24, 40, 64])
        if kind == "chat":
            case = Case(kind, "/v1/chat/completions", {**body, "messages": [{"role": "user", "content": question}], "max_tokens": tokens})
            if choose.random() < 0.2:
                case.body.update(n=2, temperature=1)
            if choose.random() < 0.2:
                case.body["stop"] = ["####"]
        elif kind == "completion":
            case = Case(kind, "/v1/completions", {**body, "prompt": question + "\n", "max_tokens": tokens})
        elif kind == "suffix":
            case = Case(kind, "/v1/completions", {**body, "prompt": f"{question}\n{a}*2=", "suffix": f"\n#### {2 * a + b + c}", "max_tokens": 20})
        elif kind == "fim":
            case = Case(kind, "/v1/fim/completions", {**body, "prompt": f"Fill the gaps:\n{b}*", "suffix": f"={b * c}", "max_tokens": 4})
        else:
            case = Case(kind, "/infill", {**body, "input_prefix": f"{a}+{b}=", "input_suffix": f"\n#### {a + b}", "n_predict": 6})
        made.append(case)
    return made


def read(case, answer):
    """The texts, finishes and usage of a whole answer."""
    value = answer.json()
    if case.kind == "infill":
        return [value["content"]], [value["stop_type"]], {"completion_tokens": value.get("tokens_predicted", 0)}
    choices = sorted(value["choices"], key=lambda choice: choice["index"])
    texts = [choice["message"]["content"] if "message" in choice else choice["text"] for choice in choices]
    return texts, [choice["finish_reason"] for choice in choices], value["usage"]


async def learn(case, port, key):
    """Asks alone, twice, and keeps the answer. Returns what was wrong with that, or None."""
    answers = []
    for _ in range(2):
        answer = await ask(port, "POST", case.path, case.body, key=key)
        if answer.status != 200:
            return f"{case.path} {json.dumps(case.body)}: {answer.status} {answer.body[:300]!r}"
        answers.append(read(case, answer))
    if answers[0] != answers[1]:
        return f"{case.path} {json.dumps(case.body)}: alone, and not the same twice: {answers}"
    case.texts, case.finish, case.usage = answers[0]
    return None


def compare(case, texts, finish, usage):
    """Raises when an answer is not the one that was got alone."""
    if texts != case.texts:
        what = "a draft left standing" if "░" in "".join(texts) else "another text"
        raise Broken(f"{what} for {json.dumps(case.body)}: {texts!r}, alone {case.texts!r}")
    if finish != case.finish:
        raise Broken(f"another finish for {json.dumps(case.body)}: {finish!r}, alone {case.finish!r}")
    if usage is not None and usage != case.usage:
        raise Broken(f"another usage for {json.dumps(case.body)}: {usage!r}, alone {case.usage!r}")


def refusal(answer):
    """Why a request was refused, where that is allowed and well said; raises otherwise."""
    error = answer.error
    code = error["code"]
    if (answer.status, code) not in [(429, "queue_full"), (429, "key_busy"), (503, "queue_timeout"), (503, "draining")]:
        raise Broken(f"{answer.status} {answer.body[:300]!r}")
    if not 1 <= int(answer.headers.get("retry-after", 0)) <= 60:
        raise Broken(f"{answer.status} {code} without a retry-after of 1 to 60: {answer.headers}")
    return code


async def whole(case, port, key):
    """Asks without a stream: (`answered` or why not, seconds, None)."""
    answer = await ask(port, "POST", case.path, case.body, key=key)
    if answer.status != 200:
        return refusal(answer), answer.seconds, None
    compare(case, *read(case, answer))
    return "answered", answer.seconds, None


async def streamed(case, port, key, mode, usage=False, pause=None):
    """Asks with a stream: (`answered` or why not, seconds, seconds until the first bytes). llama.cpp's dialect streams in another shape, and its plugins
    do not ask for that."""
    if case.kind == "infill":
        return await whole(case, port, key)
    body = {**case.body, "stream": True}
    if case.kind == "chat":
        body["cofill"] = {**body.get("cofill", {}), "stream": mode}
    if usage:
        body["stream_options"] = {"include_usage": True}
    answer, events = await stream(port, case.path, body, key=key, pause=pause)
    if events is None:
        return refusal(answer), answer.seconds, None
    if events.error:
        code = events.error["code"]
        if code not in ["queue_timeout", "draining"]:
            raise Broken(f"an error in the stream of {json.dumps(body)}: {events.error}")
        return code, answer.seconds, answer.first
    compare(case, *gathered(case, events, mode), collected_usage(events) if usage else None)
    return "answered", answer.seconds, answer.first


def gathered(case, events, mode):
    """The texts and finishes of a stream's chunks."""
    texts, finish, places = [""] * len(case.texts), [None] * len(case.texts), set()
    for chunk in events.data:
        for choice in chunk["choices"]:
            index = choice["index"]
            piece = choice["delta"].get("content") if "delta" in choice else choice.get("text")
            if piece is not None:
                texts[index] = piece if mode == "draft" and case.kind == "chat" else texts[index] + piece
            if choice.get("finish_reason"):
                finish[index] = choice["finish_reason"]
        frame = chunk.get("cofill") or {}
        index = chunk["choices"][0]["index"] if chunk["choices"] else 0
        for position in frame.get("remasked", []):
            places.discard((index, position))
        for commit in frame.get("commits", []):
            if (index, commit["position"]) in places:
                raise Broken(f"position {commit['position']} was committed twice: {json.dumps(case.body)}")
            places.add((index, commit["position"]))
    if mode == "delta" and case.kind == "chat" and not places:
        raise Broken(f"delta mode without a commit: {json.dumps(case.body)}")
    return texts, finish


def collected_usage(events):
    last = events.data[-1]
    if last["choices"] != [] or not last.get("usage"):
        raise Broken(f"usage was asked for, and the last chunk is {json.dumps(last)[:200]}")
    return last["usage"]


QUESTION = [{"role": "user", "content": "2+2=?"}]
# Bodies that are wrong, with the status that they must get. `None` instead of a body: another thing is wrong, see `bad`.
BAD = [
    ("/v1/chat/completions", b"{", 400),
    ("/v1/chat/completions", b"", 400),
    ("/v1/chat/completions", b"[]", 400),
    ("/v1/chat/completions", b"\xff\xfe\x00", 400),
    ("/v1/chat/completions", {"model": "tiny-llada"}, 400),
    ("/v1/chat/completions", {"model": "tiny-llada", "messages": "hello"}, 400),
    ("/v1/chat/completions", {"model": "tiny-llada", "messages": QUESTION, "n": 1000}, 400),
    ("/v1/chat/completions", {"model": "tiny-llada", "messages": QUESTION, "max_tokens": 100_000_000}, 400),
    ("/v1/chat/completions", {"model": "tiny-llada", "messages": QUESTION, "temperature": "hot"}, 400),
    ("/v1/chat/completions", {"model": "tiny-llada", "messages": QUESTION, "cofill": {"sampler": "nonsense"}}, 400),
    ("/v1/chat/completions", {"model": "gpt-9", "messages": QUESTION}, 404),
    ("/v1/completions", {"model": "tiny-llada", "prompt": {"a": 1}}, 400),
    ("/v1/completions", {"model": "tiny-llada", "prompt": "x " * 40_000}, 400),
    ("/v1/nowhere", {}, 404),
]


async def bad(choose, port, key):
    """Something wrong, which must be refused with its reason: (what came, seconds)."""
    path, body, status = choose.choice(BAD)
    answer = await ask(port, "POST", path, body, key=key)
    if answer.status == 429:
        return refusal(answer), answer.seconds
    if answer.status != status:
        raise Broken(f"{path} {str(body)[:120]}: expected {status}, got {answer.status} {answer.body[:200]!r}")
    assert answer.error
    return f"refused {status}", answer.seconds


async def wrong_key(choose, port, path="/v1/chat/completions"):
    answer = await ask(port, "POST", path, {"model": "tiny-llada", "messages": QUESTION}, key=choose.choice([None, "", "wrong", "x" * 5000]))
    if answer.status != 401 or answer.error["code"] != "invalid_api_key" or answer.headers.get("www-authenticate") != "Bearer":
        raise Broken(f"a wrong key: {answer.status} {answer.headers} {answer.body[:200]!r}")
    return "refused 401", answer.seconds


async def left(case, choose, port, key):
    """Goes away in the middle: of a stream after a few parts, of a whole answer after a moment."""
    if case.kind != "infill" and choose.random() < 0.5:
        answer, events = await stream(port, case.path, {**case.body, "stream": True}, key=key, leave_after=choose.randint(1, 5))
        if answer.status != 200:
            return refusal(answer)
        return "left" if events is None else "answered"
    try:
        answer = await ask(port, "POST", case.path, case.body, key=key, timeout=choose.uniform(0.001, 0.2))
    except asyncio.TimeoutError:
        return "left"
    return "answered" if answer.status == 200 else refusal(answer)
