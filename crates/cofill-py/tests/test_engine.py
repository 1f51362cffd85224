"""The engine without torch: what the command does, streamed, in batches, looked at and scored."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import cofill

PROMPT = "Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?"
ROOT = pathlib.Path(__file__).resolve().parents[3]


def command(*args: str) -> subprocess.CompletedProcess[str]:
    """The command of this package."""
    return subprocess.run([sys.executable, "-m", "cofill._command", *args], capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def engine() -> cofill.Engine:
    return cofill.Engine("tiny-llada")


@pytest.mark.parametrize("model", ["tiny-llada", "tiny-dream"])
@pytest.mark.parametrize("options", [{}, {"length": 20, "block": 10}, {"temperature": 0.7, "seed": 3}, {"sampler": "eb:3+ad", "max_nfe": 4}, {"length": "auto", "max_length": 64}])
def test_generate_is_what_the_command_does(model: str, options: dict) -> None:
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    said = command("generate", PROMPT, "-m", model, "--json", *flags)
    assert said.returncode == 0, said.stderr
    theirs = json.loads(said.stdout)
    ours = cofill.Engine(model).generate(PROMPT, **options)
    assert ours.tokens.tolist() == theirs["tokens"] and ours.text == theirs["text"]
    assert (ours.nfe, ours.finish, ours.ended) == (theirs["nfe"], theirs["finish"], theirs["ended"])
    assert [step.positions.tolist() for step in ours.steps] == [step["positions"] for step in theirs["steps"]]


def test_tokens_are_the_whole_canvas(engine: cofill.Engine) -> None:
    answer = engine.generate(PROMPT)
    prompt = engine.tokenizer.encode(PROMPT + "\n")
    assert answer.tokens[: answer.prompt_length].tolist() == prompt == answer.start[: answer.prompt_length].tolist()
    assert (answer.start[answer.prompt_length :] == engine.mask_id).all() and (answer.tokens != engine.mask_id).all()
    assert answer.judged == "chain: right" and answer.useful <= len(answer.tokens) - len(prompt)
    assert answer.tokens_per_forward == pytest.approx(2) and set(answer.seconds) == {"model", "sampler"}


def test_an_answer_grows_and_its_trace_with_it(engine: cofill.Engine) -> None:
    answer = engine.generate(PROMPT, length="auto")
    assert (answer.ended, answer.judged) == ("eos", "chain: right")
    grown = sum(step.appended for step in answer.steps)
    assert (len(answer.start) + grown, grown) == (len(answer.tokens), 32)
    assert answer.trace.nfe == answer.nfe == sum(step.forwards for step in answer.steps)
    assert engine.generate(PROMPT, length=20).ended == "full"
    with pytest.raises(cofill.Error, match="a whole number, 0 or more, or `auto`"):
        engine.generate(PROMPT, length="long")


def test_a_gap_may_find_its_length(engine: cofill.Engine) -> None:
    answer = engine.fill("10*2=[MASK:auto]\n20+1=21")
    told = engine.fill(f"10*2=[MASK:{(answer.start == engine.mask_id).sum()}]\n20+1=21")
    assert answer.probes >= 9 and (told.probes, told.text) == (0, answer.text)
    assert answer.nfe == told.nfe + answer.probes == answer.trace.nfe


def test_a_folder_without_a_tokenizer_takes_tokens(goldens: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((goldens / "models" / "llada_tiny" / name).read_bytes())
    engine = cofill.Engine(tmp_path)
    tokens = [1, 2, 3] + [engine.mask_id] * 5
    answer = engine.fill(tokens, sampler="topk:2+ad")
    assert answer.finish == "complete" and answer.tokens[:3].tolist() == [1, 2, 3]
    with pytest.raises(cofill.Error, match="tokenizer"):
        engine.generate("text")


def test_a_stream_is_the_generation_step_by_step(engine: cofill.Engine) -> None:
    whole = engine.generate(PROMPT, sampler="punt")
    stream = engine.stream(PROMPT, sampler="punt")
    steps = [step.positions.tolist() for step in stream]
    assert steps == [step.positions.tolist() for step in whole.steps]
    assert stream.result.text == whole.text and stream.result.nfe == whole.nfe and next(stream, None) is None
    assert stream.tokens.tolist() == whole.tokens.tolist()


def test_leaving_a_stream_keeps_what_there_is(engine: cofill.Engine) -> None:
    stream = engine.stream(PROMPT)
    next(stream), next(stream)
    assert stream.result.finish == "cancelled" and len(stream.result.steps) == 2 and stream.result.trace.end is None


def test_a_batch_is_everybody_alone(engine: cofill.Engine) -> None:
    prompts = [PROMPT, "Ann has 3 pens, gets 4. How many pens?", engine.tokenizer.encode("Sort:")]
    seeds = [1, 2**63 + 1, 3]
    together = engine.generate_batch(prompts, sampler="eb:3+ad", length=24, temperature=0.5, seed=seeds)
    for prompt, seed, answer in zip(prompts, seeds, together):
        alone = engine.generate(prompt, sampler="eb:3+ad", length=24, temperature=0.5, seed=seed)
        assert answer.tokens.tolist() == alone.tokens.tolist() and answer.nfe == alone.nfe
        assert answer.trace.seed == seed


def test_gaps_are_filled_and_the_rest_is_kept(engine: cofill.Engine) -> None:
    answer = engine.fill("Gus has 10 books, doubles[MASK:3]. How many books?", sampler="topk:1")
    assert answer.text.startswith("Gus has 10 books, doubles") and answer.text.endswith(". How many books?")
    assert answer.nfe == 3


def test_a_probe_is_the_first_query_of_a_decode(engine: cofill.Engine) -> None:
    start = engine.generate(PROMPT, max_nfe=1).start
    probe = engine.probe(start, distributions=True)
    m = (start == engine.mask_id).sum()
    assert probe.attention.shape == (m, m) and probe.distributions.shape == (m, engine.vocab_size)
    picks = cofill.sampler("topk:3+ad").select(probe.confidence, uncertainty=probe.uncertainty, attention=probe.attention, token=probe.token)
    first = engine.generate(PROMPT, sampler="topk:3+ad").steps[0]
    assert probe.rows[picks.positions].tolist() == first.positions.tolist() and picks.token.tolist() == first.token.tolist()
    np.testing.assert_allclose(picks.utility, first.utility, rtol=1e-12)
    np.testing.assert_allclose(probe.distributions.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(probe.confidence + probe.uncertainty, 1, atol=1e-9)


@pytest.mark.parametrize("model", ["tiny-llada", "tiny-dream"])
def test_scores_are_logs_of_the_distribution(model: str) -> None:
    engine = cofill.Engine(model)
    start = engine.generate(PROMPT, max_nfe=1).start
    rows = np.flatnonzero(start == engine.mask_id)[:5]
    p = engine.probe(start, rows, distributions=True).distributions
    targets = np.array([3, 17, 5, 80, 11])
    scored = engine.score(start, rows, targets)
    np.testing.assert_allclose(np.exp(scored), p[np.arange(5), targets], rtol=1e-5)
    pair = engine.score_batch([(start, rows, targets), (start, rows[:2], targets[:2])])
    np.testing.assert_array_equal(pair[0], scored)
    np.testing.assert_allclose(pair[1], scored[:2], rtol=1e-5)  # fewer rows are another product in f32


def test_guidance_changes_scores_and_only_while_asked_for(engine: cofill.Engine) -> None:
    start = engine.generate(PROMPT, max_nfe=1).start
    rows = np.flatnonzero(start == engine.mask_id)[:3]
    plain = engine.score(start, rows, [1, 2, 3])
    guided = engine.score(start, rows, [1, 2, 3], cfg=1.5, free=np.flatnonzero(start == engine.mask_id))
    assert (np.abs(plain - guided) > 1e-3).any()
    np.testing.assert_array_equal(engine.score(start, rows, [1, 2, 3]), plain)


def test_threads_change_nothing() -> None:
    texts = {cofill.Engine("tiny-dream", threads=n).generate(PROMPT, sampler="eb:3+ad").text for n in (1, 2, 3)}
    assert len(texts) == 1


def test_a_callback_may_use_the_engine_and_end_the_decode(engine: cofill.Engine) -> None:
    pieces: list[str] = []
    engine.generate(PROMPT, on_step=lambda step: pieces.append(engine.tokenizer.decode(step.token)))
    assert len(pieces) == 19

    class Enough(Exception):
        pass

    def stop(step: cofill.Step) -> None:
        raise Enough

    with pytest.raises(Enough):
        engine.generate(PROMPT, on_step=stop)


def test_python_goes_on_while_the_engine_computes(engine: cofill.Engine) -> None:
    ticks, stop = [0], threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    engine.generate_batch([PROMPT] * 8, sampler="topk:1")
    stop.set()
    thread.join(timeout=30)
    assert ticks[0] > 100, "another thread was never let in"


def test_two_threads_share_an_engine(engine: cofill.Engine) -> None:
    expected = engine.generate(PROMPT).text
    texts: list[str] = []
    threads = [threading.Thread(target=lambda: texts.append(engine.generate(PROMPT).text), daemon=True) for _ in range(3)]
    [thread.start() for thread in threads]
    [thread.join(timeout=60) for thread in threads]
    assert texts == [expected] * 3


@pytest.mark.parametrize("threads", [None, 2])
def test_many_threads_on_one_engine_end(threads: int | None) -> None:
    # A thread that waits inside one job takes the next from the queue; if that waited for the first, both would for ever.
    engine = cofill.Engine("tiny-llada", threads=threads)
    expected = engine.generate(PROMPT, sampler="topk:8+ad").text
    texts: list[str] = []
    many = [threading.Thread(target=lambda: texts.append(engine.generate(PROMPT, sampler="topk:8+ad").text), daemon=True) for _ in range(8)]
    [thread.start() for thread in many]
    [thread.join(timeout=60) for thread in many]
    assert texts == [expected] * 8


def hear_ctrl_c() -> None:
    """In a child before it runs: a shell starts what it puts into the background deaf to Ctrl-C, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_a_generation_between_steps() -> None:
    code = """
import cofill, os, signal, threading
engine = cofill.Engine("tiny-llada")
def interrupt(step):
    if step.step == 3:
        os.kill(os.getpid(), signal.SIGINT)
    assert step.step < 6
try:
    engine.generate("x", length=100, sampler="topk:1", on_step=interrupt)
except KeyboardInterrupt:
    print("interrupted")
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, preexec_fn=hear_ctrl_c)
    assert said.stdout == "interrupted\n", said.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize(
    "long",
    [
        "cofill.explain(engine, 'x', length=1000, sampler='topk:1+ad')",
        "cofill.diagnose.intervention(engine, ['x'], length=1000, k=2)",
        "cofill.evaluate('chain', limit=100000, sampler='topk:1')",
        "cofill.sweep('about=\"x\"\\n[[sweep]]\\nmodels=[\"tiny-llada\"]\\ntasks=[\"chain\"]\\nsamplers=[\"topk:1\"]\\n', folder, limit=5000)",
    ],
)
def test_ctrl_c_ends_what_takes_long(long: str, tmp_path: pathlib.Path) -> None:
    code = f"""
import cofill, os, signal, threading, time
engine, folder = cofill.Engine("tiny-llada"), {str(tmp_path)!r}
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    {long}
    print("it ended by itself")
except KeyboardInterrupt:
    print("interrupted", engine.generate("Ann has 3 pens, gets 4. How many pens?", max_nfe=1).finish)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, preexec_fn=hear_ctrl_c)
    assert said.stdout == "interrupted capped\n", said.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_can_use_engines(tmp_path: pathlib.Path) -> None:
    code = f"""
import cofill, os, sys
engine = cofill.Engine("tiny-llada")
expected = engine.generate({PROMPT!r}).text
child = os.fork()
if child == 0:
    same = engine.generate({PROMPT!r}).text == cofill.Engine("tiny-llada", threads=2).generate({PROMPT!r}).text == expected
    os._exit(7 if same and cofill.evaluate("chain", limit=2).n == 2 else 8)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), engine.generate({PROMPT!r}).text == expected)
"""
    said = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60)
    assert said.stdout == "7 True\n", said.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_the_command() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "cofill._command", "eval", "--task", "chain", "--limit", "100000", "-s", "topk:1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT


def test_the_tokenizer(engine: cofill.Engine) -> None:
    tokenizer = engine.tokenizer
    tokens = tokenizer.encode(PROMPT)
    assert tokenizer.decode(tokens) == PROMPT and "".join(map(tokenizer.piece, tokens)) == PROMPT
    assert tokenizer.decode([*tokens, tokenizer.eos_id], skip_special=True) == PROMPT
    assert tokenizer.vocab_size == engine.vocab_size and tokenizer.mask_id == engine.mask_id
    assert not tokenizer.has_chat_template
    with pytest.raises(cofill.Error, match="no chat template"):
        tokenizer.chat([{"role": "user", "content": "hi"}])
    with pytest.raises(cofill.Error, match="the largest id is"):
        tokenizer.decode([10**6])


WRONG = {
    "option": (lambda e: e.generate(PROMPT, lenght=3), "unknown option `lenght`, expected one of .*`length`"),
    "type": (lambda e: e.generate(PROMPT, length="x", seed=1), 'length is "x": .*expected a whole number, 0 or more'),
    "negative": (lambda e: e.generate(PROMPT, length=-1), "length is -1: .*expected a whole number, 0 or more"),
    "flag": (lambda e: e.generate(PROMPT, chat=5), "chat is 5: .*boolean"),
    "length of gaps": (lambda e: e.fill("a [MASK:2]", length=3), "length is for prompts"),
    "rows out of order": (lambda e: e.probe([1, 2, 3], [2, 1]), "ascending"),
    "rows twice": (lambda e: e.probe([1, 2, 3], [1, 1]), "each once"),
    "rows beyond": (lambda e: e.probe([1, 2], [5]), "rows.*below 2"),
    "many threads": (lambda e: cofill.Engine(threads=10**5), "threads is 100000, but must be 1 to 1024"),
    "negative threads": (lambda e: cofill.Engine(threads=-1), "threads is -1, but must be a whole number"),
    "negative piece": (lambda e: e.tokenizer.piece(-1), "token is -1"),
    "value": (lambda e: e.generate(PROMPT, temperature=-1.0), "temperature"),
    "nan": (lambda e: e.generate(PROMPT, temperature=float("nan")), "temperature is NaN; give a finite number"),
    "opened with": (lambda e: e.generate(PROMPT, dtype="q4k"), "decided when a model is opened"),
    "too long": (lambda e: e.generate(PROMPT, length=10**6), "hold"),
    "prompt": (lambda e: e.generate(3.5), "prompt"),
    "message": (lambda e: e.generate([{"role": "user"}]), "`content` is missing"),
    "one text": (lambda e: e.generate_batch(PROMPT), "prompts is one text"),
    "seeds": (lambda e: e.generate_batch([PROMPT], seed=[1, 2]), r"seed has shape \(2,\)"),
    "no gap": (lambda e: e.fill("no gap"), "gap"),
    "rows": (lambda e: e.score([1, 2], [5], [1]), "below 2"),
    "targets": (lambda e: e.score([1, 2], [0], [1, 2]), r"targets has shape \(2,\); give shape \(1,\)"),
    "token": (lambda e: e.probe([10**7], [0]), "10000000"),
    "layer": (lambda e: e.probe([1], [0], layer="top"), "top"),
    "model": (lambda e: cofill.Engine("no-such-model"), "unknown model `no-such-model`"),
    "hub": (lambda e: cofill.Engine("org/no-such-model"), "cofill pull org/no-such-model"),
    "dtype": (lambda e: cofill.Engine(dtype="int3"), "dtype: "),
    "device": (lambda e: cofill.Engine(device="tpu"), "device: "),
    "threads": (lambda e: cofill.Engine(threads=0), "threads is 0"),
    "task": (lambda e: cofill.evaluate("nope"), "nope"),
    "data": (lambda e: cofill.evaluate("gsm8k"), "data=FOLDER"),
    "limit 0": (lambda e: cofill.evaluate("chain", limit=0), "limit is 0: .*1 or more"),
    "task beside an option": (lambda e: cofill.evaluate("nope", limit=1), "^unknown task `nope`|^(?!limit).*nope"),
    "eval option": (lambda e: cofill.evaluate("chain", limits=3), "limits"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(engine: cofill.Engine, name: str) -> None:
    call, says = WRONG[name]
    with pytest.raises(cofill.Error, match=says):
        call(engine)


def test_an_evaluation_is_what_the_command_scores(tmp_path: pathlib.Path) -> None:
    ours = cofill.evaluate("sums", "tiny-dream", "topk:4+ad", limit=20, out=tmp_path / "ours.jsonl")
    said = command("eval", "--task", "sums", "-m", "tiny-dream", "-s", "topk:4+ad", "--limit", "20", "--json", "--out", str(tmp_path / "theirs.jsonl"))
    theirs = json.loads(said.stdout)
    assert (ours.score, ours.nfe, ours.n) == (theirs["score"], theirs["nfe"], theirs["n"])
    rows = [[json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()] for name in ("ours", "theirs")]
    for mine, their in zip(rows[0][1:], rows[1][1:], strict=True):
        assert {**mine, "seconds": 0} == {**their, "seconds": 0}
    assert rows[0][0]["what"] == rows[1][0]["what"] and rows[0][0]["made_by"]["door"] == "python"
    with pytest.raises(cofill.Error, match="exists"):
        cofill.evaluate("sums", "tiny-dream", limit=1, out=tmp_path / "ours.jsonl")
