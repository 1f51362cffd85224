"""One forward for many questions: canvases up in one copy, hooks for the length of the forward, numbers down in one copy.

`generate` and `TorchDenoiser` both ask here. A question is a canvas and the positions to predict; an answer is what
`Decode.absorb` takes. Sequences of equal length share a batch; nobody's answer depends on who else is in it beyond the
rounding of the model's own kernels.
"""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from cofill import Error, RunError
from cofill.torch.capture import Collector, resolve_layers, sliced_head
from cofill.torch.checks import known_tokens, number, whole_number
from cofill.torch.noise import gumbel_rows
from cofill.torch.questions import Answer, Question, check_targets, checked, source_rows
from cofill.torch.statistics import (
    NOT_FINITE,
    Proposal,
    row_statistics,
    softmax_rows,
    target_log_probabilities,
)

__all__ = ["Question", "Answer", "Forward"]

PARTS = ("forward", "capture", "statistics", "copy", "absorb", "write_back")
"""Where the time of a step goes."""

LARGE = 64 << 20
"""Bytes of distributions in one step from which on a warning says so: 64 MB."""

class ModelLock:
    """Who may put hooks on a model: one thread, and that once. A plain lock would wait for itself where a model's forward asks the model."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.RLock(), False

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Waits for other threads, and refuses its own."""
        with self._lock:
            if self._inside:
                raise Error(
                    f"{name} is asked during a forward of its own, whose hooks the inner forward would run into; ask it from outside "
                    "of its forward and of its hooks, or ask a copy of it"
                )
            self._inside = True
            try:
                yield
            finally:
                self._inside = False


_LOCKS: weakref.WeakKeyDictionary[Any, ModelLock] = weakref.WeakKeyDictionary()
"""One for each model: while hooks are on it, a forward of another thread would run into them."""


@dataclass
class Batch:
    """Questions that share a forward, and how their rows lie in it."""

    questions: list[Question]
    indices: list[int]  # which questions of all these are
    length: int
    offsets: list[int]  # how much padding stands before each
    segments: list[tuple[int, int]] = field(default_factory=list)  # the rows of each, concatenated

    @property
    def n_rows(self) -> int:
        return self.segments[-1][1]


class Forward:
    """A torch model that answers questions.

    Parameters
    ----------
    adapter : cofill.adapters.Adapter
        The model and what is known of it.
    proposal : Proposal
        How tokens are proposed.
    cfg_scale : float
        Classifier-free guidance: logits u + (scale + 1)(l - u), where u comes of the canvas with everything masked that was given.
    attention_row : {"position", "source"}
        Whose attention stands for a position under a shift: its own, as the paper's text has it, or that of the row that predicts it.
    padding : bool
        False: sequences of equal length share a batch. True: all do, padded on the left.
    batch_size : int, optional
        The most sequences in a forward.
    profile : bool
        Wait for the device after every part, so that `seconds` says where its time goes. On a CPU it always does.
    """

    def __init__(
        self,
        adapter: Any,
        *,
        proposal: Proposal = Proposal(),
        cfg_scale: float = 0.0,
        attention_row: str = "position",
        padding: bool = False,
        batch_size: int | None = None,
        profile: bool = False,
    ) -> None:
        if not (np.isfinite(number("cfg_scale", cfg_scale)) and cfg_scale >= 0):
            raise Error(f"cfg_scale must be a finite number, 0 or more, but {cfg_scale} was given")
        if attention_row not in ("position", "source"):
            raise Error(f"attention_row must be 'position' or 'source', but {attention_row!r} was given")
        if batch_size is not None:
            batch_size = whole_number("batch_size", batch_size)
        self.adapter, self.proposal, self.cfg_scale = adapter, proposal, cfg_scale
        self.attention_row, self.padding, self.batch_size = attention_row, padding, batch_size
        self.profile = profile
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self.calls = 0  # of the model
        self.device: torch.device = getattr(adapter, "device", None) or next(adapter.model.parameters()).device
        model = getattr(adapter, "model", adapter)
        self._lock, self._name = _LOCKS.setdefault(model, ModelLock()), type(model).__name__
        self._vocab = known_tokens(adapter)
        self._warned = False

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """Answers questions in their order."""
        if not questions:
            return []
        questions = checked(questions, self._vocab, "query")
        work = [(batch, *self._run(batch)) for batch in self._batches(questions)]
        with self._timed("copy"):
            packed = torch.cat([flat for _, flat, _ in work]).cpu().numpy()  # the one copy, and the one wait
        answers: list[Answer | None] = [None] * len(questions)
        at = 0
        for batch, flat, whole in work:
            part, at = packed[at : at + len(flat)], at + len(flat)
            for index, answer in zip(batch.indices, self._unpack(batch, part, whole)):
                answers[index] = answer
        return answers  # type: ignore[return-value]

    def score(self, questions: Sequence[Question]) -> list[np.ndarray]:
        """log p of every question's targets at its rows, over the full softmax. f64 `[m]` each"""
        if not questions:
            return []
        questions = checked(questions, self._vocab, "request")
        scores: list[np.ndarray | None] = [None] * len(questions)
        work = []
        for batch in self._batches(questions):
            logits, unguided, _ = self._logits(batch)
            check_targets(batch.questions, batch.indices, logits.shape[1])
            targets = torch.from_numpy(np.concatenate([q.targets for q in batch.questions])).to(logits.device)
            work.append((batch, target_log_probabilities(logits, targets, unguided, self.cfg_scale)))
        packed = torch.cat([log_p for _, log_p in work]).cpu().numpy().astype(np.float64)
        at = 0
        for batch, log_p in work:
            for index, (first, last) in zip(batch.indices, batch.segments):
                scores[index] = packed[at + first : at + last]
            at += len(log_p)
        return scores  # type: ignore[return-value]

    def vocab(self) -> int:
        """How many columns the logits have; if nobody knows, the model is asked about one token."""
        found = getattr(self.adapter, "vocab", None)
        if found is None:
            row = np.zeros(1, dtype=np.int64)
            found = self._logits(next(self._batches([Question(row, row)])))[0].shape[1]
        return int(found)

    def _batches(self, questions: Sequence[Question]) -> Iterator[Batch]:
        """Questions of equal length together, or all, in their order."""
        groups: dict[int, list[int]] = {}
        for index, question in enumerate(questions):
            groups.setdefault(0 if self.padding else len(question.tokens), []).append(index)
        for indices in groups.values():
            size = self.batch_size or len(indices)
            for first in range(0, len(indices), size):
                some = indices[first : first + size]
                chosen = [questions[i] for i in some]
                length = max(len(q.tokens) for q in chosen)
                batch = Batch(chosen, some, length, [length - len(q.tokens) for q in chosen])
                ends = np.cumsum([len(q.rows) for q in chosen]).tolist()
                batch.segments = list(zip([0, *ends[:-1]], ends))
                yield batch

    def _run(self, batch: Batch) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
        """One forward: everything that is to be copied, packed, f32 `[n]`, and whole distributions where those are asked."""
        logits, unguided, attention = self._logits(batch)
        with self._timed("statistics"):
            stats = row_statistics(
                logits, self.adapter.mask_id, self.proposal, self._noise(batch, logits), unguided, self.cfg_scale
            )
        parts = [stats.token.view(torch.float32), stats.numbers.reshape(-1)]
        # By key, as Rust keeps it: the device exchanges rows and columns for next to nothing.
        parts += [a.T.reshape(-1).to(logits.device) for a in attention if a is not None]
        whole: list[torch.Tensor | None] = []
        for question, (first, last) in zip(batch.questions, batch.segments):
            if not question.distributions:
                whole.append(None)
                continue
            self._warn_of(last - first, logits.shape[1])
            below = None if unguided is None else unguided[first:last]
            whole.append(softmax_rows(logits[first:last], below, self.cfg_scale))
        return torch.cat(parts), whole

    def _logits(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor | None, list[torch.Tensor | None]]:
        """Logits of the asked rows `[rows, vocab]`, those without what was given, and attention."""
        with self._timed("write_back"):
            x, mask, index, rows, sources = self._upload(batch)
        collector = self._collector(batch, rows, sources, mask)
        with self._lock.held(self._name):
            logits = self._hooked(x, mask, index, sources, collector)
        self._check(logits, len(index))
        attention = [None if q.attention is None else collector.result(i) for i, q in enumerate(batch.questions)]
        if self.cfg_scale > 0:
            return logits[: batch.n_rows], logits[batch.n_rows :], attention
        return logits, None, attention

    def _hooked(
        self,
        x: torch.Tensor,
        mask: torch.Tensor | None,
        index: torch.Tensor,
        sources: torch.Tensor,
        collector: TimedCollector,
    ) -> torch.Tensor:
        """The forward itself, with hooks on the model for as long as it takes."""
        capture = self.adapter.capture(collector.wanted, collector) if collector.wanted else nullcontext()
        begun = self._now()
        head, shape = getattr(self.adapter, "head", None), (x.shape[0], x.shape[1])
        with torch.no_grad(), capture, sliced_head(head, index, sources, shape) as asked:
            logits = self.adapter.forward(x, mask)
            self.calls += 1
            if not (isinstance(logits, torch.Tensor) and logits.dim() == 3):
                given = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
                raise Error(
                    f"the model answered with {given}, but [batch, length, vocab] was expected; see `forward` of the adapter"
                )
            logits = asked(logits)
        self.seconds["forward"] += self._now() - begun - collector.spent
        self.seconds["capture"] += collector.spent
        return logits

    def _upload(
        self, batch: Batch
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Canvases, padding, and for every asked row its sequence, its position and the row that predicts it; one copy to the device."""
        n, length, mask_id = len(batch.questions), batch.length, self.adapter.mask_id
        twice = 2 if self.cfg_scale > 0 else 1
        x = np.full((twice * n, length), getattr(self.adapter, "pad_id", 0), dtype=np.int64)
        for i, (question, offset) in enumerate(zip(batch.questions, batch.offsets)):
            x[i, offset:] = question.tokens
            if twice == 2:
                x[n + i, offset:] = mask_id
                free = question.rows if question.free is None else question.free
                x[n + i, offset + free] = question.tokens[free]
        index = np.concatenate([np.full(len(q.rows), i) for i, q in enumerate(batch.questions)])
        offsets = np.asarray(batch.offsets)[index]
        rows = np.concatenate([q.rows for q in batch.questions])
        sources = source_rows(self.adapter, batch.questions) + offsets
        packed = np.concatenate([x.reshape(-1), index, rows + offsets, sources]).astype(np.int64, copy=False)
        device = torch.from_numpy(packed).to(self.device, non_blocking=True)
        canvases, index_, rows_, sources_ = device.split([x.size, len(rows), len(rows), len(rows)])
        if twice == 2:
            index_, sources_ = torch.cat([index_, index_ + n]), sources_.repeat(2)
        mask = None
        if any(batch.offsets):
            real = np.arange(length)[None, :] >= np.asarray(batch.offsets * twice)[:, None]
            mask = torch.from_numpy(real.astype(np.int64)).to(self.device)
        return canvases.view(twice * n, length), mask, index_, rows_, sources_

    def _collector(
        self, batch: Batch, rows: torch.Tensor, sources: torch.Tensor, mask: torch.Tensor | None
    ) -> TimedCollector:
        layers, queries, keys = [], [], []
        for question, (first, last) in zip(batch.questions, batch.segments):
            layers.append(
                None if question.attention is None else resolve_layers(question.attention, self.adapter.n_layers)
            )
            keys.append(rows[first:last])
            queries.append((sources if self.attention_row == "source" else rows)[first:last])
        if any(layers) and not hasattr(self.adapter, "capture"):
            raise Error(
                "the sampler needs attention, but the adapter has no `capture`; derive it from cofill.adapters.Adapter"
            )
        return TimedCollector(self, layers, queries, keys, None if mask is None else mask.bool())

    def _noise(self, batch: Batch, logits: torch.Tensor) -> Any:
        if self.proposal.noise_scale == 0:
            return None
        if batch.questions[0].gumbel is not None:
            exact = torch.from_numpy(np.concatenate([q.gumbel for q in batch.questions]))  # [rows, vocab] f64
            if exact.shape != logits.shape:
                raise Error(f"exact noise has shape {tuple(exact.shape)}, but the logits have {tuple(logits.shape)}")
            return lambda first, last: exact[first:last].clone()
        keys = [(q.seed, q.step, int(row)) for q in batch.questions for row in q.rows]
        return gumbel_rows(keys, logits.shape[1], logits.device)

    def _unpack(self, batch: Batch, part: np.ndarray, whole: list[torch.Tensor | None]) -> Iterator[Answer]:
        n = batch.n_rows
        token = part[:n].view(np.int32).astype(np.int64)
        numbers = part[n : 5 * n].reshape(n, 4).astype(np.float64)
        at = 5 * n
        for question, (first, last), distributions in zip(batch.questions, batch.segments, whole):
            self._refuse(question, token[first:last])
            c, u, margin, entropy = numbers[first:last].T
            # c + u = 1, and of the two the smaller has all its digits: two rows of f32 confidence .99999 and a bit are told apart.
            answer = Answer(token[first:last], np.where(u < 0.5, 1.0 - u, c), u.copy(), margin.copy(), entropy.copy())
            if question.attention is not None:
                m = last - first
                answer.attention, at = part[at : at + m * m].reshape(m, m).T, at + m * m  # by key in memory
            if distributions is not None:
                with self._timed("copy"):
                    answer.distributions = distributions.cpu().numpy()
            yield answer

    def _refuse(self, question: Question, token: np.ndarray) -> None:
        bad = np.flatnonzero(token < 0)
        if not len(bad):
            return
        position = int(np.asarray(question.rows)[bad[0]])
        if token[bad[0]] == NOT_FINITE:
            raise RunError(
                f"logits of position {position} at step {question.step} hold NaN or +inf ({len(bad)} of {len(token)} rows do); check the weights, and load "
                "the model in bfloat16 or float32: float16 overflows"
            )
        raise RunError(
            f"nothing but the mask can be proposed at position {position}, step {question.step}; suppress fewer tokens"
        )

    def _check(self, logits: torch.Tensor, want: int) -> None:
        mask_id = self.adapter.mask_id
        if logits.dim() != 2 or logits.shape[0] != want:
            raise Error(
                f"logits of the asked rows have shape {tuple(logits.shape)}, but [{want}, vocab] was expected; see `head` of the adapter"
            )
        if mask_id >= logits.shape[1]:
            raise Error(
                f"mask_id must be below the model's {logits.shape[1]} tokens, but {mask_id} was given; pass mask_id="
            )

    def _warn_of(self, rows: int, vocab: int) -> None:
        size = 4 * rows * vocab
        if not self._warned and size >= LARGE:
            self._warned = True
            warnings.warn(
                f"this sampler needs whole distributions: {rows} rows x {vocab} tokens are {size >> 20} MB a step and sequence, copied to the host; "
                "blocks (block=32) make that less",
                stacklevel=2,
            )

    def _now(self) -> float:
        if self.profile and self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        begun = self._now()
        yield
        self.seconds[part] += self._now() - begun


class TimedCollector(Collector):
    """A collector that knows how long it took."""

    def __init__(self, owner: Forward, *args: Any) -> None:
        super().__init__(*args)
        self.owner, self.spent = owner, 0.0

    def __call__(self, *args: Any) -> None:
        begun = self.owner._now()
        super().__call__(*args)
        self.spent += self.owner._now() - begun
