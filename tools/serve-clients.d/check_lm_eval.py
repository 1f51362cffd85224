"""lm_eval's `local-completions`: generation on a task that is a local file; likelihoods are refused, never made up."""

import json
import logging
import os
import tempfile
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import lm_eval
from harness import EXPECT, OPEN, checks, run, same, version
from lm_eval.models.openai_completions import LocalCompletionsAPI
from lm_eval.tasks import TaskManager

logging.getLogger("lm_eval").setLevel(logging.ERROR)
table, check = checks()
folder = tempfile.TemporaryDirectory()
os.environ["HF_DATASETS_CACHE"] = folder.name

TASK = """
task: cofill_chain
dataset_path: json
dataset_kwargs:
  data_files: {data}
test_split: train
output_type: {output}
doc_to_text: "{{{{question}}}}\\n"
doc_to_target: {target}
{more}
"""
GENERATE = """generation_kwargs:
  until: ["\\n\\n"]
  max_gen_toks: 64
filter_list:
  - name: last
    filter:
      - function: regex
        regex_pattern: '#### (\\d+)'
      - function: take_first
metric_list:
  - metric: exact_match
"""
CHOOSE = """doc_to_choice: ["27", "28"]
metric_list:
  - metric: acc
"""


def evaluate(output, more, target="answer", **fields):
    data = Path(folder.name) / "chain.jsonl"
    data.write_text((json.dumps({"question": EXPECT.question, "answer": "27", "label": 0}) + "\n") * 3)
    (Path(folder.name) / "chain.yaml").write_text(TASK.format(data=data, output=output, target=target, more=more))
    arguments = {"base_url": f"{OPEN}/v1/completions", "model": EXPECT.model, "max_retries": 1, **fields}
    return lm_eval.simple_evaluate(
        model=LocalCompletionsAPI(**arguments), tasks=["cofill_chain"], task_manager=TaskManager(include_path=folder.name), bootstrap_iters=0)


@check("generation, prompts as text")
def _():
    same(evaluate("generate_until", GENERATE, tokenizer_backend=None)["results"]["cofill_chain"]["exact_match,last"], 1.0)


@check("generation, prompts as tokens, the server's tokenizer")
def _():
    found = evaluate("generate_until", GENERATE, tokenizer_backend="remote", tokenized_requests=True)
    same(found["results"]["cofill_chain"]["exact_match,last"], 1.0)


@check("the tokenizer is found by itself")
def _():
    same(LocalCompletionsAPI(base_url=f"{OPEN}/v1/completions", model=EXPECT.model).tokenizer_backend, "remote")


@check("likelihoods are refused")
def _():
    try:
        found = evaluate("multiple_choice", CHOOSE, target="label", tokenizer_backend="remote", tokenized_requests=True)
    except Exception as error:
        said = repr(error)
        return same("400" in said or "RetryError" in said, True, f"{said}:")
    raise AssertionError(f"numbers that look right: {found['results']}")


run(f"lm_eval {version('lm_eval')}", table)
