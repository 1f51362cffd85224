"""What ``--model_args`` can say, checked before a model is opened.

Whatever is not listed here is refused by name. The harness itself drops nothing, but classes that take ``**kwargs`` do, and a run with
another sampler than was asked for is worse than none.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Mapping

from cofill import Error

__all__ = ["Options"]

BACKENDS = ("engine", "torch")
COMPATS = ("plain", "llada", "dream", "fast-dllm")
LOG_TYPES = ("ftb", "btf", "union", "ar_ftb")

#: What other wrappers call the same thing.
ELSEWHERE = {
    "model_path": "pretrained",
    "model": "pretrained",
    "gen_length": "length",
    "max_new_tokens": "length",
    "max_gen_toks": "length",
    "block_length": "block",
    "steps": "sampler=llada:STEPS (or dream:STEPS)",
    "diffusion_steps": "sampler=dream:STEPS",
    "alg": "sampler=dream:STEPS@ALG",
    "remasking": "sampler",
    "threshold": "sampler=threshold:..",
    "factor": "sampler=fast:F",
    "add_bos_token": "bos",
    "cfg_scale": "cfg",
    "classifier_free_guidance": "cfg (one less: cfg=0 is none)",
    "nll_type": "log_type",
    "apply_chat_template": "chat (or the harness's --apply_chat_template)",
    "trace": "traces",
}


@dataclass(frozen=True)
class Options:
    """Every model argument, its default and its limits.

    Parameters
    ----------
    pretrained
        The model: with ``backend=engine`` whatever :class:`cofill.Engine` opens, or an open one; with ``backend=torch`` whatever
        ``AutoModel`` does, or a model.
    backend
        ``engine`` (Rust, no torch) or ``torch``.
    sampler
        Which positions are committed together. The harness cuts arguments at commas, so write ``;`` for ``,``:
        ``sampler=klass:0.7;1``.
    compat
        Whose treatment of special tokens and stop strings is followed, and whose likelihood estimate. ``plain``: up to the first end of
        text or turn, without special tokens, then cut at the stop strings. ``llada``, ``dream``: as their own wrappers do, which is also what
        ``cofill eval`` does for these families. ``fast-dllm``: as Fast-dLLM's, that is LLaDA's or Dream's, and for instruct models
        with the chat template.
    length
        Positions after the prompt. Default: with ``plain`` the task's ``max_gen_toks``, else 256; 1024 as LLaDA's wrapper; 128 as Dream's.
    block, temperature, top_p, top_k, cfg, max_nfe, logits_eos_inf, confidence_eos_eot_inf, attention_of_source, companion
        As in ``cofill generate``.
    seed
        The root of all randomness. Every question has its own branch, whatever the batch and the rank.
    bos
        Whether prompts begin with the beginning-of-text token (default: only with Dream's wrapper, as Dream's scripts do).
    chat
        Put every prompt, few-shot examples included, through the chat template as one message; instead of the harness's
        ``--apply_chat_template``, which knows about turns.
    escape_until
        Do not cut at stop strings (Dream's option of that name, for code that is sanitised afterwards).
    mc_num, mc_stratum
        Canvases of a likelihood estimate, and how many share one draw of how much is masked (default: the largest divisor up to 32).
    log_type
        Of Dream's estimate: ``ftb``, ``btf``, ``union``, or ``ar_ftb``, the chain rule.
    is_check_greedy
        Also decode, surest first, and say whether the answer comes out. Otherwise the harness is told that it does not.
    max_length
        The longest text of a likelihood; longer ones lose their beginning (default: what the model holds; 2048 as Dream's).
    batch_size
        Canvases in one forward; changes no answer. ``auto`` is 16.
    dtype, threads
        Of the engine: how weights are kept, how many threads compute. Of torch: ``dtype`` alone (default: bfloat16 on a GPU, else float32).
    device
        Of torch. The harness sends one whatever is asked for, so the engine ignores it.
    trust_remote_code
        Of torch: LLaDA's and Dream's classes come with their weights.
    tokenizer
        Of torch: its name, or itself (default: that of ``pretrained``).
    out
        A file that gets a line per generation, with tokens, forwards and the text before any cut: ``cofill score`` reads it.
    traces
        A folder that gets a trace per generation.
    """

    pretrained: Any = "tiny-llada"
    backend: str = "engine"
    sampler: Any = "topk:2+ad"
    compat: str = "plain"
    length: int | None = None
    block: int | None = None
    temperature: float = 0.0
    top_p: float | None = None
    top_k: int | None = None
    cfg: float = 0.0
    seed: int = 0
    max_nfe: int | None = None
    bos: bool | None = None
    chat: bool = False
    escape_until: bool = False
    logits_eos_inf: bool = False
    confidence_eos_eot_inf: bool = False
    attention_of_source: bool = False
    companion: str | None = None
    mc_num: int = 128
    mc_stratum: int | None = None
    log_type: str | None = None
    is_check_greedy: bool = False
    max_length: int | None = None
    batch_size: int | str = 1
    max_batch_size: int | None = None
    dtype: str | None = None
    threads: int | None = None
    device: str | None = None
    trust_remote_code: bool = True
    tokenizer: Any = None
    out: str | None = None
    traces: str | None = None

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """Options of what the harness made of ``--model_args``.

        Examples
        --------
        >>> Options.parse({"sampler": "klass:0.7;1", "length": 64}).sampler
        'klass:0.7,1'
        >>> Options.parse({"gen_length": 64})
        Traceback (most recent call last):
        cofill.Error: unknown model_args `gen_length` (here it is `length`); known are pretrained, ...
        """
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise Error(_unknown(name, given, known))
        return cls(**{name: value for name, value in given.items() if value is not None})

    def __post_init__(self) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)
        if isinstance(self.sampler, str):
            put("sampler", self.sampler.replace(";", ","))
        for name in (
            "chat",
            "escape_until",
            "logits_eos_inf",
            "confidence_eos_eot_inf",
            "attention_of_source",
            "is_check_greedy",
            "trust_remote_code",
        ):
            put(name, _flag(name, getattr(self, name)))
        put("bos", self.bos if self.bos is None else _flag("bos", self.bos))
        for name in ("length", "block", "top_k", "max_nfe", "mc_num", "mc_stratum", "max_length", "threads"):
            value = getattr(self, name)
            put(name, value if value is None else _whole(name, value, least=1))
        put("seed", _whole("seed", self.seed))
        if not 0 <= self.seed < 2**64:
            raise Error(f"seed is {self.seed}, but must be 0 or more and below 2^64")
        for name in ("temperature", "cfg"):
            put(name, _number(name, getattr(self, name)))
        put("top_p", self.top_p if self.top_p is None else _number("top_p", self.top_p))
        put("compat", str(self.compat).replace("_", "-"))
        for name, choices in [("backend", BACKENDS), ("compat", COMPATS), ("log_type", LOG_TYPES)]:
            value = getattr(self, name)
            if value is not None and value not in choices:
                raise Error(f"{name} is `{value}`; give one of {', '.join(choices)}")
        if self.log_type is not None and self.compat in ("plain", "llada"):
            raise Error(
                f"log_type is `{self.log_type}`, which is of Dream's estimate, and compat is `{self.compat}`; "
                "give compat=dream, or leave log_type out"
            )
        if self.backend == "engine" and self.tokenizer is not None:
            raise Error("tokenizer is of backend=torch, and backend is `engine`, which takes the checkpoint's own; leave it out")
        put("batch_size", self._batch())

    def _batch(self) -> int:
        # `auto:4` means: look again four times. There is nothing to look for: canvases are small beside the weights.
        if isinstance(self.batch_size, str) and self.batch_size.split(":")[0] == "auto":
            return 16
        return _whole("batch_size", self.batch_size, least=1)


def _unknown(name: str, given: Mapping[str, Any], known: list[str]) -> str:
    listed = ", ".join(known)
    # lm_eval 0.4.8 makes `1=` of the second half of `sampler=klass:0.7,1`: a word with nothing behind it, after the sampler.
    if given[name] == "" and isinstance(given.get("sampler"), str):
        sampler = given["sampler"]
        return (
            f"model_args has `{name}` without a value: the harness cuts at every comma, so the sampler became `{sampler}`. "
            f"Write `;` for `,` inside it: sampler={sampler};{name}"
        )
    hint = f" (here it is `{ELSEWHERE[name]}`)" if name in ELSEWHERE else ""
    return f"unknown model_args `{name}`{hint}; known are {listed}"


def _flag(name: str, value: Any) -> bool:
    words = {"true": True, "1": True, "false": False, "0": False}
    if isinstance(value, bool):
        return value
    if str(value).lower() in words:
        return words[str(value).lower()]
    raise Error(f"{name} is `{value}`; give true or false")


def _whole(name: str, value: Any, least: int | None = None) -> int:
    try:
        whole = int(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else int(float(value))
        right = float(whole) == float(value) and not isinstance(value, bool)
    except (TypeError, ValueError, OverflowError):
        right = False
    if not right or (least is not None and whole < least):
        raise Error(f"{name} is `{value}`; give a whole number{'' if least is None else f', {least} or more'}")
    return whole


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not (0.0 <= number < float("inf")) or isinstance(value, bool):
        raise Error(f"{name} is `{value}`; give a finite number, 0 or more")
    return number
