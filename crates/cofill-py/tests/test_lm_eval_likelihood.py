"""Likelihoods under the harness: on the tiny checkpoint against other ways to the same number, and against the published functions."""

from __future__ import annotations

import functools
import importlib.util
import os
import pathlib

import numpy as np
import pytest

pytest.importorskip("lm_eval")

from lm_eval.api.instance import Instance  # noqa: E402

import cofill  # noqa: E402
from cofill.lm_eval import CofillLM  # noqa: E402
from cofill.lm_eval.model import _identified  # noqa: E402
from test_lm_eval import CHAINS, choosing  # noqa: E402


@pytest.fixture(scope="module")
def engine() -> cofill.Engine:
    return cofill.Engine("tiny-llada")


def log_p(engine: cofill.Engine, tokens: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """log p of the right tokens at masked rows, from whole distributions: by another way than `score`."""
    hidden = tokens.copy()
    hidden[rows] = engine.mask_id
    whole = np.asarray(engine.probe(hidden, rows, distributions=True).distributions, np.float64)  # [m, vocab]
    return np.log(whole[np.arange(len(rows)), tokens[rows]])


def plain_llada(engine: cofill.Engine, prefix: list[int], target: list[int], samples: int) -> np.ndarray:
    """The formula of the paper in the plainest way, one number a canvas: x ~ U{1..l}, a uniform subset of x, l/x * sum of log p."""
    rng, length = np.random.default_rng(99), len(target)
    tokens = np.array(prefix + target)
    found = []
    for _ in range(samples):
        x = int(rng.integers(1, length + 1))
        rows = np.sort(rng.choice(length, x, replace=False)) + len(prefix)
        found.append(length / x * log_p(engine, tokens, rows).sum())
    return np.array(found)


def near(found: np.ndarray, expected: np.ndarray) -> None:
    """Two sets of independent estimates have one mean."""
    error = np.hypot(found.std(ddof=1) / np.sqrt(found.size), expected.std(ddof=1) / np.sqrt(expected.size))
    assert 0 < error < 0.25 * abs(expected.mean()), "too rough to tell anything"
    assert abs(found.mean() - expected.mean()) < 4 * error, (found.mean(), expected.mean(), error)


def estimates(engine: cofill.Engine, pair: tuple[str, str], n: int, **settings) -> np.ndarray:
    requests = [Instance("loglikelihood", {}, pair, 0, ("t", doc, 1)) for doc in range(n)]
    return np.array([value for value, _ in CofillLM(engine, batch_size=64, **settings).loglikelihood(requests, True)])


PAIR = (CHAINS[0] + "9-4=", "5\n5+5=11")  # wrong, so that it is neither certain nor hopeless
ONE = (CHAINS[0] + "9-4=", "6")  # one token


def test_the_estimate_is_that_of_the_papers_formula(engine: cofill.Engine) -> None:
    prefix, target = (engine.tokenizer.encode(text) for text in PAIR)
    assert len(target) > 3
    near(estimates(engine, PAIR, 60, mc_num=8, compat="llada"), plain_llada(engine, prefix, target, 1500))


def test_scored_rows_are_log_probabilities(engine: cofill.Engine) -> None:
    tokens = np.array([token for text in PAIR for token in engine.tokenizer.encode(text)])
    rows = np.array([len(tokens) - 4, len(tokens) - 1])
    hidden = tokens.copy()
    hidden[rows] = engine.mask_id
    (scored,) = engine.score_batch([(hidden, rows, tokens[rows])])
    assert scored == pytest.approx(log_p(engine, tokens, rows), abs=1e-4)


def test_one_token_is_scored_exactly(engine: cofill.Engine) -> None:
    tokens = np.array(engine.tokenizer.encode("".join(ONE)))
    (value,) = estimates(engine, ONE, 1)
    assert value == pytest.approx(log_p(engine, tokens, np.array([len(tokens) - 1]))[0], abs=1e-4)


def test_guidance_hides_the_prompt_and_shows_the_rest(engine: cofill.Engine) -> None:
    prefix, target = engine.tokenizer.encode(ONE[0]), engine.tokenizer.encode("6\n5")
    at = len(prefix)
    lm = CofillLM(engine, cfg=0.5, mc_num=32)
    (asked,) = [q for q in lm._plan(next(_identified(choosing([""], [""]))), prefix, target).queries if q.rows.tolist() == [at]]

    def logits(canvas: list[int]) -> np.ndarray:
        probed = engine.probe(np.array(canvas), np.array([at]), distributions=True)
        return np.log(np.asarray(probed.distributions[0], np.float64))  # [vocab]

    rest = [engine.mask_id, *target[1:]]  # of the target, what is shown stays
    given, hidden = logits(prefix + rest), logits([engine.mask_id] * at + rest)
    guided = hidden + 1.5 * (given - hidden)  # u + (s + 1)(l - u), s = 0.5
    expected = guided[target[0]] - guided.max() - np.log(np.exp(guided - guided.max()).sum())
    ((value,),) = lm._backend.score([asked])
    assert value == pytest.approx(expected, abs=1e-3)
    assert value != pytest.approx(given[target[0]], abs=1e-3), "guidance does something"
    assert estimates(engine, ONE, 1, cfg=0.5) != estimates(engine, ONE, 1)


def test_greedy_is_what_decoding_surest_first_gives(engine: cofill.Engine) -> None:
    prompt = engine.tokenizer.encode(ONE[0])
    tokens = engine.generate(np.array(prompt), sampler="topk:1", length=5).tokens[len(prompt) :]
    right = engine.tokenizer.decode(tokens)
    assert engine.tokenizer.encode(right) == tokens.tolist()
    requests = choosing([ONE[0]], [right, right[:-1] + "?", ""])
    assert [greedy for _, greedy in CofillLM(engine, mc_num=1, is_check_greedy=True).loglikelihood(requests, True)] == [True, False, True]
    assert [greedy for _, greedy in CofillLM(engine, mc_num=1).loglikelihood(requests, True)] == [False, False, False]


def test_spaces_at_the_border_belong_to_the_continuation(engine: cofill.Engine) -> None:
    lm, encode = CofillLM(engine), engine.tokenizer.encode
    assert lm._encode_pair("Ann has \n", "3") == (encode("Ann has"), encode("Ann has \n3")[len(encode("Ann has")) :])
    values = lambda *pair: CofillLM(engine, mc_num=4).loglikelihood([Instance("loglikelihood", {}, pair, 0, ("t", 0, 1))], True)
    assert values("Ann has ", "3 cups") == values("Ann has", " 3 cups")


def test_nothing_before_an_answer_is_the_end_of_text_or_nothing(engine: cofill.Engine) -> None:
    # The harness conditions on a prefix token; LLaDA's wrapper on nothing.
    assert CofillLM(engine)._encode_pair("", "3") == ([engine.tokenizer.eos_id], engine.tokenizer.encode("3"))
    assert CofillLM(engine, compat="llada")._encode_pair("", "3") == ([], engine.tokenizer.encode("3"))


def test_dreams_texts_end_and_begin_and_lose_their_beginning() -> None:
    engine = cofill.Engine("tiny-dream")
    lm = CofillLM(engine, compat="dream", bos=False, max_length=6)
    encode, eos = engine.tokenizer.encode, engine.tokenizer.eos_id
    assert lm._encode_pair("3;", "4") == (encode("3;"), encode("3;4")[2:] + [eos])
    prefix, target = lm._encode_pair("1;2;3;4;5;", "6")
    assert prefix + target == (encode("1;2;3;4;5;6") + [eos])[-6:]
    assert len(target) == 2


class Framed:
    """The tiny model, as if every text of it stood between two tokens, as in BERT; remembers the canvases it is asked about."""

    frame = (7, 9)

    def __init__(self, engine: cofill.Engine) -> None:
        self._engine, self.seen = engine, []

    def __getattr__(self, name: str):
        return getattr(self._engine, name)

    def score_batch(self, asked, **more):
        self.seen += [tokens.tolist() for tokens, *_ in asked]
        return self._engine.score_batch(asked, **more)


def test_texts_that_stand_between_two_tokens_are_scored_between_them(engine: cofill.Engine) -> None:
    framed, encode = Framed(engine), engine.tokenizer.encode
    request = choosing([ONE[0]], [ONE[1]])
    CofillLM(framed).loglikelihood(request, True)
    CofillLM(framed, bos=False).loglikelihood(request, True)
    bare = [*encode(ONE[0]), engine.mask_id]
    assert framed.seen == [[7, *bare, 9], bare]


def test_whole_texts_are_estimated_in_pieces_that_fit(engine: cofill.Engine) -> None:
    text = CHAINS[2]
    tokens = engine.tokenizer.encode(text)
    rolling = lambda **s: CofillLM(engine, mc_num=16, **s).loglikelihood_rolling(
        [Instance("loglikelihood_rolling", {}, (text,), 0, ("t", 0, 1))], True
    )
    pieces = list(CofillLM(engine, max_length=10)._windows(text))
    assert [token for _, _, piece in pieces for token in piece] == tokens
    assert all(len(before) == 1 and len(before) + len(piece) <= 10 for _, before, piece in pieces)
    assert [before for _, before, _ in pieces] == [[engine.tokenizer.eos_id], *([piece[-1]] for _, _, piece in pieces[:-1])]
    # Whole: the estimate of the text after the prefix token.
    near(
        np.array(
            [
                CofillLM(engine, mc_num=16, seed=s).loglikelihood_rolling(
                    [Instance("loglikelihood_rolling", {}, (text,), 0, ("t", 0, 1))], True
                )[0]
                for s in range(12)
            ]
        ),
        plain_llada(engine, [engine.tokenizer.eos_id], tokens, 400),
    )
    assert rolling(max_length=10) != rolling()
    with pytest.raises(cofill.Error, match="log_type is `union`, which scores contexts"):
        rolling(compat="dream", bos=False, log_type="union")


# The published estimators themselves, where a checkout is named.


@functools.cache  # the published file registers itself, which goes once
def checkout(variable: str, file: str):
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"SKIPPED: {variable} names no checkout with {file}")
    pytest.importorskip("torch")
    spec = importlib.util.spec_from_file_location(f"published_{variable}", pathlib.Path(folder) / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Published:
    """The engine with the face of a torch model: rows of log-probabilities are logits."""

    device = "cpu"

    def __init__(self, engine: cofill.Engine, shift: bool = False) -> None:
        self.engine, self.shift = engine, shift

    def __call__(self, batch):
        import torch

        rows = np.arange(batch.shape[1])
        whole = [np.log(np.asarray(self.engine.probe(c.numpy(), rows, distributions=True).distributions)) for c in batch]
        logits = torch.tensor(np.stack(whole))  # [batch, length, vocab]: row p is for position p
        return type("Output", (), {"logits": torch.roll(logits, -1, 1) if self.shift else logits})


def test_lladas_own_function_agrees(engine: cofill.Engine) -> None:
    published = checkout("COFILL_LLADA", "get_log_likelihood.py")
    import torch

    torch.manual_seed(0)
    prefix, target = (torch.tensor(engine.tokenizer.encode(text)) for text in PAIR)
    ask = lambda: published.get_log_likelihood(Published(engine), prefix, target, mc_num=8, batch_size=8, mask_id=engine.mask_id)
    near(estimates(engine, PAIR, 150, mc_num=8, mc_stratum=8, compat="llada"), np.array([ask() for _ in range(150)]))


@pytest.mark.parametrize("log_type", ["ftb", "btf", "union", "ar_ftb"])
def test_dreams_own_function_agrees(log_type: str) -> None:
    published = checkout("COFILL_DREAM", "eval/eval.py")
    import torch

    torch.manual_seed(0)
    engine = cofill.Engine("tiny-dream")
    theirs = published.Dream.__new__(published.Dream)
    theirs.model, theirs._device = Published(engine, shift=True), torch.device("cpu")
    theirs.tokenizer = type(
        "Tokenizer",
        (),
        {"mask_token_id": engine.mask_id, "eos_token_id": engine.tokenizer.eos_id, "encode": staticmethod(engine.tokenizer.encode)},
    )
    theirs.add_bos_token, theirs.max_length, theirs.sampling_eps, theirs.classifier_free_guidance = False, 2048, 1e-3, 1.0
    theirs.mc_num = theirs.batch_size_per_gpu = 8
    theirs.log_type, theirs.nll_type = ("ftb", "ar_ftb") if log_type == "ar_ftb" else (log_type, "mc")
    prefix, target = map(torch.tensor, theirs._encode_pair(*PAIR))
    settings = dict(mc_num=8, mc_stratum=8, compat="dream", bos=False, log_type=log_type)
    if log_type == "ar_ftb":
        (value,) = estimates(engine, PAIR, 1, **settings)
        assert value == pytest.approx(-theirs._eval_target_nll_ar(prefix, target), abs=1e-3)
        return
    scale = len(prefix) + len(target) if log_type == "union" else 1
    near(estimates(engine, PAIR, 150, **settings), np.array([-theirs._eval_target_nll_mc(prefix, target) / scale for _ in range(150)]))
