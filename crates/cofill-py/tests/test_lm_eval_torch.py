"""`backend=torch` under the harness: the same answers and likelihoods as the engine gives on the same weights."""

from __future__ import annotations

import json
import os
import pathlib
import shutil

import numpy as np
import pytest

pytest.importorskip("lm_eval")
pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tiny_torch  # noqa: E402
from test_lm_eval import CHAINS, TASKS, choosing, command, generating, results, write_task  # noqa: E402
from test_lm_eval_likelihood import ONE, PAIR  # noqa: E402

import cofill  # noqa: E402
from cofill.lm_eval import CofillLM  # noqa: E402

MODELS = pathlib.Path(__file__).resolve().parents[3] / "models"


@pytest.fixture(scope="module", params=["tiny-llada", "tiny-dream"])
def both(request) -> tuple[str, dict]:
    """A model's name for the engine, and the same weights for torch."""
    folder = MODELS / request.param
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return request.param, dict(pretrained=tiny_torch.load(folder), tokenizer=tokenizer, backend="torch")


@pytest.mark.parametrize("sampler", ["topk:4+ad", "eb:1", "fast:0.9"])
@pytest.mark.parametrize("compat", ["plain", "llada", "dream"])
def test_torch_answers_what_the_engine_answers(both, sampler: str, compat: str) -> None:
    name, torch_model = both
    settings = dict(sampler=sampler, length=38, compat=compat, bos=False, batch_size=4)
    requests = generating(CHAINS, until=["####"])
    said = CofillLM(name, **settings).generate_until(requests, True)
    assert CofillLM(**torch_model, **settings).generate_until(requests, True) == said
    assert len(set(said)) > 1


@pytest.mark.parametrize(
    "settings", [dict(compat="llada"), dict(cfg=0.7), dict(compat="dream", bos=False), dict(compat="dream", bos=False, log_type="union")]
)
def test_torch_estimates_what_the_engine_estimates(both, settings: dict) -> None:
    name, torch_model = both
    requests = choosing([PAIR[0]], [PAIR[1], ONE[1], "5\n5+5=10"])
    settings = dict(settings, mc_num=8, is_check_greedy=True, batch_size=5)
    ours = CofillLM(name, **settings).loglikelihood(requests, True)
    theirs = CofillLM(**torch_model, **settings).loglikelihood(requests, True)
    assert np.array(theirs) == pytest.approx(np.array(ours), rel=1e-3, abs=1e-3)


def test_draws_depend_on_neither_batch_nor_order(both) -> None:
    _, torch_model = both
    settings = dict(sampler="topk:4", length=20, temperature=0.8, seed=4)
    requests = generating(CHAINS)
    one = CofillLM(**torch_model, **settings, batch_size=1).generate_until(requests, True)
    assert CofillLM(**torch_model, **settings, batch_size=5).generate_until(requests, True) == one
    assert CofillLM(**torch_model, **settings, batch_size=5).generate_until(requests[::-1], True)[::-1] == one
    assert CofillLM(**torch_model, **dict(settings, seed=5)).generate_until(requests, True) != one


def test_options_that_torch_spells_otherwise_reach_it(both) -> None:
    name, torch_model = both
    settings = dict(sampler="topk:8", length=64, compat="llada", logits_eos_inf=True, attention_of_source=True, cfg=0.5, block=32)
    requests = generating(CHAINS[:3])
    assert CofillLM(**torch_model, **settings).generate_until(requests, True) == CofillLM(name, **settings).generate_until(requests, True)


@pytest.mark.parametrize(
    "given,said",
    [
        (dict(threads=2), "threads is of backend=engine"),
        (dict(companion="tiny-causal"), "companion is of backend=engine"),
        (dict(tokenizer=None), "there is no tokenizer; give tokenizer="),
        (dict(bos=True), "names no beginning-of-text token"),
        (dict(pretrained="nowhere", dtype="float17"), "dtype is `float17`; give a type of torch"),
    ],
)
def test_what_torch_cannot_do_is_refused(both, given: dict, said: str) -> None:
    _, torch_model = both
    with pytest.raises(cofill.Error) as error:
        CofillLM(**{**torch_model, **given})
    assert said in str(error.value)


REMOTE = '''
"""A checkpoint that brings its own code, as LLaDA's does."""
import tiny_torch
from transformers import PretrainedConfig, PreTrainedModel

class LLaDAConfig(PretrainedConfig):
    model_type = "llada"

class LLaDAModelLM(PreTrainedModel):
    config_class = LLaDAConfig

    def __init__(self, config):
        super().__init__(config)
        self.model = tiny_torch.LLaDAModelLM(config).model
        self.post_init()

    def _init_weights(self, module):
        pass

    forward = tiny_torch.LLaDAModelLM.forward
    get_input_embeddings = tiny_torch.LLaDAModelLM.get_input_embeddings
    get_output_embeddings = tiny_torch.LLaDAModelLM.get_output_embeddings
'''


def test_the_command_opens_a_model_that_brings_its_code(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "remote-llada"
    shutil.copytree(MODELS / "tiny-llada", folder)
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "modeling_remote.LLaDAConfig", "AutoModel": "modeling_remote.LLaDAModelLM"}
    config["tie_word_embeddings"] = False  # which transformers otherwise does
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "modeling_remote.py").write_text(REMOTE)
    write_task(tmp_path / "tasks")
    here = str(pathlib.Path(__file__).parent)
    path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    found = {}
    for name, args in [("torch", f"pretrained={folder},backend=torch,dtype=float32"), ("engine", "pretrained=tiny-llada")]:
        arguments = [*TASKS, "--output_path", str(tmp_path / name), "--trust_remote_code"]
        run = command(tmp_path / "tasks", f"{args},sampler=topk:4+ad,mc_num=8", *arguments, PYTHONPATH=path)
        said, _ = run.communicate(timeout=600)
        assert run.returncode == 0, said
        found[name] = results(tmp_path / name)["results"]
    for task, metric in [("chain_local", "exact_match,none"), ("choice_local", "acc,none")]:
        assert found["torch"][task][metric] == found["engine"][task][metric]
    log_perplexity = [np.log(found[name]["text_local"]["word_perplexity,none"]) for name in ("torch", "engine")]
    assert log_perplexity[0] == pytest.approx(log_perplexity[1], rel=1e-3)
