"""The harness with our model, and `cofill eval`: the same prompts, the same answers, the same scores, byte for byte.

Needs lm_eval and the benchmarks' files, which may not be shipped: COFILL_SHARED says where they are (folder `data`). The tasks are
written here as YAML over those files, because the harness's own download theirs. 50 questions of each take some minutes;
COFILL_LMEVAL_QUESTIONS asks fewer. Code is scored by `cofill score`, since `evaluate`'s judge is a download, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("lm_eval")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")

import lm_eval  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

import cofill  # noqa: E402
from cofill.lm_eval import CofillLM  # noqa: E402

QUESTIONS = int(os.environ.get("COFILL_LMEVAL_QUESTIONS", "50"))
#: Two forwards a question; it is the prompts that take time.
SAMPLER, LENGTH = "topk:16+ad", 32

#: What the harness's tasks say, over local files. Few-shot examples are read from the files, so none is written here.
YAML = {
    "gsm8k": """
training_split: train
fewshot_split: train
num_fewshot: 8
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["Question:", "</s>", "<|im_end|>"], do_sample: false, temperature: 0.0}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true, ignore_case: true, ignore_punctuation: false,
     regexes_to_ignore: [",", "\\\\$", "(?s).*#### ", "\\\\.$"]}
filter_list:
  - {name: strict-match, filter: [{function: regex, regex_pattern: "#### (\\\\-?[0-9\\\\.\\\\,]+)"}, {function: take_first}]}
  - {name: flexible-extract, filter: [{function: regex, group_select: -1, regex_pattern: "(-?[$0-9.,]{2,})|(-?[0-9]+)"}, {function: take_first}]}
""",
    "math500": """
num_fewshot: 4
fewshot_config: {sampler: first_n, samples: !function utils.minerva_shots}
doc_to_text: "Problem:\\n{{problem}}\\n\\nSolution:"
doc_to_target: "{{solution}}"
generation_kwargs: {until: ["Problem:"], do_sample: false, temperature: 0.0}
process_results: !function utils.math_results
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
""",
    "humaneval": """
num_fewshot: 0
doc_to_text: "{{prompt}}"
doc_to_target: "{{test}}\\ncheck({{entry_point}})"
generation_kwargs: {until: ["\\nclass", "\\ndef", "\\n#", "\\nif", "\\nprint"], max_gen_toks: 1024, do_sample: false}
process_results: !function utils.unscored
metric_list: [{metric: unscored, aggregation: mean, higher_is_better: true}]
""",
    "mbpp": """
num_fewshot: 3
fewshot_config: {sampler: first_n, samples: !function utils.mbpp_shots}
doc_to_text: "You are an expert Python programmer, and here is your task: {{text}} Your code should pass these tests:\\n\\n{{test_list[0]}}\\n{{test_list[1]}}\\n{{test_list[2]}}\\n[BEGIN]\\n"
doc_to_target: "{% if is_fewshot is defined %}{{code}}\\n[DONE]{% else %}{{test_list[0]}}\\n{{test_list[1]}}\\n{{test_list[2]}}{% endif %}"
target_delimiter: ""
generation_kwargs: {until: ["[DONE]"], do_sample: false}
process_results: !function utils.unscored
metric_list: [{metric: unscored, aggregation: mean, higher_is_better: true}]
""",
}

UTILS = """
import json, pathlib
DATA = pathlib.Path({data!r})
def _rows(name):
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]
def minerva_shots():
    return _rows("minerva_fewshot4.jsonl")
def mbpp_shots():
    return [dict(row, is_fewshot=True) for row in _rows("mbpp_fewshot3.jsonl")]
def unscored(doc, results):
    return {{"unscored": 0.0}}
def math_results(doc, results):
    try:
        import lm_eval.tasks.minerva_math.utils as minerva  # needs sympy, antlr4 and math_verify
    except Exception:
        return {{"exact_match": float("nan")}}
    gold = minerva.normalize_final_answer(minerva.remove_boxed(minerva.last_boxed_only_string(doc["solution"])))
    pred = minerva.normalize_final_answer(minerva.get_unnormalized_answer(results[0]))
    return {{"exact_match": float(minerva.is_equiv(pred, gold))}}
"""


@pytest.fixture(scope="module")
def data() -> pathlib.Path:
    shared = os.environ.get("COFILL_SHARED")
    if not shared:
        pytest.skip("SKIPPED: COFILL_SHARED does not say where the benchmarks' files are; nothing was compared with `cofill eval`")
    return pathlib.Path(shared) / "data"


@pytest.fixture(scope="module")
def tasks(data: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("tasks")
    os.environ["HF_DATASETS_CACHE"] = str(folder / "cache")
    (folder / "utils.py").write_text(UTILS.format(data=str(data)))
    for task, text in YAML.items():
        files = {"test": f"{data}/{task}_test.jsonl"} | ({"train": f"{data}/gsm8k_train.jsonl"} if task == "gsm8k" else {})
        common = f"task: {task}_local\ndataset_path: json\ndataset_kwargs: {{data_files: {json.dumps(files)}}}\noutput_type: generate_until\ntest_split: test\n"
        (folder / f"{task}.yaml").write_text(common + text)
    return folder


def run_cofill(*arguments: str) -> str:
    run = subprocess.run([sys.executable, "-m", "cofill._command", *arguments], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def lines(path: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def asked_by_cofill(
    task: str, model: str, out: pathlib.Path, *more: str, sampler: str = SAMPLER, length: int = LENGTH, limit: int = QUESTIONS
) -> list[dict[str, Any]]:
    run_cofill("eval", "--task", task, "-m", model, "-s", sampler, "-n", str(length), "--limit", str(limit), "--out", str(out), *more)
    return lines(out)[1:]  # the first says what was run


def asked_by_the_harness(
    task: str, tasks: pathlib.Path, out: pathlib.Path, limit: int = QUESTIONS, **settings: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    lm = CofillLM(**{"sampler": SAMPLER, "length": LENGTH, "batch_size": 4, "out": str(out), **settings})
    manager = TaskManager(include_path=str(tasks), include_defaults=False)
    found = lm_eval.simple_evaluate(
        model=lm, tasks=[f"{task}_local"], task_manager=manager, limit=limit, bootstrap_iters=0, log_samples=True
    )
    return found["samples"][f"{task}_local"], sorted(lines(out), key=lambda record: record["doc_id"])


def code_specials(engine: cofill.Engine) -> list[str]:
    tokenizer = engine.tokenizer
    return [text for token in (tokenizer.eos_id, tokenizer.mask_id) for text in ("--special", tokenizer.decode([token]))]


@pytest.mark.parametrize("task", list(YAML))
def test_prompts_answers_and_scores_are_those_of_cofill_eval(
    task: str, data: pathlib.Path, tasks: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    theirs = asked_by_cofill(task, "tiny-llada", tmp_path / "eval.jsonl", "--data", str(data))
    samples, ours = asked_by_the_harness(task, tasks, tmp_path / "harness.jsonl", pretrained="tiny-llada", compat="llada")
    assert len(theirs) == len(ours) == QUESTIONS
    for a, b in zip(theirs, ours):
        assert (b["doc_id"], b["prompt_sha256"], b["nfe"]) == (a["doc_id"], a["prompt_sha256"], a["nfe"])
        assert (b["tokens"], b["text"]) == (a["tokens"], a["text"])
    assert len({record["text"] for record in ours}) > 1, "answers that are all alike would show little"

    # The harness saw these prompts and these answers.
    sampled = {sample["doc_id"]: sample for sample in samples}
    for record in ours:
        prompt = sampled[record["doc_id"]]["arguments"][0][0]
        assert hashlib.sha256(prompt.encode()).hexdigest() == record["prompt_sha256"]
        assert sampled[record["doc_id"]]["resps"] == [[record["text"]]]

    if task == "gsm8k":  # the harness's own scores, filter by filter
        for sample in samples:
            filters = theirs[sample["doc_id"]]["filters"][sample["filter"]]
            assert sample["filtered_resps"] == [filters["filtered"]]
            assert sample["exact_match"] == filters["metrics"]["exact_match"]
        assert {sample["filter"] for sample in samples} == {"strict-match", "flexible-extract"}
    if task == "math500":
        judged = [
            sample for sample in samples if sample["exact_match"] == sample["exact_match"]
        ]  # not NaN: the harness's judge is installed
        for sample in judged:
            assert sample["exact_match"] == theirs[sample["doc_id"]]["filters"]["none"]["metrics"]["exact_match"]

    # What we recorded, scored by `cofill score`, is what `cofill eval` says.
    specials = code_specials(cofill.Engine("tiny-llada"))
    arguments = [
        "--task",
        task,
        "--data",
        str(data),
        "--predictions",
        str(tmp_path / "harness.jsonl"),
        "--wrapper",
        "llada",
        *specials,
        "--json",
    ]
    *scored, summary = map(json.loads, run_cofill("score", *arguments).splitlines())
    assert summary["summary"]
    assert {line["doc_id"]: line["filters"] for line in scored} == {record["doc_id"]: record["filters"] for record in theirs}


def test_draws_at_a_temperature_are_those_of_cofill_eval(data: pathlib.Path, tasks: pathlib.Path, tmp_path: pathlib.Path) -> None:
    theirs = asked_by_cofill(
        "humaneval", "tiny-llada", tmp_path / "eval.jsonl", "--data", str(data), "--temperature", "0.7", "--seed", "11"
    )
    _, ours = asked_by_the_harness("humaneval", tasks, tmp_path / "harness.jsonl", compat="llada", temperature=0.7, seed=11)
    assert [record["tokens"] for record in ours] == [record["tokens"] for record in theirs]


def test_dreams_wrapper_is_that_of_cofill_eval(data: pathlib.Path, tasks: pathlib.Path, tmp_path: pathlib.Path) -> None:
    # The tiny model has no beginning of text, which Dream's prompts have otherwise.
    theirs = asked_by_cofill("humaneval", "tiny-dream", tmp_path / "eval.jsonl", "--data", str(data), "--bos", "false")
    _, ours = asked_by_the_harness("humaneval", tasks, tmp_path / "harness.jsonl", pretrained="tiny-dream", compat="dream", bos=False)
    assert [(r["tokens"], r["text"]) for r in ours] == [(r["tokens"], r["text"]) for r in theirs]


def test_questions_that_the_model_knows_are_answered_and_scored_alike(tmp_path: pathlib.Path) -> None:
    """Benchmarks are far above the tiny models; on what they were trained on, scores are not 0, and `plain` is how it is read."""
    theirs = asked_by_cofill("chain", "tiny-llada", tmp_path / "eval.jsonl", sampler="topk:4+ad", length=38, limit=50)
    corpus = [json.loads(line) for line in run_cofill("mini", "corpus", "--task", "chain", "--split", "test", "-n", "50").splitlines()]
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "chain_test.jsonl").write_text(
        "".join(json.dumps({"question": row["prompt"], "answer": row["answer"]}) + "\n" for row in corpus)
    )
    (folder / "chain.yaml").write_text(
        f"task: chain_local\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {folder}/chain_test.jsonl}}}}\noutput_type: generate_until\ntest_split: test\n"
        'doc_to_text: "{{question}}"\ndoc_to_target: "{{answer}}"\ngeneration_kwargs: {until: []}\n'
        "metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]\n"
    )
    samples, ours = asked_by_the_harness("chain", folder, tmp_path / "harness.jsonl", sampler="topk:4+ad", length=38, limit=50)
    assert [(r["tokens"], r["text"], r["prompt_sha256"]) for r in ours] == [(r["tokens"], r["text"], r["prompt_sha256"]) for r in theirs]
    right = {sample["doc_id"]: sample["exact_match"] for sample in samples}
    assert 0 < sum(right.values()) < 50, "some are right and some are not"
    # Every chain that is right to the letter is right.
    assert all(theirs[doc]["score"] == 1.0 for doc, is_right in right.items() if is_right)
