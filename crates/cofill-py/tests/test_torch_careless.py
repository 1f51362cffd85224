"""What careless callers and adapters do to torch models: refused on the host, by name, before a device sees it.

On a GPU an index out of bounds ends the process's CUDA context, so that nothing here may be left to torch.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import cofill  # noqa: E402
import tiny_torch  # noqa: E402
from cofill.adapters import Adapter, adapt  # noqa: E402
from cofill.compat import dream as dream_compat  # noqa: E402
from cofill.compat import llada as llada_compat  # noqa: E402
from cofill.torch import Forward, Question, TorchDenoiser, fill, generate  # noqa: E402

MASK = {"llada": 150, "dream": 151}


@pytest.fixture(scope="module")
def models(goldens):
    return {name: tiny_torch.load(goldens / "models" / f"{name}_tiny") for name in MASK}


@pytest.fixture(scope="module")
def llada(models):
    return models["llada"]


# --- the denoiser --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_, free, words",
    [
        (([1, 150], [1], [10**6]), None, r"targets of request 0 holds 1000000 at 0, but the model knows 0 to 159"),
        (([1, 150], [1], [-1]), None, r"targets of request 0 holds -1 at 0"),
        (([1, 500, 150], [2], [3]), None, r"tokens of request 0 holds 500 at 1, but the model knows 0 to 159"),
        (([1, 150], [2], [3]), None, r"rows of request 0 holds 2 at 0, but its canvas has 2 positions"),
        (([1, 150], [-1], [3]), None, r"rows of request 0 holds -1 at 0, but its canvas has 2 positions"),
        (([1, 150], [1], [3]), [99], r"free of request 0 holds 99 at 0, but its canvas has 2 positions"),
        (([1.5, 150], [1], [3]), None, "tokens of request 0 must hold integers, but its type is float64"),
        (([1, 150], [True], [3]), None, "rows of request 0 must hold integers, but its type is bool"),
        (([[1, 150], [2, 150]], [1], [3]), None, r"tokens of request 0 has shape \(2, 2\), but \[length\] was expected"),
        (([], [], []), None, "tokens of request 0 has nothing in it; give at least one token"),
        (([1, 150], [0, 1], [3]), None, "request 0 has 2 rows and 1 targets"),
    ],
)
def test_scores_of_what_is_not_there_are_refused(llada, request_, free, words):
    with pytest.raises(cofill.Error, match=words):
        TorchDenoiser(llada).score(*request_, free=free)
    with pytest.raises(cofill.Error, match=words):
        TorchDenoiser(llada, cfg_scale=0.5).score(*request_, free=[0] if free is None else free)


def test_free_has_an_entry_for_every_request(llada):
    requests = [([1, 150], [1], [3])] * 2
    for cfg in (0.0, 0.5):
        with pytest.raises(cofill.Error, match="free has 1 entries for 2 requests; give one for each"):
            TorchDenoiser(llada, cfg_scale=cfg).score_batch(requests, free=[[1]])


def test_nothing_asked_is_nothing_answered(llada):
    denoiser = TorchDenoiser(llada)
    assert denoiser.score_batch([]) == [] and denoiser.denoise([]) == []
    assert Forward(adapt(llada)).ask([]) == []
    assert denoiser.score([1, 150], [], []).shape == (0,)


def test_scores_take_tensors_and_one_row(llada):
    denoiser = TorchDenoiser(llada)
    want = denoiser.score([1, 2, 150], [2], [3])
    given = (torch.tensor([[1, 2, 150]]), torch.tensor([2]), torch.tensor([3]))
    assert np.array_equal(denoiser.score(*given), want)
    assert np.array_equal(denoiser.score([1, 2, 150], 2, 3), want)


def test_a_query_with_a_token_that_is_not_known_is_refused(llada):
    query = cofill.Decode([1, 10**6, 150], 150, "topk:1").query()
    with pytest.raises(cofill.Error, match="tokens of query 1 holds 1000000 at 1, but the model knows 0 to 159"):
        TorchDenoiser(llada).denoise([cofill.Decode([1, 150], 150, "topk:1").query(), query])


def test_targets_are_checked_where_the_vocabulary_is_known_late(llada):
    class Headless(Adapter):
        """Nothing says how many tokens there are before a forward."""

        vocab = None

    denoiser = TorchDenoiser(llada, adapter=Headless(llada))
    with pytest.raises(cofill.Error, match="targets of request 1 holds 160 at 0, but the model knows 0 to 159"):
        denoiser.score_batch([([1, 150], [1], [159]), ([1, 150], [1], [160])])
    with pytest.raises(cofill.Error, match="tokens of request 0 holds 999 at 0, but the model knows 0 to 159"):
        denoiser.score([999, 150], [1], [3])


def test_questions_are_checked_for_whoever_asks(llada):
    with pytest.raises(cofill.Error, match="rows of query 0 holds 7 at 0, but its canvas has 2 positions"):
        Forward(adapt(llada)).ask([Question(np.array([1, 150]), np.array([7]))])


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(top_p="x"), "top_p must be a number, 0 or more, but 'x'"),
        (dict(top_k="x"), "top_k must be a whole number, 1 or more, but 'x'"),
        (dict(top_k=2.5), "top_k must be a whole number, 1 or more, but 2.5"),
        (dict(cfg_scale=None), "cfg_scale must be a number, 0 or more, but None"),
        (dict(batch_size=1.5), "batch_size must be a whole number, 1 or more, but 1.5"),
        (dict(suppress=[1.5]), "suppress must hold integers, but its type is float64"),
        (dict(suppress="ab"), "suppress must hold integers"),
        (dict(demote=[True]), "demote must hold integers, but its type is bool"),
    ],
)
def test_options_of_another_type_are_refused_by_name(llada, options, words):
    with pytest.raises(cofill.Error, match=words):
        generate(llada, [[1, 2]], "topk:1", max_new_tokens=2, **options)


def test_suppressed_tokens_may_come_in_any_collection(llada):
    outs = [
        generate(llada, [[1, 2]], "topk:1", max_new_tokens=4, suppress=tokens).sequences.tolist()
        for tokens in ([7, 9], {7, 9}, (t for t in (7, 9)), np.array([7, 9]), torch.tensor([7, 9]))
    ]
    assert all(out == outs[0] for out in outs)


# --- adapters ------------------------------------------------------------------------------------------------------------------------------


class Whole(Adapter):
    """Takes whole logits."""

    def __init__(self, model, mask_id=None, shift=None):
        super().__init__(model, mask_id, shift)
        self.head = None


class Short(Whole):
    def forward(self, x, mask):
        return super().forward(x, mask)[:, :3]


class First(Whole):
    def forward(self, x, mask):
        return super().forward(x, mask)[:1]


class ShortBelow(Adapter):
    """The model itself is asked for less, so that its head sees less."""

    def forward(self, x, mask):
        return super().forward(x[:, :3], mask)


@pytest.mark.parametrize(
    "adapter, words",
    [
        (Short, r"the model answered with \(2, 3, 160\), but \[2, 7, vocab\] was expected; see `forward` of the adapter"),
        (First, r"the model answered with \(1, 7, 160\), but \[2, 7, vocab\] was expected"),
        (ShortBelow, r"the head was called with \(2, 3, \d+\), but \[2, 7, width\] was expected; see `head` and `forward` of the adapter"),
    ],
)
def test_logits_of_other_shapes_are_refused_before_they_are_indexed(llada, adapter, words):
    with pytest.raises(cofill.Error, match=words):
        generate(llada, [[1, 2, 3], [4, 5, 6]], "topk:1", max_new_tokens=4, adapter=adapter)


@pytest.mark.parametrize(
    "answer, words",
    [
        (lambda p: p + 1, r"source_row answered 5 for position 4, but the canvas has 5 positions; see `source_row` of the adapter"),
        (lambda p: p - 9, "source_row answered -7 for position 2, but the canvas has 5 positions"),
        (lambda p: p[:1], r"source_row answered shape \(1,\) for positions of shape \(3,\); give one row for each"),
        (lambda p: p * 0.5, "source_row must answer integers, but its type is float32"),
        (lambda p: None, "source_row must answer integers, but its type is object"),
    ],
)
def test_rows_that_predict_must_be_there(llada, answer, words):
    class Own(Adapter):
        def source_row(self, position):
            return answer(position)

    with pytest.raises(cofill.Error, match=words):
        generate(llada, [[1, 2]], "topk:3", max_new_tokens=3, adapter=Own)


def test_padding_does_not_excuse_a_row_beyond_its_own_canvas(llada):
    class Before(Adapter):
        def source_row(self, position):
            return position - 3

    with pytest.raises(cofill.Error, match="source_row answered -2 for position 1"):
        generate(llada, [[1], [1, 2, 3, 4, 5]], "topk:1", max_new_tokens=1, adapter=Before, padding=True)


def test_an_adapter_of_another_model_is_refused(models):
    other = Adapter(models["dream"], shift=True)
    words = "adapter was made for another model, a .*Dream.*, than the .*LLaDA.* that was given; pass the same model to both"
    for call in (
        lambda: generate(models["llada"], [[1, 2]], "topk:1", max_new_tokens=2, adapter=other),
        lambda: fill(models["llada"], [[1, 150]], "topk:1", adapter=other),
        lambda: TorchDenoiser(models["llada"], adapter=other),
    ):
        with pytest.raises(cofill.Error, match=words):
            call()
    with pytest.raises(cofill.Error, match="model must be a torch model, but a NoneType was given"):
        generate(None, [[1, 2]], "topk:1", max_new_tokens=2, adapter=other)


def within(seconds, call):
    """What a call raised, in a thread of its own: a test of what hangs must not hang itself."""
    raised = []

    def run():
        try:
            call()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"
    return raised


def test_a_model_that_generates_with_itself_is_told_so(goldens):
    model = tiny_torch.load(goldens / "models" / "llada_tiny")  # its own: should it hang, nobody else does
    handle = model.register_forward_pre_hook(lambda *_: generate(model, [[1, 2]], "topk:1", max_new_tokens=2) and None)
    raised = within(20, lambda: generate(model, [[1, 2]], "topk:1", max_new_tokens=2))
    assert len(raised) == 1 and isinstance(raised[0], cofill.Error)
    assert "LLaDAModelLM is asked during a forward of its own" in str(raised[0])
    handle.remove()
    assert not within(20, lambda: generate(model, [[1, 2]], "topk:1", max_new_tokens=2)), "the lock is free again"


def test_a_head_may_be_called_by_keyword(goldens):
    model = tiny_torch.load(goldens / "models" / "llada_tiny")
    want = generate(model, [[1, 2]], "eb:1+ad", max_new_tokens=6)
    head = adapt(model).head
    positional, seen = type(head).forward, []

    class ByKeyword(torch.nn.Module):
        """Between the model and its head, as code that writes `self.lm_head(input=x)`."""

        def __init__(self):
            super().__init__()
            self.inner = head

        def forward(self, x):
            seen.append(tuple(x.shape))
            return self.inner(input=x)

    model.model.transformer["ff_out"] = ByKeyword()
    adapter = adapt(model)
    adapter.head = head
    shapes = []
    head.forward = lambda input: shapes.append(tuple(input.shape)) or positional(head, input)
    got = generate(model, [[1, 2]], "eb:1+ad", max_new_tokens=6, adapter=adapter)
    assert torch.equal(got.sequences, want.sequences) and got.nfe == want.nfe
    assert seen[0][:2] == (1, 8) and shapes[0][:2] == (1, 6), "the head ran on asked rows alone"


# --- the official signatures ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings, words",
    [
        (dict(block_length=0), "block_length must be a whole number, 1 or more, but 0 was given"),
        (dict(block_length=-4), "block_length must be a whole number, 1 or more, but -4"),
        (dict(block_length=2.0), "block_length must be a whole number, 1 or more, but 2.0"),
        (dict(gen_length=0), "gen_length must be a whole number, 1 or more, but 0"),
        (dict(gen_length=None), "gen_length must be a whole number, 1 or more, but None"),
        (dict(steps=0), "steps must be a whole number, 1 or more, but 0"),
        (dict(steps="4"), "steps must be a whole number, 1 or more, but '4'"),
        (dict(temperature=None), "temperature must be a number, 0 or more, but None"),
    ],
)
def test_lladas_settings_are_checked_by_name(llada, settings, words):
    given = dict(steps=4, gen_length=8, block_length=8) | settings
    with pytest.raises(cofill.Error, match=words):
        llada_compat.generate(llada, torch.tensor([[1, 2]]), mask_id=150, **given)


def test_llada_may_end_in_several_ways(goldens):
    model, prompt = tiny_torch.load(goldens / "models" / "llada_tiny"), torch.tensor([[23, 72, 56, 59]])
    settings = dict(steps=16, gen_length=16, block_length=16, mask_id=150)
    plain = llada_compat.generate(model, prompt, **settings)
    ends = sorted(set(plain[0, 4:].tolist()))[:2]
    assert len(ends) == 2
    for given, kept in [(ends, ends), (tuple(ends[:1]), ends[:1]), ([], [])]:
        model.config.eos_token_id = given
        never = llada_compat.generate(model, prompt, logits_eos_inf=True, **settings)
        assert not set(kept) & set(never[0, 4:].tolist())
        llada_compat.generate(model, prompt, confidence_eos_eot_inf=True, **settings)


@pytest.mark.parametrize(
    "settings, words",
    [
        (dict(temperature=None), "temperature must be a number, 0 or more, but None"),
        (dict(temperature="1"), "temperature must be a number, 0 or more, but '1'"),
        (dict(steps=None), "steps must be a whole number, 1 or more, but None"),
        (dict(eps=None), "eps must be a number, 0 or more, but None"),
        (dict(top_p="x"), "top_p must be a number, 0 or more, but 'x'"),
        (dict(alg_temp="x"), "alg_temp must be a number, 0 or more, but 'x'"),
        (dict(num_return_sequences=1.5), "num_return_sequences must be a whole number, 1 or more, but 1.5"),
        (dict(max_new_tokens=None, max_length=None), "max_length must be a whole number, 1 or more, but None"),
    ],
)
def test_dreams_settings_are_checked_by_name(models, settings, words):
    given = dict(max_new_tokens=4, steps=4, temperature=0.0, top_k=None) | settings
    with pytest.raises(cofill.Error, match=words):
        dream_compat.diffusion_generate(models["dream"], torch.tensor([[1, 2, 3]]), **given)


@pytest.mark.parametrize("sampler", ["dream:8@origin", "p2:8@random@eta=2", "llada:8@random"])
@pytest.mark.parametrize("name", ["llada", "dream"])
def test_torch_manual_seed_decides_what_a_given_sampler_draws(models, name, sampler):
    prompt = torch.tensor([[23, 72, 56, 59]] * 2)

    def draw(seed):
        torch.manual_seed(seed)
        if name == "llada":
            settings = dict(gen_length=12, block_length=12, mask_id=150, return_output=True)
            out = llada_compat.generate(models["llada"], prompt, sampler=sampler, **settings)
        else:
            settings = dict(max_new_tokens=12, temperature=0.0, top_k=None, return_dict_in_generate=True)
            out = dream_compat.diffusion_generate(models["dream"], prompt, sampler=sampler, **settings).output
        return [[step.positions.tolist() for step in trace.steps] for trace in out.traces]

    assert draw(0) == draw(0) != draw(1)
    assert draw(0)[0] != draw(0)[1], "each sequence has a seed of its own"


# --- history -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("sampler", ["p2:8", "p2:8@random@eta=2", "topk:2+ad"])
def test_history_is_the_canvas_after_every_step_also_where_steps_take_back(models, sampler, keep):
    prompt, mask = torch.tensor([[31, 85, 34], [143, 50, 132]]), torch.tensor([[1, 1, 1], [0, 1, 1]])
    seen = []
    out = dream_compat.diffusion_generate(
        models["dream"],
        prompt,
        attention_mask=mask,
        max_new_tokens=12,
        temperature=0.0,
        top_k=None,
        sampler=sampler,
        return_dict_in_generate=True,
        output_history=True,
        options={"trace": keep, "seed": 1, "on_step": lambda row, step: seen.append((row, step))},
    )
    assert len(out.output.traces) == (2 if keep else 0)
    for row, first in enumerate((0, 1)):
        steps = [step for at, step in seen if at == row]
        canvas = [*prompt[row].tolist(), *[151] * 12]
        for step, after in zip(steps, out.history):
            for position, token in zip(step.positions, step.token):
                canvas[first + position] = int(token)
            for position in step.remasked:
                canvas[first + position] = 151
            assert after[row].tolist() == canvas
        assert len(out.history) == len(steps) and canvas == out.sequences[row].tolist()
    if "random" in sampler:
        assert any(len(step.remasked) for _, step in seen), "the test needs a sampler that takes something back"


def test_history_of_no_steps_is_empty(models):
    settings = dict(max_new_tokens=4, temperature=0.0, top_k=None, sampler="topk:1", return_dict_in_generate=True, output_history=True)
    out = dream_compat.diffusion_generate(models["dream"], torch.tensor([[1, 2]]), options={"max_nfe": 1}, **settings)
    assert len(out.history) == 1 and int((out.history[0] == 151).sum()) == 3
    assert dream_compat._history(cofill.torch.Output(out.sequences, out.sequences, [], [])) == []
