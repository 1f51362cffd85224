"""Who fills canvases and scores tokens: the Rust engine, or a torch model. The rest of this package knows only :class:`Backend`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cofill import Error
from cofill.likelihood import Query
from cofill.lm_eval.answers import Text
from cofill.lm_eval.options import Options

__all__ = ["Backend", "Batch", "EngineBackend", "Generated", "open_backend"]


@dataclass(frozen=True)
class Batch:
    """Prompts that are decoded alike, as many at a time as a batch holds."""

    prompts: list[list[int]]
    seeds: list[int]  # one for each
    length: int
    settings: dict[str, Any]  # names and values of :class:`~cofill.lm_eval.options.Options`; what is not named is as usual


@dataclass(frozen=True)
class Generated:
    """What became of a prompt."""

    tokens: list[int]  # those that were masked, in order
    nfe: int
    trace: Any


class Backend(Protocol):
    """A model with its tokenizer."""

    name: str
    family: str
    mask_id: int
    bos_id: int | None
    frame: tuple[int, int] | None  # the tokens around every text, in models that were trained so
    context: int
    text: Text

    def generate(self, batch: Batch) -> list[Generated]: ...

    def score(self, queries: list[Query]) -> Sequence[NDArray[np.float64]]: ...

    def chat(self, messages: list[dict[str, str]], add_generation_prompt: bool) -> str: ...

    def chat_template(self) -> str | None: ...

    def about(self) -> dict[str, Any]: ...


def open_backend(options: Options, local_rank: int = 0) -> Backend:
    """Opens the model that the options name."""
    if options.backend == "torch":
        from cofill.lm_eval.torch_backend import TorchBackend

        return TorchBackend(options, local_rank)
    return EngineBackend(options)


class EngineText:
    """The engine's tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.eos_id: int | None = tokenizer.eos_id
        self.eot_id: int | None = tokenizer.eot_id

    def encode(self, text: str) -> list[int]:
        return [int(token) for token in self._tokenizer.encode(text)] if text else []

    def decode(self, tokens: Sequence[int], skip_special: bool = False) -> str:
        return self._tokenizer.decode([int(token) for token in tokens], skip_special=skip_special)


class EngineBackend:
    """The Rust engine: no torch, and answers that depend neither on the batch nor on the number of threads."""

    def __init__(self, options: Options) -> None:
        import cofill

        self._options = options
        self.engine = options.pretrained if not isinstance(options.pretrained, str) else self._open()
        self.name: str = self.engine.name
        self.family: str = self.engine.family
        self.mask_id: int = int(self.engine.mask_id)
        self.bos_id: int | None = self.engine.tokenizer.bos_id
        self.frame: tuple[int, int] | None = self.engine.frame
        self.context: int = int(self.engine.context)
        self.text: Text = EngineText(self.engine.tokenizer)
        self._sampler = cofill.sampler(options.sampler)  # a wrong one shows now, not after the prompts are built

    def _open(self) -> Any:
        from cofill import Engine

        options = self._options
        return Engine(options.pretrained, dtype=options.dtype, threads=options.threads, companion=options.companion)

    def generate(self, batch: Batch) -> list[Generated]:
        prompts = [np.asarray(prompt, np.int64) for prompt in batch.prompts]
        done = self.engine.generate_batch(prompts, length=batch.length, seed=list(batch.seeds), **batch.settings)
        return [self._generated(one) for one in done]

    def _generated(self, one: Any) -> Generated:
        was_masked = np.asarray(one.start) == self.mask_id  # [length]
        return Generated(np.asarray(one.tokens)[was_masked].tolist(), int(one.nfe), one.trace)

    def score(self, queries: list[Query]) -> Sequence[NDArray[np.float64]]:
        asked = [(query.tokens, query.rows, query.targets) for query in queries]
        cfg = self._options.cfg
        free = [query.free for query in queries] if cfg > 0 else None
        return self.engine.score_batch(asked, free=free, cfg=cfg)

    def chat(self, messages: list[dict[str, str]], add_generation_prompt: bool) -> str:
        tokenizer = self.engine.tokenizer
        if not tokenizer.has_chat_template:
            raise Error(f"`{self.name}` has no chat template; leave out chat and --apply_chat_template")
        return tokenizer.chat(messages, add_generation_prompt=add_generation_prompt)

    def chat_template(self) -> str | None:
        return getattr(self.engine.tokenizer, "chat_template", None)

    def about(self) -> dict[str, Any]:
        fingerprint = self.engine.fingerprint
        return {
            "sampler": str(self._sampler),
            "model_sha256": fingerprint() if callable(fingerprint) else fingerprint,
            "dtype": self._options.dtype,
        }
