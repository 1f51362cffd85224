"""`cofill.generate` on torch models: three implementations, one trajectory; and everything that a batch must not change."""

from __future__ import annotations

import json
import math
import pathlib
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import cofill  # noqa: E402
import tiny_torch  # noqa: E402
from cofill._cofill import measure  # noqa: E402
from cofill.torch import TorchDenoiser, fill, generate  # noqa: E402
from conftest import FIXTURES  # noqa: E402
from test_torch_capture import hooks_of  # noqa: E402


class Family:
    """A tiny model in torch, the same in the Rust engine, and its golden decodes."""

    def __init__(self, name: str, goldens: pathlib.Path) -> None:
        self.name, self.folder = name, goldens / "models" / f"{name}_tiny"
        self.model = tiny_torch.load(self.folder)
        self.engine = cofill.Engine(str(self.folder))
        self.mask_id = 150 if name == "llada" else 151
        self._goldens = goldens / "models"

    def decodes(self, kind: str) -> list[dict]:
        return json.loads((self._goldens / f"{self.name}_{kind}.json").read_text())

    def prompt(self, length: int, seed: int = 0) -> list[int]:
        return np.random.default_rng(seed).integers(0, 140, length).tolist()


@pytest.fixture(scope="module", params=["llada", "dream"])
def family(request, goldens) -> Family:
    return Family(request.param, goldens)


@pytest.fixture(scope="module")
def llada(goldens) -> Family:
    return Family("llada", goldens)


@pytest.fixture(scope="module")
def dream(goldens) -> Family:
    return Family("dream", goldens)


def adas(params: dict) -> str:
    """A golden's sampler in the language of samplers."""
    rule = {"topk": "topk", "fastdllm": "fast", "eb": "eb"}[params["rule"]]
    spec = f"{rule}:{params['threshold']:g}"
    if params["alpha"]:
        spec += f"+ad:{params['alpha']:g}" + ("@layer=first" if params["layer"] == 0 else "")
    return spec


def same_steps(steps, golden_steps, tolerance=True) -> None:
    """Every step: the same positions in the same order, the same tokens, the same reasons."""
    assert len(steps) == len(golden_steps)
    for step, golden in zip(steps, golden_steps):
        assert step.positions.tolist() == golden["selected"]
        assert step.token.tolist() == golden["tokens"]
        assert step.n_masked == golden["n_masked"]
        if "utility" in golden:
            assert np.allclose(step.confidence, golden["confidence"], atol=5e-5)
            assert np.allclose(step.entropy, golden["entropy"], atol=2e-4)
            assert np.allclose(step.utility, golden["utility"], atol=1e-3)
            assert step.forced == golden["forced"]


def same_traces(a, b, tolerance=1e-4) -> None:
    """Two decodes agree in every step."""
    assert len(a.steps) == len(b.steps) and a.nfe == b.nfe
    for x, y in zip(a.steps, b.steps):
        assert x.positions.tolist() == y.positions.tolist() and x.token.tolist() == y.token.tolist()
        assert (x.forwards, x.forced, x.remasked.tolist()) == (y.forwards, y.forced, y.remasked.tolist())
        assert np.allclose(x.confidence, y.confidence, atol=tolerance) and np.allclose(
            x.utility, y.utility, atol=40 * tolerance
        )
    assert a.end.tolist() == b.end.tolist()


def test_torch_engine_and_goldens_are_one_trajectory(family):
    for golden in family.decodes("adas"):
        spec, canvas = adas(golden["params"]), golden["canvas"][0]
        out = fill(family.model, torch.tensor(canvas), spec)
        same_steps(out.traces[0].steps, [step[0] for step in golden["steps"]])
        assert out.sequences.tolist() == golden["final"] and out.nfe == [golden["nfe"]] and out.finish == ["complete"]
        same_traces(out.traces[0], family.engine.fill(np.array(canvas), sampler=spec).trace)
        if golden["prompt_len"]:
            again = generate(
                family.model,
                torch.tensor(canvas[: golden["prompt_len"]])[None],
                spec,
                max_new_tokens=golden["gen_length"],
            )
            assert again.sequences.tolist() == golden["final"]


def test_the_row_that_predicts_may_be_the_one_that_attends(dream):
    for golden in dream.decodes("adas_rowshift_variant"):
        out = fill(dream.model, torch.tensor(golden["canvas"]), adas(golden["params"]), attention_row="source")
        same_steps(out.traces[0].steps, [step[0] for step in golden["steps"]])


@pytest.mark.parametrize(
    "spec",
    [
        "topk:4+paths",
        "klass:0.3,2",
        "klass:0.3,2@dream",
        "punt:0.2",
        "lookum:2",
        "p2:6",
        "p2:6@eta=0.5",
        "dapd",
        "dawn",
        "clad:0.4",
        "credit:0.6",
        "oracle:4",
        "less:0.4,0.2",
        "dus:4",
        "threshold:0.6",
    ],
)
def test_samplers_that_need_more_decode_as_in_the_engine(family, spec):
    canvas = family.prompt(8, 3) + [family.mask_id] * 16
    out = fill(family.model, [canvas], spec)
    same_traces(out.traces[0], family.engine.fill(np.array(canvas), sampler=spec).trace)
    if spec.startswith("p2"):
        assert any(len(step.remasked) for step in out.traces[0].steps) or spec == "p2:6", "something was masked again"
    if spec.startswith(("punt", "lookum", "oracle")):
        assert any(step.forwards > 1 for step in out.traces[0].steps)


@pytest.mark.parametrize(
    "options",
    [
        dict(block=4),
        dict(max_nfe=3),
        dict(suppress=(56, 75, 114)),
        dict(temperature=0.8, noise="exact", seed=5),
        dict(top_p=0.8),
        dict(temperature=0.7, top_k=7, noise="exact", seed=1),
    ],
)
def test_options_mean_what_they_mean_to_the_engine(family, options):
    canvas = family.prompt(8, 7) + [family.mask_id] * 16
    out = fill(family.model, [canvas], "eb:1+ad", **options)
    if "suppress" in options:
        assert not set(out.sequences[0, 8:].tolist()) & {56, 75, 114}
        return
    theirs = {k: v for k, v in options.items() if k != "noise"}
    want = family.engine.fill(np.array(canvas), sampler="eb:1+ad", **theirs)
    assert out.finish == [want.finish]
    if "max_nfe" in options:
        assert out.nfe == [3] and (out.sequences[0] == family.mask_id).any()
    same_traces(out.traces[0], want.trace)


def test_guidance_is_the_engines(family):
    canvas = family.prompt(8, 9) + [family.mask_id] * 16
    out = fill(family.model, [canvas], "topk:3+ad", cfg_scale=0.7)
    want = family.engine.fill(np.array(canvas), sampler="topk:3+ad", cfg=0.7)
    same_traces(out.traces[0], want.trace)
    plain = fill(family.model, [canvas], "topk:3+ad")
    assert plain.traces[0].steps[0].confidence.tolist() != out.traces[0].steps[0].confidence.tolist()


LENGTHS = [3, 8, 5, 8, 1]


@pytest.mark.parametrize(
    "spec, options",
    [
        ("eb:1+ad", {}),
        ("punt:0.2", {}),
        ("p2:6", {}),
        ("topk:2+ad", dict(temperature=0.9, seed=[4, 5, 6, 7, 8])),
        ("topk:2", dict(cfg_scale=0.5, block=4)),
    ],
)
def test_a_batch_of_unequal_lengths_is_each_alone(family, spec, options):
    prompts = [family.prompt(length, 100 + i) for i, length in enumerate(LENGTHS)]
    seeds = options.get("seed")
    alone = [
        generate(family.model, [p], spec, max_new_tokens=12, **(options | ({"seed": seeds[i]} if seeds else {})))
        for i, p in enumerate(prompts)
    ]
    for how in [{}, dict(padding=True), dict(batch_size=2)]:
        out = generate(family.model, prompts, spec, max_new_tokens=12, **options, **how)
        assert out.sequences.shape == (5, 20) and out.attention_mask.sum(1).tolist() == [
            length + 12 for length in LENGTHS
        ]
        for i, one in enumerate(alone):
            same_traces(out.traces[i], one.traces[0])
            assert out.sequences[i, 8 - LENGTHS[i] :].tolist() == one.sequences[0].tolist()
            assert out.nfe[i] == one.nfe[0]


def test_left_padded_input_comes_back_as_it_was_laid_out(family):
    prompts = [family.prompt(length, i) for i, length in enumerate([8, 5])]
    ids = torch.tensor([prompts[0], [139, 139, 139] + prompts[1]])
    mask = torch.tensor([[1] * 8, [0, 0, 0] + [1] * 5])
    out = generate(family.model, ids, "topk:3+ad", max_new_tokens=9, attention_mask=mask)
    assert torch.equal(out.sequences[:, :8], ids) and out.sequences.dtype == torch.int64
    alone = generate(family.model, [prompts[1]], "topk:3+ad", max_new_tokens=9)
    assert out.sequences[1, 3:].tolist() == alone.sequences[0].tolist()


def test_noise_has_a_seed_and_sequences_may_have_their_own(llada):
    prompt = llada.prompt(8, 1)

    def draw(seed, n=1):
        return generate(
            llada.model, [prompt] * n, "topk:4", max_new_tokens=16, temperature=1.0, seed=seed
        ).sequences.tolist()

    assert draw(1) == draw(1) and draw(1) != draw(2)
    assert draw([1, 2], 2) == draw(1) + draw(2) and draw(1, 2) == draw(1) * 2
    with pytest.raises(cofill.Error, match="seed has 2 entries for 1 sequences"):
        draw([1, 2])


@pytest.mark.parametrize("kind", ["qwen2", "qwen3"])
def test_converted_qwen_decodes_as_in_the_engine(kind, tmp_path):
    folder = FIXTURES / "qwen" / kind
    model = tiny_torch.load(folder)
    canvas = [5, 17, 30, 2, 2] + [37] * 10
    out = fill(model, [canvas], "eb:1+ad")
    assert out.finish == ["complete"] and (out.sequences != 37).all()
    shifted = fill(model, [canvas], "eb:1+ad", shift=True)
    assert shifted.sequences.tolist() != out.sequences.tolist()
    for i, trace in enumerate([out.traces[0], shifted.traces[0]]):
        settings = json.loads((folder / "config.json").read_text()) | ({"right_shift_logits": True} if i else {})
        copy = tmp_path / f"{kind}_{i}"
        copy.mkdir()
        (copy / "config.json").write_text(json.dumps(settings))
        (copy / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
        engine = engine_or_skip(copy)
        same_traces(trace, engine.fill(np.array(canvas), sampler="eb:1+ad").trace)


def engine_or_skip(folder: pathlib.Path):
    try:
        return cofill.Engine(str(folder))
    except Exception as error:  # the fixture has no tokenizer, which an engine may insist on
        pytest.skip(f"the engine does not open it: {error}")


def test_sequences_share_forwards(llada):
    prompts = [llada.prompt(length, length) for length in (4, 6, 4)]
    ask = lambda **how: generate(llada.model, prompts, "topk:4", max_new_tokens=8, **how)  # noqa: E731
    assert ask().nfe == [2, 2, 2]
    # Two steps for each of two lengths; two in all with padding; two for each sequence by itself.
    assert (ask().forwards, ask(padding=True).forwards, ask(batch_size=1).forwards) == (4, 2, 6)


def test_a_canvas_without_masks_needs_no_forward(llada):
    out = fill(llada.model, [[1, 2, 3], [1, 150, 3]], "topk:1")
    assert out.nfe == [0, 1] and out.finish == ["complete", "complete"] and out.forwards == 1
    assert out.sequences[0].tolist() == [1, 2, 3]


def test_on_step_sees_every_step_of_every_sequence(llada):
    seen: list[tuple[int, int]] = []
    prompts = [llada.prompt(4, 1), llada.prompt(4, 2)]
    out = generate(
        llada.model,
        prompts,
        "topk:4",
        max_new_tokens=8,
        on_step=lambda i, step: seen.append((i, step.step)),
        progress=True,
    )
    assert sorted(seen) == [(0, 0), (0, 1), (1, 0), (1, 1)] and out.forwards == 2
    assert set(out.seconds) == {"forward", "capture", "statistics", "copy", "absorb", "write_back", "total"}
    parts = sum(v for k, v in out.seconds.items() if k != "total")
    assert 0 < parts <= out.seconds["total"] and out.seconds["forward"] > 0
    assert generate(llada.model, prompts, "topk:4", max_new_tokens=8, trace=False).traces == []


def test_a_sampler_of_ones_own_writes_left_to_right(llada):
    class Leftmost:
        """Takes the first candidate."""

        def select(self, view):
            return [0]

    out = generate(llada.model, [llada.prompt(4, 1)], Leftmost, max_new_tokens=5)
    assert [step.positions.tolist() for step in out.traces[0].steps] == [[4], [5], [6], [7], [8]]


def test_hooks_leave_nothing_behind_also_after_an_exception(family):
    before = hooks_of(family.model)
    prompt = [family.prompt(8, 1)]
    generate(family.model, prompt, "topk:4+ad", max_new_tokens=8)
    assert hooks_of(family.model) == before

    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    with pytest.raises(Stop):
        generate(family.model, prompt, "topk:4+ad", max_new_tokens=8, on_step=stop)
    assert hooks_of(family.model) == before
    layers = family.model.model.transformer.blocks if family.name == "llada" else family.model.model.layers
    mlp = layers[-1].ff_out if family.name == "llada" else layers[-1].mlp.down_proj
    handle = mlp.register_forward_hook(stop)
    inside = hooks_of(family.model)
    with pytest.raises(Stop):
        generate(family.model, prompt, "topk:4+ad", max_new_tokens=8)
    assert hooks_of(family.model) == inside
    handle.remove()


def test_threads_do_not_run_into_each_others_hooks(llada):
    prompts = [llada.prompt(4 + i, i) for i in range(6)]
    alone = [generate(llada.model, [p], "topk:2+ad", max_new_tokens=16).sequences.tolist() for p in prompts]
    with ThreadPoolExecutor(6) as pool:
        together = pool.map(
            lambda p: generate(llada.model, [p], "topk:2+ad", max_new_tokens=16).sequences.tolist(), prompts
        )
    assert list(together) == alone


def test_memory_beside_the_model_stays_small():
    # LLaDA's vocabulary, 64 masks: whole logits of 64 + 192 positions would be 130 MB, of which asked rows are 32.
    vocab, masks = 126_464, 64
    config = tiny_torch.Config(
        architectures=["LLaDAModelLM"],
        d_model=32,
        n_layers=1,
        n_heads=2,
        mlp_hidden_size=32,
        vocab_size=vocab,
        rope_theta=1e4,
        rms_norm_eps=1e-5,
        mask_token_id=126_336,
    )
    torch.manual_seed(0)
    model = tiny_torch.LLaDAModelLM(config).eval()
    prompt = [list(range(192))]
    generate(model, prompt, "topk:32+ad", max_new_tokens=masks)  # what is allocated once is not a step's
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        generate(model, prompt, "topk:32+ad", max_new_tokens=masks)
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    sizes = [e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())]
    peak = int(np.cumsum(sizes).max())
    assert 30e6 < peak < 100e6, f"{peak / 1e6:.1f} MB"


def test_whole_distributions_are_announced_by_size(monkeypatch, llada):
    monkeypatch.setattr("cofill.torch.forward.LARGE", 1)
    with pytest.warns(UserWarning, match=r"16 rows x 160 tokens are 0 MB") as caught:
        generate(llada.model, [llada.prompt(4, 1)], "klass:0.5,1", max_new_tokens=16)
    assert len(caught) == 1, "once"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_weights_have_statistics_in_full(family, dtype):
    model = tiny_torch.load(family.folder).to(dtype)
    canvas = family.prompt(8, 3) + [family.mask_id] * 16
    out = fill(model, [canvas], "eb:1+ad", batch_size=1)
    assert out.finish == ["complete"]
    exact = fill(family.model, [canvas], "eb:1+ad").traces[0].steps[0].confidence
    half = out.traces[0].steps[0].confidence
    assert np.allclose(half[:1], exact[:1], atol=0.1), "bf16 moves confidences by up to .09"
    seen = np.concatenate([step.confidence for step in out.traces[0].steps])
    assert (seen.astype(np.float32) != torch.tensor(seen).to(dtype).float().numpy()).mean() > 0.5, (
        "not rounded to halves"
    )


def test_rows_that_are_almost_certain_are_not_tied():
    # 1 - c = 7 exp(-18 - r / 100): in f32, c = 1 - 1e-7 has neighbours 6e-8 away, and most of these would be the same number.
    class Sure(torch.nn.Module):
        def forward(self, input_ids, attention_mask=None):
            rows = torch.zeros(*input_ids.shape, 9)
            rows[..., 0] = 18 + torch.arange(input_ids.shape[1]) / 100
            rows[..., 8] = -math.inf
            return types.SimpleNamespace(logits=rows)

    model = Sure().eval()
    steps = fill(model, [[8] * 40], "topk:40", adapter=cofill.adapters.Adapter(model, mask_id=8)).traces[0].steps
    assert steps[0].positions.tolist() == list(range(39, -1, -1)), "the surest first"
    assert len(set(steps[0].confidence)) == 40 and max(steps[0].confidence) < 1


# --- bad input -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ids, mask, words",
    [
        (
            torch.zeros(1, 2, 3, dtype=torch.long),
            None,
            r"input_ids has shape \(1, 2, 3\), but \[length\] or \[batch, length\]",
        ),
        (torch.zeros(1, 4), None, "input_ids must hold integers, but its type is float32"),
        (
            torch.zeros(1, 4, dtype=torch.long, device="meta"),
            None,
            r"input_ids is on meta, but the model is on cpu; use input_ids.to\('cpu'\)",
        ),
        (torch.tensor([[1, 2, 500]]), None, r"token 500 at \[0, 2\], but the model knows 0 to 159"),
        (torch.tensor([[1, -2, 5]]), None, r"token -2 at \[0, 1\]"),
        (
            torch.zeros(2, 4, dtype=torch.long),
            torch.ones(2, 5),
            r"attention_mask has shape \(2, 5\), but input_ids has \(2, 4\)",
        ),
        (
            torch.zeros(1, 4, dtype=torch.long),
            torch.tensor([[1, 1, 0, 0]]),
            "hides position 2 of row 0.*pad on the left",
        ),
        ("text", None, "input_ids must be a tensor, an array or a list of sequences"),
        ([], None, "input_ids must be a tensor, an array or a list"),
        ([[1.5, 2.0]], None, r"input_ids\[0\] must hold integers, but its type is float64"),
        ([[True]], None, "must hold integers, but its type is bool"),
        (torch.tensor([[1, 2]]), torch.tensor([[math.nan, 1.0]]), "attention_mask holds nan, but must hold 1, and 0"),
        (torch.tensor([[1, 2]]), torch.tensor([[-math.inf, 0.0]]), "attention_mask holds -inf.*additive masks"),
        ([[1, 150, 2]], None, "input_ids holds the mask .150. in row 0.*cofill.fill"),
    ],
)
def test_bad_input_is_named_with_its_shape_and_the_remedy(llada, ids, mask, words):
    with pytest.raises(cofill.Error, match=words):
        generate(llada.model, ids, "topk:2", max_new_tokens=4, attention_mask=mask)


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(max_new_tokens=0), "max_new_tokens must be a whole number, 1 or more, but 0"),
        (dict(max_new_tokens="4"), "max_new_tokens must be a whole number, 1 or more, but '4'"),
        (dict(max_new_tokens=math.nan), "max_new_tokens must be a whole number"),
        (dict(temperature=None), "temperature must be a number"),
        (dict(seed=-1), "seed is -1, but must be a whole number"),
        (dict(seed="x"), "seed must be a whole number"),
        (dict(block=-1), "block is -1, but must be a whole number"),
        (dict(mask_id="x"), "mask_id must be a token id"),
        (dict(shift="no"), "shift must be True or False, but 'no'"),
        (dict(temperature=-1.0), "temperature must be"),
        (dict(cfg_scale=-1.0), "cfg_scale must be"),
        (dict(cfg_scale=math.nan), "cfg_scale must be"),
        (dict(attention_row="both"), "attention_row must be 'position' or 'source'"),
        (dict(noise="loud"), "noise must be"),
        (dict(temprature=0.5), "unknown option.s. temprature; known are adapter, block, temperature"),
        (dict(batch_size=0), "batch_size must be a whole number, 1 or more"),
        (dict(mask_id=999), "mask_id must be below the model's 160 tokens, but 999"),
        (dict(suppress=[160]), "suppress must hold token ids from 0 to 159"),
        (dict(sampler="apd"), "companion"),
        (dict(sampler="demask"), "trained head"),
        (dict(sampler="topk:2+ad@layer=3"), "layer 3 was asked for, but the model has layers 0 to 2"),
        (dict(sampler="nonsense:2"), "nonsense"),
    ],
)
def test_wrong_requests_are_refused(llada, options, words):
    with pytest.raises(cofill.Error, match=words):
        generate(llada.model, [llada.prompt(4, 0)], **({"sampler": "topk:2", "max_new_tokens": 4} | options))


@pytest.mark.parametrize("model", [None, "tiny-llada", cofill.Engine("tiny-llada")], ids=["None", "a name", "an engine"])
def test_what_is_no_torch_model(model):
    with pytest.raises(cofill.Error, match="model must be a torch model, but a .* was given.*cofill.Engine"):
        generate(model, [[1, 2]], "topk:2", max_new_tokens=4)


def test_weights_that_are_not_loaded(goldens):
    model = tiny_torch.load(goldens / "models" / "llada_tiny").to("meta")
    with pytest.raises(cofill.Error, match="on the device meta: they are not loaded"):
        generate(model, [[1, 2]], "topk:2", max_new_tokens=4)


def test_a_shifted_model_needs_a_first_token(dream):
    with pytest.raises(cofill.Error, match="begins with a mask in row 1.*put a token first"):
        fill(dream.model, [[1, 151], [151, 2]], "topk:1")


def test_nan_logits_name_their_position(goldens):
    model = tiny_torch.load(goldens / "models" / "llada_tiny")
    with torch.no_grad():
        model.model.transformer.wte.weight[7] = math.nan  # only canvases with token 7
    assert generate(model, [[1, 2, 3]], "topk:1", max_new_tokens=2).finish == ["complete"]
    with pytest.raises(cofill.RunError, match=r"logits of position 3 at step 0 hold NaN or \+inf \(2 of 2 rows do\)"):
        generate(model, [[1, 7, 3]], "topk:1", max_new_tokens=2)


def test_an_adapter_that_answers_nonsense_is_told_what_was_expected(llada):
    class Flat(cofill.adapters.Adapter):
        def forward(self, x, mask):
            return self.model(input_ids=x).logits[0]

    with pytest.raises(cofill.Error, match=r"the model answered with \(\d+, 160\), but \[batch, length, vocab\]"):
        generate(llada.model, [llada.prompt(4, 0)], "topk:1", max_new_tokens=2, adapter=Flat)
    with pytest.raises(cofill.Error, match="adapter has no `mask_id`, `source_row`, `forward`"):
        generate(llada.model, [llada.prompt(4, 0)], "topk:1", adapter=object())


def test_an_adapter_of_ones_own_decodes_an_unknown_class(llada):
    class Mine(torch.nn.Module):
        """The same weights behind another face: nothing in it has a name that is known."""

        def __init__(self, inner):
            super().__init__()
            self.inner, self.config = inner, types.SimpleNamespace(num_hidden_layers=3)

        def forward(self, tokens):
            return {"scores": self.inner(tokens).logits}

    class MyAdapter(cofill.adapters.Adapter):
        def forward(self, x, mask):
            return self.model(x)["scores"]

    canvas = llada.prompt(8, 3) + [150] * 16
    model = Mine(llada.model).eval()
    with pytest.raises(cofill.Error, match="class MyAdapter"):
        fill(model, [canvas], "eb:1+ad")
    out = fill(model, [canvas], "eb:1+ad", adapter=MyAdapter(model, mask_id=150))
    same_traces(out.traces[0], llada.engine.fill(np.array(canvas), sampler="eb:1+ad").trace)


def test_training_mode_is_pointed_out(llada):
    llada.model.train()
    try:
        with pytest.warns(UserWarning, match="call model.eval()"):
            generate(llada.model, [llada.prompt(4, 0)], "topk:2", max_new_tokens=2)
    finally:
        llada.model.eval()


def test_traces_read_as_text_where_there_is_a_tokenizer(llada):
    class Words:
        def decode(self, tokens):
            return " ".join(f"w{token}" for token in tokens)

    out = generate(llada.model, [[1, 2, 3]], "topk:2", max_new_tokens=4, tokenizer=Words())
    columns = out.traces[0].commits()
    assert columns["piece"] == [f"w{token}" for token in columns["token"]]


# --- as a denoiser -------------------------------------------------------------------------------------------------------------------------


def test_a_denoiser_answers_as_the_engine_probes(family):
    canvas = np.array(family.prompt(8, 5) + [family.mask_id] * 8)
    denoiser = TorchDenoiser(family.model)
    assert (denoiser.mask_id, denoiser.vocab) == (family.mask_id, 160)
    query = cofill.Decode(canvas, family.mask_id, "topk:2+ad").query()
    answer = denoiser.denoise([query, query])[1]
    probe = family.engine.probe(canvas, query.rows)
    assert answer["token"].tolist() == probe.token.tolist()
    for name in ("confidence", "uncertainty", "margin", "entropy"):
        assert np.allclose(answer[name], getattr(probe, name), atol=2e-5), name
    assert np.abs(answer["attention"] - probe.attention).max() < 2e-5


def test_rust_diagnostics_measure_a_torch_model_as_the_engine(family):
    canvases = [np.array(family.prompt(8, seed) + [family.mask_id] * 16) for seed in (1, 2)]
    mine = measure(TorchDenoiser(family.model), canvases, k=4, resamples=10).pairs()
    want = measure(family.engine, canvases, k=4, resamples=10).pairs()
    assert len(want["doc"]) > 10
    for name, values in want.items():
        assert np.allclose(mine[name], values, atol=1e-4), name


@pytest.mark.parametrize("cfg", [0.0, 0.5])
def test_scores_of_given_tokens_are_the_engines(family, cfg):
    denoiser = TorchDenoiser(family.model, cfg_scale=cfg)
    canvases = [np.array(family.prompt(n, n) + [family.mask_id] * 6) for n in (4, 7, 4)]
    requests = [(c, np.arange(len(c) - 6, len(c)), np.arange(6) * 11) for c in canvases]
    free = [rows for _, rows, _ in requests]
    got = denoiser.score_batch(requests, free=free)
    for (tokens, rows, targets), mine in zip(requests, got):
        want = family.engine.score(tokens, rows, targets, free=rows, cfg=cfg)
        assert np.allclose(mine, want, atol=2e-4)
        assert np.allclose(denoiser.score(tokens, rows, targets, free=rows), mine, atol=1e-5)
    with pytest.raises(cofill.Error, match="request 0 has 2 rows and 1 targets"):
        denoiser.score_batch([(canvases[0], [4, 5], [1])], free=[[4]])
