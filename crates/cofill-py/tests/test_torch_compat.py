"""The official decoders by their own signatures: their golden trajectories, and transformers' door."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import cofill  # noqa: E402
import tiny_torch  # noqa: E402
from cofill.compat import dream, llada  # noqa: E402
from test_torch_generate import same_steps  # noqa: E402


@pytest.fixture(scope="module")
def models(goldens):
    return {name: tiny_torch.load(goldens / "models" / f"{name}_tiny") for name in ("llada", "dream")}


def golden_decodes(golden_json, name, prefix):
    found = [g for g in golden_json(f"{name}_trajectories") if g["algorithm"].startswith(prefix)]
    assert found
    return found


def laid_out(golden):
    """Prompts and their mask."""
    prompt = torch.tensor(golden["canvas"])[:, : golden["prompt_len"]]
    mask = golden.get("attention_mask")
    return prompt, None if mask is None else torch.tensor(mask)[:, : golden["prompt_len"]]


def absolute(golden, row):
    """The steps of one sequence, counted from its first real token."""
    mask = golden.get("attention_mask")
    padding = 0 if mask is None else mask[row].count(0)
    return [{**step[row], "selected": [p - padding for p in step[row]["selected"]]} for step in golden["steps"]]


def test_llada_decodes_as_its_own_generate(models, golden_json):
    for golden in golden_decodes(golden_json, "llada", "llada_low_confidence"):
        prompt, mask = laid_out(golden)
        p = golden["params"]
        out = llada.generate(
            models["llada"],
            prompt,
            mask,
            steps=p["steps"],
            gen_length=p["gen_length"],
            block_length=p["block_length"],
            temperature=0.0,
            cfg_scale=p["cfg_scale"],
            remasking="low_confidence",
            mask_id=150,
            return_output=True,
        )
        assert out.sequences.tolist() == golden["final"], golden["name"]
        assert out.nfe == [golden["nfe"]] * golden["batch"]
        for row, trace in enumerate(out.traces):
            same_steps(trace.steps, absolute(golden, row))


def test_fast_dllm_decodes_as_its_own_code(models, golden_json):
    for golden in golden_decodes(golden_json, "llada", "fastdllm_"):
        if "cache" in golden["algorithm"]:
            continue  # approximate key-value caches are not cofill's
        p = golden["params"]
        spec = f"threshold:{p['threshold']}" if "threshold" in p else f"fast-upstream:{p['factor']}"
        prompt, _ = laid_out(golden)
        out = llada.generate(
            models["llada"],
            prompt,
            gen_length=p["gen_length"],
            block_length=p["block_length"],
            mask_id=150,
            sampler=spec,
            return_output=True,
        )
        assert out.sequences.tolist() == golden["final"], golden["name"]
        assert out.nfe == [golden["nfe"]]


def test_dream_decodes_as_its_own_diffusion_generate(models, golden_json):
    for golden in golden_decodes(golden_json, "dream", "dream_"):
        p, (prompt, mask) = golden["params"], laid_out(golden)
        if golden["algorithm"] == "dream_confidence_threshold":
            settings = dict(sampler=f"threshold-dream:{p['threshold']},{p['steps']}", temperature=0.0, top_k=None)
        else:
            settings = dict(
                steps=p["steps"], alg=p["alg"], eps=p["eps"], temperature=0.0, top_k=p["top_k"], top_p=p["top_p"]
            )
        out = dream.diffusion_generate(
            models["dream"],
            prompt,
            attention_mask=mask,
            max_new_tokens=p["gen_length"],
            return_dict_in_generate=True,
            output_history=True,
            **settings,
        )
        assert out.sequences.tolist() == golden["final"], golden["name"]
        assert out.output.nfe == [golden["nfe"]] * golden["batch"]
        for row, trace in enumerate(out.output.traces):
            mine, theirs = trace.steps, absolute(golden, row)
            assert [sorted(s.positions.tolist()) for s in mine] == [sorted(s["selected"]) for s in theirs]
        # The history is the canvas after every step.
        canvas = np.array(golden["canvas"])
        for step, after in zip(golden["steps"], out.history):
            for row, done in enumerate(step):
                canvas[row, done["selected"]] = done["tokens"]
            assert after.tolist() == canvas.tolist()


def test_the_defaults_of_dream_leak_from_the_models_configuration(models):
    prompt = torch.tensor([[31, 85, 34, 116]])
    model = models["dream"]
    seen = {}
    original, model.config.top_k = getattr(model.config, "top_k", None), 3
    try:
        for name, given in [("leaked", {}), ("off", dict(top_k=None)), ("three", dict(top_k=3))]:
            seen[name] = (
                dream.diffusion_generate(
                    model,
                    prompt,
                    max_new_tokens=8,
                    steps=4,
                    alg="entropy",
                    temperature=0.0,
                    return_dict_in_generate=True,
                    **given,
                )
                .output.traces[0]
                .steps[0]
                .confidence.tolist()
            )
    finally:
        model.config.top_k = original
    assert seen["leaked"] == seen["three"] != seen["off"]


def test_dreams_confidence_is_that_of_the_tempered_softmax(models):
    prompt, settings = (
        torch.tensor([[31, 85, 34, 116]]),
        dict(max_new_tokens=8, steps=1, alg="maskgit_plus", temperature=0.5),
    )
    out = dream.diffusion_generate(
        models["dream"], prompt, top_k=None, top_p=None, return_dict_in_generate=True, options={"seed": 3}, **settings
    )
    with torch.no_grad():
        logits = models["dream"](torch.tensor([[31, 85, 34, 116] + [151] * 8])).logits[0]
    tempered = torch.softmax(logits / 0.5, dim=1).numpy()
    step = out.output.traces[0].steps[0]
    want = [tempered[position - 1, token] for position, token in zip(step.positions, step.token)]
    assert len(want) == 8 and np.allclose(step.confidence, want, atol=1e-5)


def test_another_sampler_is_one_keyword(models):
    prompt = torch.tensor([[23, 72, 56, 59]])
    want = cofill.torch.generate(models["llada"], prompt, "eb:1+ad", max_new_tokens=16)
    got = llada.generate(models["llada"], prompt, gen_length=16, block_length=16, mask_id=150, sampler="eb:1+ad")
    assert torch.equal(got, want.sequences)
    want = cofill.torch.generate(models["dream"], prompt, "eb:1+ad", max_new_tokens=16)
    got = dream.diffusion_generate(
        models["dream"], prompt, max_new_tokens=16, sampler="eb:1+ad", temperature=0.0, top_k=None
    )
    assert torch.equal(got, want.sequences)


def test_torch_manual_seed_decides_what_is_sampled(models):
    prompt = torch.tensor([[23, 72, 56, 59]] * 2)

    def draw(seed):
        torch.manual_seed(seed)
        return llada.generate(
            models["llada"], prompt, steps=4, gen_length=16, block_length=16, temperature=1.0, mask_id=150
        ).tolist()

    assert draw(0) == draw(0) != draw(1)
    assert draw(0)[0] != draw(0)[1], "each sequence has noise of its own, as there"


def test_what_is_not_random_draws_nothing(models):
    prompt = torch.tensor([[5, 6, 7]])
    before = torch.get_rng_state()
    llada.generate(models["llada"], prompt, steps=4, gen_length=8, block_length=8, mask_id=models["llada"].config.mask_token_id)
    dream.diffusion_generate(models["dream"], prompt, max_new_tokens=4, steps=4, alg="entropy", temperature=0.0)
    assert torch.equal(before, torch.get_rng_state()), "a script's later draws would change with the import"


def test_end_of_text_can_be_forbidden_or_put_last(models):
    prompt = torch.tensor([[23, 72, 56, 59]])
    model = models["llada"]
    plain = llada.generate(model, prompt, steps=16, gen_length=16, block_length=16, mask_id=150)
    likely = int(plain[0, 4:].mode().values)
    original, model.config.eos_token_id = model.config.eos_token_id, likely
    try:
        never = llada.generate(
            model, prompt, steps=16, gen_length=16, block_length=16, mask_id=150, logits_eos_inf=True
        )
        last = llada.generate(
            model,
            prompt,
            steps=16,
            gen_length=16,
            block_length=16,
            mask_id=150,
            confidence_eos_eot_inf=True,
            return_output=True,
        )
    finally:
        model.config.eos_token_id = original
    assert likely in plain[0, 4:] and likely not in never[0, 4:]
    order = [int(step.token[0]) for step in last.traces[0].steps]
    first = order.index(likely) if likely in order else len(order)
    assert all(step.confidence[0] == 0 for step in last.traces[0].steps[first:] if step.token[0] == likely)


@pytest.mark.parametrize(
    "settings, words",
    [
        (dict(gen_length=16, block_length=5), "gen_length must be a multiple of block_length, but 16 and 5"),
        (dict(gen_length=16, block_length=4, steps=6), "steps must be a multiple of the 4 blocks, but 6"),
        (dict(gen_length=16, block_length=16, remasking="best"), "remasking must be"),
    ],
)
def test_what_the_official_loop_asserts_is_said(models, settings, words):
    with pytest.raises(cofill.Error, match=words):
        llada.generate(models["llada"], torch.tensor([[1, 2]]), mask_id=150, **settings)


def test_dreams_settings_are_checked(models):
    prompt = torch.tensor([[1, 2, 3]])
    for settings, words in [
        (dict(alg="best"), "alg must be one of origin"),
        (dict(stepps=3), "unknown setting.*stepps; known are"),
        (dict(max_length=3), "max_length must be above the 3 tokens"),
        (dict(generation_tokens_hook_func=print), "belongs to the official loop"),
    ]:
        with pytest.raises(cofill.Error, match=words):
            dream.diffusion_generate(models["dream"], prompt, **settings)


def test_a_recording_of_dreams_own_loop_is_a_trace(models, golden_json):
    golden = next(g for g in golden_decodes(golden_json, "dream", "dream_maskgit") if g["batch"] == 1)
    recording = dream.Recording(mask_id=151, sampler=f"dream:{golden['params']['steps']}@maskgit_plus")
    listen = dream.hooks(recording)["generation_tokens_hook_func"]
    x = torch.tensor(golden["canvas"])
    assert listen(None, x, None) is x
    for i, step in enumerate(golden["steps"]):  # what the loop does, from the golden file
        with torch.no_grad():
            logits = models["dream"](x).logits
        logits = torch.cat([logits[:, :1], logits[:, :-1]], dim=1)
        x = x.clone()
        x[0, step[0]["selected"]] = torch.tensor(step[0]["tokens"])
        assert listen(i, x, logits) is x
    trace = recording.traces()[0]
    same_steps(trace.steps, [step[0] for step in golden["steps"]])
    assert trace.end.tolist() == golden["final"][0] and trace.nfe == golden["nfe"]
    for mine, theirs in zip(trace.steps, golden["steps"]):
        assert np.allclose(mine.confidence, theirs[0]["score"], atol=5e-5)


def test_transformers_generate_takes_cofill_by_one_keyword():
    transformers = pytest.importorskip("transformers")
    version = tuple(int(part) for part in transformers.__version__.split(".")[:2])
    if not (4, 56) <= version < (5, 0):
        pytest.skip("custom_generate takes a callable from 4.56 on")

    class A2DQwen2LMHeadModel(transformers.Qwen2ForCausalLM):
        """The name and the layout of a converted model; that it looks only left does not matter here."""

    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=40,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=38,
        eos_token_id=38,
    )
    config.mask_token_id = 37
    model = A2DQwen2LMHeadModel(config).eval()
    ids = torch.tensor([[5, 17, 30], [38, 2, 9]])
    mask = torch.tensor([[1, 1, 1], [0, 1, 1]])
    got = model.generate(
        ids, attention_mask=mask, custom_generate=cofill.hf, sampler="topk:2", max_new_tokens=6, seed=3
    )
    want = cofill.generate(model, ids, "topk:2", attention_mask=mask, max_new_tokens=6)
    assert torch.equal(got, want.sequences) and (got != 37).all()
    many = model.generate(
        ids[:1],
        custom_generate=cofill.hf,
        sampler="topk:2",
        max_new_tokens=6,
        do_sample=True,
        temperature=1.0,
        num_return_sequences=3,
        return_dict_in_generate=True,
    )
    assert (
        many.sequences.shape == (3, 9)
        and many.nfe == [3, 3, 3]
        and len({tuple(s) for s in many.sequences.tolist()}) > 1
    )
    with pytest.raises(ValueError, match="smapler"):
        model.generate(ids, custom_generate=cofill.hf, smapler="topk:2", max_new_tokens=6)


@pytest.mark.skipif(
    not os.environ.get("COFILL_DLLM"), reason="needs the published classes: COFILL_DLLM=<checkout of ZHZisZZ/dllm>"
)
def test_dreams_own_loop_is_recorded_and_reproduced(models):
    model, prompt = models["dream"], torch.tensor([[31, 85, 34, 116, 138, 50, 132, 58]])
    recording = dream.Recording(mask_id=151, sampler="dream:6@entropy")
    settings = dict(max_new_tokens=16, steps=6, alg="entropy", temperature=0.0, top_k=None, top_p=None)
    # dllm's copy cannot make its configuration from a model's in transformers 4.57, so it gets one.
    module = sys.modules[type(model).__module__.rsplit(".", 1)[0] + ".generation_utils"]
    config = module.DreamGenerationConfig(
        **settings, mask_token_id=151, pad_token_id=143, bos_token_id=143, eos_token_id=143, return_dict=False
    )
    theirs = model.diffusion_generate(prompt, generation_config=config, **dream.hooks(recording))
    ours = dream.diffusion_generate(model, prompt, return_dict_in_generate=True, **settings)
    assert torch.equal(theirs, ours.sequences)
    for a, b in zip(recording.traces()[0].steps, ours.output.traces[0].steps):
        assert sorted(a.positions.tolist()) == sorted(b.positions.tolist())


@pytest.mark.skipif(
    not os.environ.get("COFILL_DLLM"), reason="needs the published classes: COFILL_DLLM=<checkout of ZHZisZZ/dllm>"
)
def test_llada_of_transformers_generates_by_one_keyword(models):
    transformers = pytest.importorskip("transformers")
    ids, model = torch.tensor([[23, 72, 56, 59]]), models["llada"]
    published = type(model)
    # What transformers itself does to remote classes that it loads by name.
    model.__class__ = type("LLaDAModelLM", (published, transformers.GenerationMixin), {})
    try:
        model.generation_config = transformers.GenerationConfig()
        got = model.generate(ids, custom_generate=cofill.hf, sampler="eb:3+ad", max_new_tokens=4)
    finally:
        model.__class__ = published
    assert torch.equal(got, cofill.generate(model, ids, "eb:3+ad", max_new_tokens=4).sequences)
