"""Doubles against the published classes' numbers, and what is captured from them."""

from __future__ import annotations

import os
import pathlib

import pytest

torch = pytest.importorskip("torch")

import tiny_torch  # noqa: E402
from cofill import Error  # noqa: E402
from cofill.adapters import Adapter, adapt, position_ids, template  # noqa: E402
from cofill.torch import capture  # noqa: E402
from cofill.torch.capture import Collector, SdpaTap, head_mean, resolve_layers, sliced_head  # noqa: E402
from conftest import FIXTURES  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

CASES = ["suffix", "scattered", "nomask", "single", "long", "batch2", "leftpad"]
FAMILIES = ["llada", "dream"]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest, goldens: pathlib.Path):
    """A tiny model, what it must answer, and its name."""
    folder = goldens / "models" / f"{request.param}_tiny"
    return (
        tiny_torch.load(folder),
        load_file(goldens / "models" / f"{request.param}_forward.safetensors"),
        request.param,
    )


def ask(model, ids, mask, layers="last", rows=None, tap=None):
    """Logits and attention of a batch through the hooks, as one forward gives them."""
    adapter = adapt(model)
    n = ids.shape[0]
    every = torch.arange(ids.shape[1]) if rows is None else rows
    collector = Collector(
        [resolve_layers(layers, adapter.n_layers)] * n, [every] * n, [every] * n, None if mask is None else mask.bool()
    )
    batch, source = torch.arange(n).repeat_interleave(len(every)), every.repeat(n)
    context = (tap or adapter.capture)(collector.wanted, collector)
    with torch.no_grad(), context, sliced_head(adapter.head, batch, source) as asked:
        logits = asked(adapter.forward(ids, mask))
    return logits.view(n, len(every), -1), [collector.result(i) for i in range(n)]


@pytest.mark.parametrize("case", CASES)
def test_doubles_compute_what_the_published_classes_do(family, case):
    model, golden, name = family
    ids, mask = golden[f"{case}.input_ids"], golden.get(f"{case}.attention_mask")
    if mask is not None and name == "dream":
        assert torch.equal(position_ids(mask), golden[f"{case}.position_ids"])
    logits, attention = ask(model, ids, mask)
    # In f32 summation order alone costs 1e-4 of the logits, whose size is up to 18.
    valid = golden[f"{case}.row_valid"].bool() if mask is not None else torch.ones_like(ids, dtype=torch.bool)
    assert (logits - golden[f"{case}.logits"])[valid].abs().max() < 5e-4
    want = golden[f"{case}.attn_mean"][-1]
    for i in range(len(ids)):
        assert (attention[i] - want[i])[valid[i]].abs().max() < 2e-5


@pytest.mark.parametrize(
    "layers, which", [("first", [0]), ("middle", [1]), ("last", [2]), ("1", [1]), ("last 2", [1, 2]), ("last 30%", [2])]
)
def test_every_choice_of_layers_is_the_mean_of_those(family, layers, which):
    model, golden, _ = family
    _, attention = ask(model, golden["scattered.input_ids"], None, layers)
    want = golden["scattered.attn_mean"][which, 0].mean(0)
    assert (attention[0] - want).abs().max() < 2e-5


def test_some_rows_are_a_part_of_all(family):
    model, golden, _ = family
    rows = torch.tensor([9, 3, 17])
    logits, attention = ask(model, golden["scattered.input_ids"], None, rows=rows)
    assert (logits[0] - golden["scattered.logits"][0, rows]).abs().max() < 5e-4
    assert (attention[0] - golden["scattered.attn_mean"][-1, 0][rows][:, rows]).abs().max() < 2e-5


def test_the_function_mode_sees_what_the_hooks_see(family):
    model, golden, _ = family
    for case in ["scattered", "leftpad"]:
        ids, mask = golden[f"{case}.input_ids"], golden.get(f"{case}.attention_mask")
        _, hooks = ask(model, ids, mask)
        _, mode = ask(model, ids, mask, tap=SdpaTap)
        for a, b, real in zip(hooks, mode, torch.ones_like(ids) if mask is None else mask):
            assert (a - b)[real.bool()].abs().max() < 1e-6


@pytest.mark.parametrize("kind", ["qwen2", "qwen3"])
@pytest.mark.parametrize("canvas", ["suffix", "infill", "whole", "one"])
def test_qwen_by_hooks_equals_a_forward_in_numpy(kind, canvas):
    folder = FIXTURES / "qwen" / kind
    model, want = tiny_torch.load(folder), load_file(folder / "expected.safetensors")
    ids = want[f"{canvas}.tokens"].long()[None]
    for layer in ["first", "last"]:
        logits, attention = ask(model, ids, None, layer)
        assert (logits[0] - want[f"{canvas}.logits"]).abs().max() < 5e-4
        assert (attention[0] - want[f"{canvas}.attention"][-1 if layer == "last" else 0]).abs().max() < 2e-5


@pytest.mark.parametrize("kind", ["qwen2", "qwen3"])
def test_padding_changes_nothing_for_qwen(kind):
    folder = FIXTURES / "qwen" / kind
    model, want = tiny_torch.load(folder), load_file(folder / "expected.safetensors")
    ids = want["infill.tokens"].long()[None]
    padded = torch.cat([torch.tensor([[38, 38, 38]]), ids], dim=1)
    mask = (torch.arange(padded.shape[1]) >= 3).long()[None]
    logits, attention = ask(model, padded, mask)
    assert (logits[0, 3:] - want["infill.logits"]).abs().max() < 5e-4
    assert (attention[0][3:, 3:] - want["infill.attention"][-1]).abs().max() < 2e-5
    assert (attention[0][3:, :3] == 0).all()


def test_key_heads_are_repeated_not_tiled():
    # Two key heads, four query heads: heads 0 and 1 look at key head 0. d = 1 and scale 1, so scores are products.
    q = torch.tensor([[[1.0]], [[2.0]], [[3.0]], [[4.0]]]).expand(4, 2, 1)
    k = torch.tensor([[[0.0], [1.0]], [[1.0], [0.0]]])
    s = torch.sigmoid(torch.tensor([1.0, 2.0, -3.0, -4.0])).mean()  # probability of key 1, head by head
    a = head_mean(q, k, torch.tensor([0, 1]), torch.tensor([1]))
    assert torch.allclose(a, s.expand(2, 1))


def test_heads_a_few_at_a_time_are_all_heads(family, monkeypatch):
    model, golden, _ = family
    _, whole = ask(model, golden["long.input_ids"], None)
    monkeypatch.setattr(capture, "ELEMENTS", 1)
    _, parts = ask(model, golden["long.input_ids"], None)
    assert (whole[0] - parts[0]).abs().max() < 1e-6


def test_attention_in_bf16_is_computed_in_f32():
    torch.manual_seed(0)
    q, k = (torch.randn(4, 64, 32).bfloat16() * 4 for _ in range(2))
    rows = torch.arange(64)
    got = head_mean(q, k, rows, rows)
    want = torch.softmax(q.double() @ k.double().transpose(1, 2) / 32**0.5, dim=-1).mean(0)
    assert (got - want).abs().max() < 1e-6


def hooks_of(model) -> dict:
    names = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs")
    return {(path, name): len(getattr(module, name)) for path, module in model.named_modules() for name in names}


def test_hooks_leave_nothing_behind(family):
    model, golden, _ = family
    before = hooks_of(model)
    ask(model, golden["suffix.input_ids"], None, "last 2")
    assert hooks_of(model) == before

    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    adapter = adapt(model)
    for failing in (stop, adapter.forward):
        with pytest.raises((Stop, IndexError)):
            with adapter.capture([0, 1, 2], stop if failing is stop else lambda *_: None):
                with sliced_head(adapter.head, torch.tensor([0]), torch.tensor([999])) as asked:
                    asked(adapter.forward(golden["suffix.input_ids"], None))
        assert hooks_of(model) == before


def test_whole_logits_when_a_head_is_tied():
    torch.manual_seed(0)
    config = tiny_torch.Config(
        architectures=["LLaDAModelLM"],
        d_model=16,
        n_layers=2,
        n_heads=4,
        n_kv_heads=2,
        mlp_hidden_size=32,
        vocab_size=20,
        rope_theta=1e4,
        rms_norm_eps=1e-5,
        weight_tying=True,
        mask_token_id=19,
    )
    model = tiny_torch.LLaDAModelLM(config).eval()
    ids, rows = torch.randint(0, 19, (1, 7)), torch.tensor([2, 5])
    with torch.no_grad():
        whole = model(ids).logits
    logits, _ = ask(model, ids, None, rows=rows)
    assert torch.allclose(logits[0], whole[0, rows], atol=1e-6)


def test_block_groups_are_layers_in_order(goldens, golden_json):
    folder = goldens / "models" / "llada_tiny"
    plain = tiny_torch.LLaDAModelLM(tiny_torch.read_config(folder))
    grouped = tiny_torch.LLaDAModelLM(
        tiny_torch.Config(**{**vars(tiny_torch.read_config(folder)), "block_group_size": 3})
    )
    weights = load_file(folder / "model.safetensors")
    plain.load_state_dict(weights)
    grouped.load_state_dict({k.replace("blocks.", "block_groups.0."): v for k, v in weights.items()})
    ids = torch.tensor([[1, 2, 150, 150]])
    assert torch.equal(ask(plain, ids, None, "1")[1][0], ask(grouped, ids, None, "1")[1][0])


def test_layers_resolve_as_in_rust():
    assert resolve_layers("last 4", 32) == range(28, 32) and resolve_layers("last 4", 2) == range(0, 2)
    assert resolve_layers("last 30%", 32) == range(22, 32) and resolve_layers("last 30%", 1) == range(0, 1)
    for bad, words in [
        ("32", "layers 0 to 31"),
        ("learned", "trained head"),
        ("top", "first, middle, last or a number"),
    ]:
        with pytest.raises(Error, match=words):
            resolve_layers(bad, 32)


def test_attention_that_passes_by_too_often_is_not_called_hidden():
    rows, q = torch.arange(2), torch.randn(1, 1, 2, 4)
    collector = Collector([range(0, 1)], [rows], [rows])
    for _ in range(2):
        collector(0, q, q, None, None)
    with pytest.raises(Error, match="attention of 1 layer.s. was asked for, but 2 passed by.*more than once a layer.*adapter whose `capture`"):
        collector.result(0)
    with pytest.raises(Error, match="attention of 1 layer.s. was asked for, but 0 passed by.*compiled model"):
        Collector([range(0, 1)], [rows], [rows]).result(0)
    assert "\\" not in capture.__doc__


def test_an_unknown_class_is_told_how_to_write_an_adapter():
    class Mine(torch.nn.Module):
        pass

    with pytest.raises(Error, match="(?s)no adapter is known for Mine.*class MyAdapter.*mask_id="):
        adapt(Mine())
    assert "For Mine" in template(Mine())


def test_a_missing_module_is_named(goldens):
    model = tiny_torch.load(goldens / "models" / "dream_tiny")
    model.model.layers[1].self_attn.qq_proj = model.model.layers[1].self_attn.q_proj
    del model.model.layers[1].self_attn.q_proj
    with pytest.raises(Error, match=r"DreamModel .*no `model.layers.1.self_attn.q_proj`"):
        adapt(model)
    config = tiny_torch.read_config(goldens / "models" / "llada_tiny")
    model = tiny_torch.LLaDAModelLM(config)
    model.config = tiny_torch.Config(**{**vars(config), "mask_token_id": None})
    with pytest.raises(Error, match="mask_token_id; pass mask_id="):
        adapt(model)
    assert adapt(model, mask_id=150).mask_id == 150


def test_the_generic_adapter_runs_a_known_model(goldens):
    model = tiny_torch.load(goldens / "models" / "llada_tiny")
    golden = load_file(goldens / "models" / "llada_forward.safetensors")
    rows, adapter = torch.arange(24), Adapter(model)
    collector = Collector([range(2, 3)], [rows], [rows])
    with torch.no_grad(), adapter.capture(collector.wanted, collector):
        logits = adapter.forward(golden["suffix.input_ids"], None)
    assert (logits - golden["suffix.logits"]).abs().max() < 5e-4
    assert (collector.result(0) - golden["suffix.attn_mean"][-1, 0]).abs().max() < 2e-5


@pytest.mark.skipif(
    not os.environ.get("COFILL_DLLM"), reason="needs the published classes: COFILL_DLLM=<checkout of ZHZisZZ/dllm>"
)
def test_mixtures_of_experts_are_tapped_like_their_relatives():
    model = tiny_torch.random_mixture()
    ids = torch.randint(0, 50, (2, 9))
    _, hooks = ask(model, ids, None)
    _, mode = ask(model, ids, None, tap=SdpaTap)
    for a, b in zip(hooks, mode):
        assert (a - b).abs().max() < 1e-6 and torch.allclose(a.sum(1), torch.ones(9), atol=1e-5)
