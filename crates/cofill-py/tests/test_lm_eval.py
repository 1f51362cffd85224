"""cofill under lm-evaluation-harness: its registry, its command line, what becomes of requests.

Likelihoods are in test_lm_eval_likelihood.py, what is compared with `cofill eval` in test_lm_eval_benchmarks.py, torch models in test_lm_eval_torch.py.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest

pytest.importorskip("lm_eval")

from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.api.registry import get_model  # noqa: E402

import cofill  # noqa: E402
from cofill.lm_eval import CofillLM, Options  # noqa: E402
from cofill.lm_eval.answers import answer, cut, wrapper_of  # noqa: E402

#: What the tiny models were trained to answer (`cofill mini corpus --task chain --split test`).
QUESTIONS = [
    (
        "Ben has 9 stamps, sells 4, wins 5, loses 1, sells 1, loses 2, gives 3. How many stamps?\n",
        "9-4=5\n5+5=10\n10-1=9\n9-1=8\n8-2=6\n6-3=3\n#### 3",
    ),
    (
        "Ben has 10 apples, finds 4, doubles, sells 5, finds 1, sells 2. How many apples?\n",
        "10+4=14\n14*2=28\n28-5=23\n23+1=24\n24-2=22\n#### 22",
    ),
    (
        "Gus has 5 stamps, gets 1, wins 4, sells 7, gives 1, gets 7, finds 4. How many stamps?\n",
        "5+1=6\n6+4=10\n10-7=3\n3-1=2\n2+7=9\n9+4=13\n#### 13",
    ),
    (
        "Ana has 9 books, drops 7, gives 1, wins 5, gets 6, finds 6, loses 4. How many books?\n",
        "9-7=2\n2-1=1\n1+5=6\n6+6=12\n12+6=18\n18-4=14\n#### 14",
    ),
    (
        "Fay has 13 apples, buys 2, wins 2, gets 1, drops 7, sells 6, gives 1. How many apples?\n",
        "13+2=15\n15+2=17\n17+1=18\n18-7=11\n11-6=5\n5-1=4\n#### 4",
    ),
    (
        "Cleo has 8 coins, doubles, wins 4, wins 3, buys 3, wins 1, sells 4. How many coins?\n",
        "8*2=16\n16+4=20\n20+3=23\n23+3=26\n26+1=27\n27-4=23\n#### 23",
    ),
    (
        "Dev has 6 coins, finds 5, gets 7, finds 6, drops 6, gets 6. How many coins?\n",
        "6+5=11\n11+7=18\n18+6=24\n24-6=18\n18+6=24\n#### 24",
    ),
    ("Ana has 11 cards, drops 7, finds 2, gives 1, wins 5, loses 2. How many cards?\n", "11-7=4\n4+2=6\n6-1=5\n5+5=10\n10-2=8\n#### 8"),
    ("Gus has 2 shells, gets 6, loses 5, doubles, doubles, gets 6. How many shells?\n", "2+6=8\n8-5=3\n3*2=6\n6*2=12\n12+6=18\n#### 18"),
]
CHAINS = [question for question, _ in QUESTIONS]


@pytest.fixture(scope="module")
def engine() -> cofill.Engine:
    return cofill.Engine("tiny-llada")


def generating(texts: list[str], until: list[str] = ["."], repeats: int = 1, **more) -> list[Instance]:
    made = [Instance("generate_until", {}, (text, {"until": until, **more}), 0, ("chains", doc, repeats)) for doc, text in enumerate(texts)]
    return [request for request in made for _ in range(repeats)]  # as the harness does


def choosing(texts: list[str], choices: list[str]) -> list[Instance]:
    pairs = [(doc, text, i, choice) for doc, text in enumerate(texts) for i, choice in enumerate(choices)]
    return [Instance("loglikelihood", {}, (text, choice), i, ("choices", doc, 1)) for doc, text, i, choice in pairs]


# The registry and the command line.


def test_registering_ours_keeps_the_others() -> None:
    assert get_model("cofill") is CofillLM
    assert get_model("dummy").__module__.startswith("lm_eval.models")


def test_importing_cofill_imports_no_harness() -> None:
    said = "import sys, cofill; sys.exit(any(name in sys.modules for name in ('lm_eval', 'torch', 'pandas', 'cofill.lm_eval')))"
    assert subprocess.run([sys.executable, "-c", said]).returncode == 0


def write_task(folder: pathlib.Path) -> pathlib.Path:
    """A task of our own, as people write them: rows in a file, a YAML beside it."""
    folder.mkdir(exist_ok=True)
    rows = [{"question": question, "answer": answer, "wrong": answer.replace("=", "=1")} for question, answer in QUESTIONS[:5]]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    common = f"dataset_path: json\ndataset_kwargs: {{data_files: {{test: {folder}/rows.jsonl}}}}\ntest_split: test\n"
    (folder / "chain.yaml").write_text(
        f"task: chain_local\n{common}output_type: generate_until\n"
        'doc_to_text: "{{question}}"\ndoc_to_target: "{{answer}}"\ngeneration_kwargs: {until: ["."], max_gen_toks: 38, do_sample: false}\n'
        "metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]\n"
    )
    (folder / "choice.yaml").write_text(
        f"task: choice_local\n{common}output_type: multiple_choice\n"
        'doc_to_text: "{{question}}"\ndoc_to_choice: "{{[answer, wrong]}}"\ndoc_to_target: 0\ntarget_delimiter: ""\n'
        "metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]\n"
    )
    (folder / "text.yaml").write_text(
        f"task: text_local\n{common}output_type: loglikelihood_rolling\n"
        'doc_to_text: ""\ndoc_to_target: "{{question}}{{answer}}"\n'
        "metric_list: [{metric: word_perplexity, aggregation: weighted_perplexity, higher_is_better: false}]\n"
    )
    return folder


OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def command(folder: pathlib.Path, model_args: str, *more: str, **env: str) -> subprocess.Popen[str]:
    arguments = ["--model", "cofill", "--model_args", model_args, "--include_path", str(folder), *more]
    given = {**os.environ, **OFFLINE, "HF_HOME": str(folder / "hf"), **env}
    return subprocess.Popen(
        [sys.executable, "-m", "cofill.lm_eval", *arguments], env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def results(folder: pathlib.Path) -> dict:
    (found,) = folder.rglob("results_*.json")
    return json.loads(found.read_text())


TASKS = ["--tasks", "chain_local,choice_local,text_local"]
SCORES = {"chain_local": "exact_match,none", "choice_local": "acc,none", "text_local": "word_perplexity,none"}


def test_the_harness_command_runs_with_our_model(tmp_path: pathlib.Path) -> None:
    write_task(tmp_path / "tasks")
    run = command(tmp_path / "tasks", "pretrained=tiny-llada,sampler=eb:0.1+ad,mc_num=8", *TASKS, "--output_path", str(tmp_path / "out"))
    said, _ = run.communicate(timeout=300)
    assert run.returncode == 0, said
    found = results(tmp_path / "out")
    # The tiny model was trained on such chains: it knows the answers and finds them likelier than wrong ones.
    assert found["results"]["chain_local"]["exact_match,none"] >= 0.6, said
    assert found["results"]["choice_local"]["acc,none"] == 1.0
    assert found["results"]["text_local"]["word_perplexity,none"] > 1.0
    if "cofill" in found["config"]:  # lm_eval 0.4.8 asks nobody but its own Hugging Face model
        about = found["config"]["cofill"]
        assert about["sampler"] == "eb:0.1+ad:40" and about["model_sha256"] and about["wrapper"] == "plain"
        assert about["spent_on_this_rank"]["generations"] == 5


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the harness gathers with torch")
def test_two_processes_score_what_one_does(tmp_path: pathlib.Path) -> None:
    import socket

    write_task(tmp_path / "tasks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    args = "pretrained=tiny-llada,sampler=topk:2,mc_num=8,temperature=0.7,seed=3,threads=1"
    alone = command(tmp_path / "tasks", args, *TASKS, "--output_path", str(tmp_path / "one"), "--log_samples")
    assert alone.wait(timeout=300) == 0, alone.stdout.read()
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    more = ["--output_path", str(tmp_path / "two"), "--log_samples"]
    both = [command(tmp_path / "tasks", args, *TASKS, *more, RANK=str(r), LOCAL_RANK=str(r), **world) for r in range(2)]
    for process in both:
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said
    one, two = results(tmp_path / "one"), results(tmp_path / "two")
    for task, metric in SCORES.items():
        assert two["results"][task][metric] == pytest.approx(one["results"][task][metric], rel=1e-9), task  # summed in another order
    assert samples(tmp_path / "one") == samples(tmp_path / "two")


def samples(folder: pathlib.Path) -> dict:
    lines = [
        (path.name.split("_local")[0], json.loads(line))
        for path in folder.rglob("samples_*.jsonl")
        for line in path.read_text().splitlines()
    ]
    # Padding makes a rank answer its last question twice; the first answer counts.
    return {(task, line["doc_id"]): [resps[0] for resps in line["resps"]] for task, line in lines}


def test_a_wrong_request_is_one_line_and_exit_code_2(tmp_path: pathlib.Path) -> None:
    run = command(write_task(tmp_path / "tasks"), "pretrained=tiny-llada,smapler=eb:3", *TASKS)
    said, _ = run.communicate(timeout=300)
    assert run.returncode == 2 and "Traceback" not in said, said
    assert said.splitlines()[-1].startswith("error: unknown model_args `smapler`; known are pretrained,")


# Model arguments.


def test_unknown_arguments_are_refused_by_name_and_the_known_ones_listed() -> None:
    with pytest.raises(cofill.Error, match=r"unknown model_args `smapler`; known are pretrained, backend, sampler, compat, length"):
        CofillLM.create_from_arg_string("pretrained=tiny-llada,smapler=eb:3")
    with pytest.raises(cofill.Error, match=r"`gen_length` \(here it is `length`\)"):
        CofillLM.create_from_arg_obj({"gen_length": 4}, {"batch_size": 1})


def test_a_sampler_that_was_cut_at_its_comma_says_how_to_write_it() -> None:
    with pytest.raises(cofill.Error, match=r"the sampler became `klass:0.7`. Write `;` for `,` inside it: sampler=klass:0.7;1$"):
        CofillLM.create_from_arg_string("pretrained=tiny-llada,sampler=klass:0.7,1")
    assert CofillLM.create_from_arg_string("sampler=klass:0.7;1").options.sampler == "klass:0.7,1"


def test_what_the_harness_always_sends_is_taken() -> None:
    lm = CofillLM.create_from_arg_string("length=8", {"batch_size": "auto:4", "max_batch_size": 64, "device": "cuda:0"})
    assert lm.batch_size == 16
    CofillLM.create_from_arg_string("length=8,trust_remote_code=True")  # of --trust_remote_code


@pytest.mark.parametrize(
    "given,said",
    [
        ({"compat": "lada"}, "compat is `lada`; give one of plain, llada, dream, fast-dllm"),
        ({"backend": "jax"}, "backend is `jax`; give one of engine, torch"),
        ({"length": 0}, "length is `0`; give a whole number, 1 or more"),
        ({"length": 2.5}, "length is `2.5`"),
        ({"temperature": -1}, "temperature is `-1`; give a finite number, 0 or more"),
        ({"temperature": "nan"}, "temperature is `nan`"),
        ({"cfg": True}, "cfg is `True`"),
        ({"bos": "perhaps"}, "bos is `perhaps`; give true or false"),
        ({"batch_size": 0}, "batch_size is `0`"),
        ({"seed": "x"}, "seed is `x`; give a whole number"),
        ({"log_type": "ftb"}, "log_type is `ftb`, which is of Dream's estimate, and compat is `plain`"),
        ({"log_type": "tfb", "compat": "dream"}, "log_type is `tfb`; give one of ftb, btf, union, ar_ftb"),
        ({"tokenizer": "x"}, "tokenizer is of backend=torch"),
        ({"mc_num": 10, "mc_stratum": 4}, "mc_stratum is 4; it must divide mc_num, which is 10"),
        ({"sampler": "topq:2"}, "unknown sampler `topq:2`"),
        ({"compat": "dream", "pretrained": "tiny-dream"}, "names no beginning-of-text token, and prompts begin with one; give bos=false"),
        ({"pretrained": "no-such-model"}, "no-such-model"),
    ],
)
def test_values_that_no_run_can_have_are_refused(given: dict, said: str) -> None:
    with pytest.raises(cofill.Error) as error:
        CofillLM(**given)
    assert said in str(error.value)


def test_whole_numbers_may_be_written_as_the_harness_reads_them() -> None:
    # 0.4.8 makes 100.0 of `1e2`.
    assert [Options.parse({"length": given}).length for given in (100.0, "7")] == [100, 7]
    for seed in (-1, -1.0, 1e30):
        with pytest.raises(cofill.Error, match="seed is .*below 2.64"):
            Options.parse({"seed": seed})


# Requests: neither batch nor rank nor order matters.


def split(requests: list, ranks: int) -> list[list]:
    """What the harness gives to each of some processes: questions r, r + W, .., with all their choices."""
    docs = sorted({request.doc_id for request in requests})
    mine = lambda rank: set(islice(docs, rank, None, ranks))
    return [[request for request in requests if request.doc_id in mine(rank)] for rank in range(ranks)]


def merged(parts: list[list], answers: list[list], requests: list) -> list:
    lists: dict[int, list] = {}
    for part, said in zip(parts, answers):
        assert len(part) == len(said)
        for request, one in zip(part, said):
            lists.setdefault(id(request), []).append(one)
    found = {key: iter(value) for key, value in lists.items()}
    return [next(found[id(request)]) for request in requests]


@pytest.mark.parametrize(
    "ask,settings",
    [
        (lambda: ("generate_until", generating(CHAINS)), dict(sampler="topk:2+ad", length=12)),
        (lambda: ("generate_until", generating(CHAINS, repeats=2)), dict(sampler="topk:2", length=12, temperature=0.8, seed=5)),
        (lambda: ("generate_until", generating(CHAINS)), dict(sampler="p2:2", length=12, seed=5)),
        (lambda: ("loglikelihood", choosing(CHAINS, ["9-4=5\n5+5=10", "9", "9+4=14\n4"])), dict(mc_num=8)),
        (lambda: ("loglikelihood", choosing(CHAINS, ["9-4=5\n5+5=10", "9"])), dict(mc_num=8, cfg=0.5, is_check_greedy=True)),
        (lambda: ("loglikelihood", choosing(CHAINS, ["9-4=5\n5+5=10", "9"])), dict(mc_num=8, compat="dream", bos=False)),
        (
            lambda: ("loglikelihood_rolling", [Instance("loglikelihood_rolling", {}, (t,), 0, ("t", i, 1)) for i, t in enumerate(CHAINS)]),
            dict(mc_num=4),
        ),
    ],
)
def test_batch_1_is_batch_7_is_two_ranks(engine: cofill.Engine, ask, settings: dict) -> None:
    method, requests = ask()
    run = lambda batch, some: getattr(CofillLM(engine, batch_size=batch, **settings), method)(some, disable_tqdm=True)
    one = run(1, requests)
    assert len(set(map(str, one))) > len(CHAINS) // 2, "answers that are all alike would show nothing"
    assert run(7, requests) == one
    for batch in (1, 3):
        parts = split(requests, 2)
        assert merged(parts, [run(batch, part) for part in parts], requests) == one
    backwards = run(4, requests[::-1])
    if not any(request.repeats > 1 for request in requests):
        assert backwards[::-1] == one


def test_repeats_of_a_question_are_draws_of_their_own(engine: cofill.Engine) -> None:
    said = lambda seed: CofillLM(engine, sampler="topk:4", length=12, temperature=2.0, seed=seed).generate_until(
        generating(CHAINS[:1], repeats=4), True
    )
    assert len(set(said(0))) > 1
    assert said(0) == said(0) != said(1)


class Top:
    """Top-2, written in Python."""

    def select(self, view: cofill.View) -> np.ndarray:
        return np.argsort(-view.confidence, kind="stable")[:2]


def test_a_sampler_written_in_python_is_evaluated(engine: cofill.Engine) -> None:
    run = lambda sampler: CofillLM(engine, sampler=sampler, length=12, batch_size=4)
    own = run(Top)
    assert own.generate_until(generating(CHAINS), True) == run("topk:2").generate_until(generating(CHAINS), True)
    json.dumps(own.get_model_info())  # it goes into the file of results
    assert own.get_model_info()["cofill"]["sampler"] == str(cofill.sampler(Top))


def test_answers_reach_the_cache(engine: cofill.Engine) -> None:
    lm = CofillLM(engine, length=8, mc_num=2)
    kept: list = []
    lm.cache_hook = type("Hook", (), {"add_partial": lambda _, *entry: kept.append(entry)})()
    requests = generating(CHAINS[:2])
    said = lm.generate_until(requests, True)
    assert [entry[0] for entry in kept] == ["generate_until"] * 2 and all(entry[1] in [r.args for r in requests] for entry in kept)
    assert {entry[1][0]: entry[2] for entry in kept} == dict(zip(CHAINS[:2], said))
    (pair,) = choosing(CHAINS[:1], ["7"])
    ((value, greedy),) = lm.loglikelihood([pair], True)
    assert kept[-1] == ("loglikelihood", pair.args, (value, greedy))


def test_lengths_come_from_the_arguments_and_else_from_the_task(engine: cofill.Engine, tmp_path: pathlib.Path) -> None:
    def length(max_gen_toks: int | None, **settings) -> int:
        out = tmp_path / f"{max_gen_toks}-{len(settings)}-{settings.get('compat')}.jsonl"
        more = {} if max_gen_toks is None else {"max_gen_toks": max_gen_toks}
        CofillLM(engine, sampler="topk:64", out=str(out), **settings).generate_until(generating(CHAINS[:1], **more), True)
        return len(json.loads(out.read_text())["tokens"])

    assert (length(9), length(9, length=5), length(None, length=5)) == (9, 5, 5)
    assert length(None) == 256
    assert length(9, compat="dream", bos=False) == 128, "published wrappers do not ask the task"


def test_requests_of_several_lengths_are_not_mixed_up(engine: cofill.Engine) -> None:
    lm = CofillLM(engine, batch_size=4)
    mixed = [generating([text], max_gen_toks=4 + 4 * (i % 2))[0] for i, text in enumerate(CHAINS)]
    together = lm.generate_until(mixed, True)
    assert together == [lm.generate_until([request], True)[0] for request in mixed]


def test_a_prompt_that_does_not_fit_is_named_before_anything_runs(engine: cofill.Engine) -> None:
    requests = generating([CHAINS[0], "a b c " * 3000])
    with pytest.raises(
        cofill.Error,
        match="the prompt of question 1 of chains has .* tokens and 16 are to be generated, but `tiny-llada` holds 8192; lower length",
    ):
        CofillLM(engine, length=16).generate_until(requests, True)


def test_records_hold_what_was_generated(engine: cofill.Engine, tmp_path: pathlib.Path) -> None:
    out, traces = tmp_path / "out.jsonl", tmp_path / "traces"
    lm = CofillLM(engine, sampler="topk:4", length=12, out=str(out), traces=str(traces))
    said = lm.generate_until(generating(CHAINS[:3], until=["="]), True)
    records = sorted(map(json.loads, out.read_text().splitlines()), key=lambda record: record["doc_id"])
    assert [record["text"] for record in records] == said
    assert all(record["nfe"] == 3 and len(record["tokens"]) == 12 for record in records)
    assert all(engine.tokenizer.decode(record["tokens"]) == record["raw_output"] for record in records)
    trace = cofill.Trace.read(str(traces / "chains-1.jsonl"))
    assert trace.end[-12:].tolist() == records[1]["tokens"]
    with pytest.raises(cofill.Error, match="which exists; name another file"):
        CofillLM(engine, out=str(out))
    with pytest.raises(cofill.Error, match="which holds files; name another folder"):
        CofillLM(engine, traces=str(traces))


def test_a_chat_without_a_template_is_refused(engine: cofill.Engine) -> None:
    with pytest.raises(cofill.Error, match="`tiny-llada` has no chat template"):
        CofillLM(engine).apply_chat_template([{"role": "user", "content": "Hello"}])
    with pytest.raises(cofill.Error, match="has no chat template"):
        CofillLM(engine, chat=True, length=4).generate_until(generating(CHAINS[:1]), True)
    with pytest.raises(cofill.Error, match="twice"):
        CofillLM(engine, chat=True).apply_chat_template([{"role": "user", "content": "Hello"}])
    with pytest.raises(cofill.Error, match="use --apply_chat_template"):
        CofillLM(engine, chat=True).loglikelihood(choosing(CHAINS[:1], ["3"]), True)


class Chatty:
    """The tiny model with a chat template, which begins with a token of its own."""

    has_chat_template, bos_id, chat_template = True, 7, "{{ messages }}"

    def __init__(self, tokenizer) -> None:
        self._tokenizer = tokenizer

    def __getattr__(self, name: str):
        return getattr(self._tokenizer, name)

    def chat(self, messages, add_generation_prompt=True) -> str:
        return "".join(f"{m['role']}: {m['content']} " for m in messages) + ("assistant:" if add_generation_prompt else "")


class ChatEngine:
    """Remembers prompts."""

    def __init__(self, engine: cofill.Engine) -> None:
        self._engine, self.tokenizer, self.prompts = engine, Chatty(engine.tokenizer), []

    def __getattr__(self, name: str):
        return getattr(self._engine, name)

    def generate_batch(self, prompts, **settings):
        self.prompts += [(self._engine.tokenizer.decode(prompt), settings.pop("bos", None)) for prompt in prompts]
        return self._engine.generate_batch(prompts, **settings)


def test_prompts_go_through_the_chat_template_once(engine: cofill.Engine) -> None:
    chatty = ChatEngine(engine)
    assert CofillLM(chatty).apply_chat_template([{"role": "user", "content": "3"}]) == "user: 3 assistant:"
    assert CofillLM(chatty).apply_chat_template([{"role": "assistant", "content": "3"}], add_generation_prompt=False) == "assistant: 3 "
    assert CofillLM(chatty).chat_template(True) == "{{ messages }}"
    CofillLM(chatty, chat=True, length=4).generate_until(generating(["3+4"]), True)
    CofillLM(chatty, chat=True, length=4, compat="dream").generate_until(generating(["3+4"]), True)
    CofillLM(chatty, length=4, compat="dream", bos=False).generate_until(generating(["3+4"]), True)
    assert chatty.prompts == [("user: 3+4 assistant:", None), ("user: 3+4 assistant:", True), ("3+4", False)]


def test_fast_dllm_asks_instruct_models_in_a_chat_and_leaves_their_code_whole(engine: cofill.Engine) -> None:
    chatty = ChatEngine(engine)
    requests = generating(["3+4", "3+4"], until=["\n"])
    requests[1].doc["task_id"] = "HumanEval/7"
    ask = lambda: CofillLM(chatty, compat="fast-dllm", sampler="topk:1", length=16).generate_until(requests, True)
    base = ask()
    chatty.name = "Tiny-Instruct"
    cut_off, whole = ask()
    assert [prompt for prompt, _ in chatty.prompts] == ["3+4", "3+4", "user: 3+4 assistant:", "user: 3+4 assistant:"]
    assert base[0] == base[1] and "\n" not in base[0], "a base model's answers are cut"
    assert "\n" in whole and cut_off == whole.split("\n")[0]


def test_a_likelihood_has_one_beginning_of_text(engine: cofill.Engine) -> None:
    chatty = ChatEngine(engine)
    seven, encode = engine.tokenizer.decode([7]), engine.tokenizer.encode
    assert encode(seven) == [7]
    dream = CofillLM(chatty, compat="dream")
    assert dream._encode_pair("3+4", "=")[0] == dream._encode_pair(seven + "3+4", "=")[0] == [7, *encode("3+4")]
    assert CofillLM(chatty)._encode_pair("", "=")[0] == [7]


# Answers.


class Words:
    """A tokenizer whose tokens are words; those in angle brackets are special."""

    vocabulary = ["<eos>", "<pad>", "<turn>", "a", "b", "STOP", "c"]
    eos_id, eot_id = 0, None

    def encode(self, text: str) -> list[int]:
        tokens = []
        while text:
            token = next(i for i, word in enumerate(self.vocabulary) if text.startswith(word))
            tokens.append(token)
            text = text[len(self.vocabulary[token]) :]
        return tokens

    def decode(self, tokens, skip_special: bool = False) -> str:
        return "".join(self.vocabulary[t] for t in tokens if not (skip_special and t < 3))


@pytest.mark.parametrize(
    "wrapper,text,until,expected",
    [
        # LLaDA: cut while specials show, then delete them; an end of text ends nothing.
        ("llada", "a<eos>b<pad>STOPc", ["STOP"], "ab"),
        ("llada", "a<eos>b", ["<eos>"], "a"),
        # Dream: up to the end of text; other specials stay.
        ("dream", "a<pad>b<eos>c", ["STOP"], "a<pad>b"),
        ("dream", "a<pad>STOPb<eos>c", ["STOP"], "a<pad>"),
        # Plain: up to the end of text, no specials; a stop string that is a special token ends, too.
        ("plain", "a<pad>b<eos>c", ["STOP"], "ab"),
        ("plain", "a<turn>bSTOPc", ["STOP", "<turn>"], "a"),
        ("plain", "a<turn>bSTOPc", ["STOP"], "ab"),
    ],
)
def test_the_wrappers_differ_in_what_special_tokens_do(wrapper: str, text: str, until: list[str], expected: str) -> None:
    words = Words()
    assert answer(wrapper, words.encode(text), until, words) == expected


def test_a_turn_ends_an_answer_that_is_read_plainly() -> None:
    words = Words()
    words.eot_id = 2
    tokens = words.encode("a<pad>b<turn>c<eos>")
    assert [answer(wrapper, tokens, [], words) for wrapper in ("plain", "llada", "dream")] == ["ab", "abc", "a<pad>b<turn>c"]


def test_stops_are_looked_for_one_after_the_other() -> None:
    assert cut("one two three", ["two", "one"]) == ""
    assert cut("a\r\ndef f", ["\ndef", ""]) == "a\r"


def test_stop_strings_are_cut_unless_escaped(engine: cofill.Engine) -> None:
    request = generating(CHAINS[:1], until=["="])
    cut_off, whole = (CofillLM(engine, sampler="topk:1", length=16, escape_until=e).generate_until(request, True)[0] for e in (False, True))
    assert "=" in whole and cut_off == whole.split("=")[0]


def test_fast_dllm_follows_the_family() -> None:
    assert [wrapper_of("fast-dllm", family) for family in ("llada", "dream", "a2d")] == ["llada", "dream", "llada"]


def test_examples_in_docstrings_run() -> None:
    import doctest

    import cofill.likelihood
    import cofill.lm_eval as package
    from cofill.lm_eval import answers, model, options

    ran = 0
    for module in (cofill.likelihood, package, answers, model, options):
        failed, tried = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
        assert failed == 0, module.__name__
        ran += tried
    assert ran > 10
