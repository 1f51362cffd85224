"""Dream's `diffusion_generate`, by its signature: with `sampler=None` the official schedule, otherwise any sampler of cofill.

Settings that are not given come from `generation_config` or, as in the official code, from the model's configuration. In transformers
4 those of a published Dream hold temperature 1.0 and **top_k 50**, which filter before confidence is read; pass `top_k=None` to be rid of it.

Dream's own loop cannot carry another sampler, since it always runs all its steps. But its hooks can be listened to: `hooks(recording)`.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cofill
from cofill import Error
from cofill.torch.checks import number, whole_number
from cofill.torch.generate import Output
from cofill.torch.generate import generate as _generate
from cofill.torch.statistics import row_statistics

__all__ = ["diffusion_generate", "DreamOutput", "Recording", "hooks"]

DEFAULTS: dict[str, Any] = {
    "temperature": 0.0,
    "top_p": None,
    "top_k": None,
    "max_length": 20,
    "max_new_tokens": None,
    "eps": 1e-3,
    "steps": 512,
    "alg": "origin",
    "alg_temp": None,
    "num_return_sequences": 1,
    "return_dict": False,
    "return_dict_in_generate": False,
    "output_history": False,
    "mask_token_id": None,
}
"""The settings of the official loop. Special tokens other than the mask are accepted and mean nothing to it."""

IGNORED = ("pad_token_id", "bos_token_id", "eos_token_id", "use_cache")


@dataclass
class DreamOutput:
    """What comes back with `return_dict_in_generate`."""

    sequences: torch.Tensor
    history: list[torch.Tensor] | None = None
    output: Output | None = None
    """NFE, traces and times, which the official output does not have."""


@torch.no_grad()
def diffusion_generate(
    model: torch.nn.Module,
    inputs: torch.Tensor,
    generation_config: Any = None,
    *,
    attention_mask: torch.Tensor | None = None,
    sampler: Any = None,
    options: dict[str, Any] | None = None,
    **kwargs: Any,
) -> torch.Tensor | DreamOutput:
    """Writes `max_new_tokens` tokens after every prompt.

    Parameters
    ----------
    model, inputs, attention_mask
        The model, prompts `[batch, length]`, padded on the left where `attention_mask` is 0.
    generation_config : object, optional
        Where settings come from that are not given.
    sampler : str, cofill.Sampler or object, optional
        In place of the official schedule, for example `eb:3+ad`; `steps`, `alg`, `alg_temp` and `eps` then mean nothing.
    options : dict, optional
        Further options of `cofill.generate`, such as `seed` and `on_step`.
    **kwargs
        max_new_tokens, max_length, steps, temperature, top_p, top_k, alg, alg_temp, eps, num_return_sequences, output_history,
        return_dict_in_generate, mask_token_id, as of the official function.

    Returns
    -------
    torch.Tensor or DreamOutput
        int64 `[batch, length]`, or with `return_dict_in_generate` an object with `sequences` and `history`.
    """
    for name in ("generation_tokens_hook_func", "generation_logits_hook_func"):
        if kwargs.pop(name, None) is not None:
            raise Error(
                f"{name} belongs to the official loop, which this replaces; use options={{'on_step': ...}}, or record that loop with hooks()"
            )
    unknown = [name for name in kwargs if name not in DEFAULTS and name not in IGNORED]
    if unknown:
        raise Error(f"unknown setting(s) {', '.join(unknown)}; known are {', '.join(DEFAULTS)}")
    s = {name: _setting(name, kwargs, generation_config, getattr(model, "config", None)) for name in DEFAULTS}
    _check(s, sampler)
    new = s["max_new_tokens"]
    if new is None:
        has_default = "max_length" not in kwargs and s["max_length"] == DEFAULTS["max_length"]
        new = s["max_length"] if has_default else s["max_length"] - inputs.shape[-1]
        if new < 1:
            raise Error(
                f"max_length must be above the {inputs.shape[-1]} tokens of inputs, but {s['max_length']} was given; or give max_new_tokens"
            )
    extra = dict(options or {})
    top_p = s["top_p"] if s["top_p"] is not None and s["top_p"] < 1 else None
    if s["temperature"] > 0 and top_p is None and s["top_k"] is None:
        top_p = 1.0  # nothing is dropped, and confidence is that of the tempered softmax, as there
    n = s["num_return_sequences"] or 1
    if n > 1:
        inputs = inputs.repeat_interleave(n, dim=0)
        attention_mask = None if attention_mask is None else attention_mask.repeat_interleave(n, dim=0)
    # Only what is random draws: a script's later draws do not change because of an import. Whether a given sampler draws, nobody knows.
    is_random = s["temperature"] > 0 or sampler is not None or s["alg"] == "origin" or s["alg_temp"]
    if "seed" not in extra and is_random:
        extra["seed"] = torch.randint(1 << 62, (inputs.shape[0] if inputs.dim() > 1 else 1,)).tolist()
    keep = extra.get("trace", True)
    if s["output_history"]:
        extra["trace"] = True
    out = _generate(
        model,
        inputs,
        official(s) if sampler is None else sampler,
        max_new_tokens=new,
        temperature=s["temperature"],
        top_p=top_p,
        top_k=s["top_k"],
        attention_mask=attention_mask,
        mask_id=s["mask_token_id"],
        **extra,
    )
    if not (s["return_dict"] or s["return_dict_in_generate"]):
        return out.sequences
    history = _history(out) if s["output_history"] else None
    if not keep:
        out.traces = []
    return DreamOutput(out.sequences, history, out)


def _check(s: dict[str, Any], sampler: Any) -> None:
    """Refuses by name what could not be compared or counted with."""
    number("temperature", s["temperature"])
    for name in ("top_p", "alg_temp"):
        if s[name] is not None:
            number(name, s[name])
    if s["max_new_tokens"] is None:
        whole_number("max_length", s["max_length"])
    whole_number("num_return_sequences", s["num_return_sequences"] or 1)
    if sampler is None:
        whole_number("steps", s["steps"])
        number("eps", s["eps"])


def official(settings: dict[str, Any]) -> str:
    """The official schedule in the language of samplers: `dream:STEPS@ALG`."""
    algorithms = ("origin", "maskgit_plus", "topk_margin", "entropy")
    if settings["alg"] not in algorithms:
        raise Error(f"alg must be one of {', '.join(algorithms)}, but {settings['alg']!r} was given")
    text = f"dream:{settings['steps']}@{settings['alg']}"
    if settings["eps"] != DEFAULTS["eps"]:
        text += f"@eps={settings['eps']}"
    if settings["alg_temp"]:
        text += f"@alg_temp={settings['alg_temp']}"
    return text


LEAKING = ("temperature", "top_p", "top_k", "max_length", "mask_token_id")
"""What the official loop finds in the model's own configuration when nobody gives it a generation_config."""


def _setting(name: str, kwargs: dict[str, Any], generation_config: Any, config: Any) -> Any:
    if name in kwargs:
        return kwargs[name]
    source = generation_config if generation_config is not None else config if name in LEAKING else None
    value = getattr(source, name, None)
    return DEFAULTS[name] if value is None else value


def _history(out: Output) -> list[torch.Tensor]:
    """Canvases `[batch, length]` after every step; a sequence that has ended stays as it is."""
    end = out.sequences.cpu().numpy()
    length = max((len(trace.steps) for trace in out.traces), default=0)
    history = np.repeat(end[None], length, axis=0)  # [steps, batch, length]
    for row, trace in enumerate(out.traces):
        # Forwards from the start: what a step takes back may be written again later, and the end does not say what stood there before.
        canvas = end[row].copy()
        offset = len(canvas) - len(trace.tokens)  # padding
        canvas[offset:] = trace.tokens
        for at, step in enumerate(trace.steps):
            canvas[offset + step.positions] = step.token
            canvas[offset + step.remasked] = trace.mask_id
            history[at, row] = canvas
    return [torch.from_numpy(canvas).to(out.sequences.device) for canvas in history]


@dataclass
class Recording:
    """What happened in a run of Dream's own loop, as traces.

    Parameters
    ----------
    mask_id : int
        The id of the mask.
    sampler : str
        What the traces call the rule: `dream:STEPS@ALG`.
    model : str
        What they call the model.
    """

    mask_id: int
    sampler: str = "dream:512@origin"
    model: str = "dream"
    steps: list[list[dict[str, Any]]] = field(default_factory=list)
    start: np.ndarray | None = None  # [batch, length]
    end: np.ndarray | None = None

    def traces(self) -> list[Any]:
        """One `cofill.Trace` for each sequence."""
        if self.start is None or self.end is None:
            raise Error("nothing has been recorded; pass **hooks(recording) to model.diffusion_generate first")
        found = []
        with tempfile.TemporaryDirectory() as folder:
            for row, steps in enumerate(self.steps):
                header = {
                    "cofill_trace": 1,
                    "sampler": self.sampler,
                    "model": self.model,
                    "tokens": self.start[row].tolist(),
                    "mask_id": self.mask_id,
                    "temperature": 0.0,
                    "seed": 0,
                }
                lines = [header, *steps, {"nfe": len(steps), "tokens": self.end[row].tolist()}]
                path = Path(folder) / f"{row}.jsonl"
                path.write_text("".join(json.dumps(line) + "\n" for line in lines))
                found.append(cofill.Trace.read(str(path)))
        return found


def hooks(trace: Recording) -> dict[str, Any]:
    """The keyword that makes Dream's own loop fill a recording; nothing about the loop changes.

    Examples
    --------
    >>> recording = Recording(mask_id=151666, sampler="dream:64@entropy")                       # doctest: +SKIP
    >>> model.diffusion_generate(ids, steps=64, alg="entropy", **hooks(recording))              # doctest: +SKIP
    >>> recording.traces()[0].html("run.html")                                                  # doctest: +SKIP
    """

    def listen(step: int | None, x: torch.Tensor, logits: torch.Tensor | None) -> torch.Tensor:
        now = x.detach().cpu().numpy().astype(np.int64)
        before, trace.end = trace.end, now.copy()
        if step is None or before is None:
            trace.start, trace.steps = now.copy(), [[] for _ in now]
            return x
        for row in range(len(now)):
            masked = before[row] == trace.mask_id
            changed = np.flatnonzero(masked & (now[row] != trace.mask_id))
            trace.steps[row].append(
                _step(step, masked, changed, now[row], None if logits is None else logits[row], trace.mask_id)
            )
        return x

    return {"generation_tokens_hook_func": listen}


def _step(
    step: int, masked: np.ndarray, changed: np.ndarray, tokens: np.ndarray, logits: torch.Tensor | None, mask_id: int
) -> dict[str, Any]:
    """One line of a trace: what was written, surest first. The loop's logits are shifted already."""
    commits = []
    if len(changed) and logits is not None:
        numbers = (
            row_statistics(logits[torch.from_numpy(changed).to(logits.device)], mask_id).numbers.double().cpu().numpy()
        )
        for position, (c, _, _, h) in zip(changed.tolist(), numbers):
            commits.append(
                {
                    "position": position,
                    "token": int(tokens[position]),
                    "confidence": c,
                    "entropy": h,
                    "score": c,
                    "utility": c,
                }
            )
        commits.sort(key=lambda commit: -commit["confidence"])
    n = int(masked.sum())
    return {"step": step, "forwards": 1, "n_masked": n, "candidates": n, "commits": commits, "forced": False}
