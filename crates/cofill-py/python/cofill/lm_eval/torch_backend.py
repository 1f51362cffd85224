"""The published classes on whatever device torch has, decoded by :func:`cofill.generate`.

Answers do not depend on batch and rank beyond the rounding of the model's own kernels: draws are keyed by question, step and position,
and only canvases of equal length share a forward, so that nothing is padded.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cofill import Error, adapters
from cofill.likelihood import Query
from cofill.lm_eval.answers import Text
from cofill.lm_eval.backends import Batch, Generated
from cofill.lm_eval.options import Options
from cofill.torch.forward import Forward, Question
from cofill.torch.generate import generate

__all__ = ["TorchBackend"]

log = logging.getLogger("cofill.lm_eval")

#: How published tokenizers write the end of a turn.
ENDS_OF_TURN = ("<|eot_id|>", "<|im_end|>")


class TorchText:
    """A tokenizer of transformers, called as it is: it begins a text with a special token only if its configuration says so."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.eos_id: int | None = tokenizer.eos_token_id
        known = tokenizer.get_vocab()
        self.eot_id: int | None = next((known[text] for text in ENDS_OF_TURN if text in known), None)

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer(text)["input_ids"])

    def decode(self, tokens: Sequence[int], skip_special: bool = False) -> str:
        return self._tokenizer.decode([int(token) for token in tokens], skip_special_tokens=skip_special)


class TorchBackend:
    """A torch model and its tokenizer, by name from a folder or the Hugging Face cache, or open."""

    def __init__(self, options: Options, local_rank: int = 0) -> None:
        if options.companion is not None or options.threads is not None:
            name = "companion" if options.companion is not None else "threads"
            raise Error(f"{name} is of backend=engine, and backend is `torch`; leave it out")
        self._options = options
        is_name = isinstance(options.pretrained, str)
        self.model = _load(options, local_rank) if is_name else options.pretrained
        tokenizer = options.tokenizer if options.tokenizer is not None else options.pretrained if is_name else None
        if tokenizer is None:
            raise Error("pretrained is a model, and there is no tokenizer; give tokenizer=, its name or itself")
        self._tokenizer = _tokenizer(tokenizer, options) if isinstance(tokenizer, str) else tokenizer
        self._adapter = adapters.adapt(self.model)
        self.text: Text = TorchText(self._tokenizer)
        self.name: str = options.pretrained if is_name else self._adapter.name
        self.family: str = type(self._adapter).__name__.lower()
        self.mask_id: int = self._adapter.mask_id
        self.bos_id: int | None = self._tokenizer.bos_token_id
        self.frame: tuple[int, int] | None = None
        self.context: int = self._context()
        self._forward = Forward(self._adapter, cfg_scale=options.cfg)

    def generate(self, batch: Batch) -> list[Generated]:
        settings = dict(batch.settings)
        wants_bos = settings.pop("bos", False)
        bos = [self.bos_id] if wants_bos and self.bos_id is not None else []
        if "cfg" in settings:
            settings["cfg_scale"] = settings.pop("cfg")
        if settings.pop("attention_of_source", False):
            settings["attention_row"] = "source"
        of_text, of_turn = ([end] if end is not None else [] for end in (self.text.eos_id, self.text.eot_id))
        if settings.pop("logits_eos_inf", False):
            settings["suppress"] = of_text
        if settings.pop("confidence_eos_eot_inf", False):
            settings["demote"] = of_text + of_turn
        # A chat template may have written the beginning of text already.
        prompts = [prompt if prompt[:1] == bos else bos + prompt for prompt in batch.prompts]
        out = generate(self.model, prompts, max_new_tokens=batch.length, seed=batch.seeds, adapter=self._adapter, **settings)
        tokens = out.sequences[:, -batch.length :].cpu().numpy()  # [batch, length]
        return [Generated(row.tolist(), nfe, trace) for row, nfe, trace in zip(tokens, out.nfe, out.traces)]

    def score(self, queries: list[Query]) -> Sequence[NDArray[np.float64]]:
        return self._forward.score([Question(q.tokens, q.rows, q.free, targets=q.targets) for q in queries])

    def chat(self, messages: list[dict[str, str]], add_generation_prompt: bool) -> str:
        if not self.chat_template():
            raise Error(f"`{self.name}` has no chat template; leave out chat and --apply_chat_template")
        return self._tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=add_generation_prompt, continue_final_message=not add_generation_prompt
        )

    def chat_template(self) -> str | None:
        template = getattr(self._tokenizer, "chat_template", None)
        return template if isinstance(template, str) or not template else str(template)

    def about(self) -> dict[str, Any]:
        weights = next(self.model.parameters())
        return {"torch": torch.__version__, "class": type(self.model).__name__, "dtype": str(weights.dtype), "device": str(weights.device)}

    def _context(self) -> int:
        names = ("max_position_embeddings", "max_sequence_length")
        given = [getattr(self.model.config, name, None) for name in names]
        return next((int(value) for value in given if value), 1 << 30)


def _load(options: Options, local_rank: int) -> Any:
    from transformers import AutoModel

    device = _device(options.device, local_rank)
    usual = "bfloat16" if device.type == "cuda" else "float32"
    dtype = getattr(torch, options.dtype or usual, None)
    if not isinstance(dtype, torch.dtype):
        raise Error(f"dtype is `{options.dtype}`; give a type of torch, such as bfloat16 or float32")
    model = AutoModel.from_pretrained(options.pretrained, trust_remote_code=options.trust_remote_code, torch_dtype=dtype)
    return model.eval().to(device)


def _tokenizer(name: str, options: Options) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(name, trust_remote_code=options.trust_remote_code)


def _device(given: str | None, local_rank: int) -> torch.device:
    """The device that was asked for. The harness says `cuda:0` when nobody did, also where there is none and on every rank."""
    device = torch.device(given or "cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        log.warning("there is no CUDA device; computing on the CPU")
        return torch.device("cpu")
    if device.type == "cuda" and (device.index or 0) == 0:
        return torch.device("cuda", local_rank)
    return device
