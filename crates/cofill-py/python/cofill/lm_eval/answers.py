"""From the tokens that were generated to the text that is scored: stop strings, and what becomes of special tokens.

All diffusion wrappers fill the whole canvas first and cut afterwards, and they differ in what becomes of special tokens, hence in the
score. ``llada`` and ``dream`` are those of ``cofill eval`` (``crates/cofill-tasks/src/wrapper.rs``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from cofill import Error

__all__ = ["Text", "answer", "cut", "wrapper_of"]


class Text(Protocol):
    """A tokenizer."""

    eos_id: int | None
    eot_id: int | None  # ends a turn of a chat

    def encode(self, text: str) -> list[int]: ...

    def decode(self, tokens: Sequence[int], skip_special: bool = False) -> str: ...


def wrapper_of(compat: str, family: str) -> str:
    """Whose rules are followed: Fast-dLLM has LLaDA's and Dream's, each for its family.

    Examples
    --------
    >>> wrapper_of("fast-dllm", "dream"), wrapper_of("fast-dllm", "llada"), wrapper_of("plain", "dream")
    ('dream', 'llada', 'plain')
    """
    if compat != "fast-dllm":
        return compat
    return "dream" if family == "dream" else "llada"


def cut(text: str, until: Sequence[str]) -> str:
    """The text before the stop strings, looked for one after the other: where they overlap this is not the earliest of all.

    Examples
    --------
    >>> cut("abcd", ["bc", "cd"]), cut("abcd", ["cd", "bc"]), cut("abcd", [])
    ('a', 'ab', 'abcd')
    """
    for stop in until:
        if stop:  # Python refuses to split at nothing
            text = text.split(stop)[0]
    return text


def answer(wrapper: str, tokens: Sequence[int], until: Sequence[str], text: Text) -> str:
    """What is scored of the tokens that were generated.

    Parameters
    ----------
    wrapper
        ``plain``: up to the first end of text or turn (or a special token that the task names as a stop string), without special tokens, cut.
        ``llada``: cut while special tokens are visible, which are then deleted; an end of text ends nothing, what follows is glued on.
        ``dream``: up to the end of text, cut; other special tokens stay.
    """
    if wrapper == "llada":
        return without_specials(cut(text.decode(tokens), until), text)
    if wrapper == "dream":
        if text.eos_id is None:
            raise Error("compat is `dream`, which cuts at the end-of-text token, and the model names none; give compat=plain")
        return cut(cut(text.decode(tokens), [text.decode([text.eos_id])]), until)
    ends = {text.eos_id, text.eot_id} | {stop for stop in map(lambda stop: _special(stop, text), until) if stop is not None}
    end = next((i for i, token in enumerate(tokens) if int(token) in ends), len(tokens))
    return cut(text.decode(tokens[:end], skip_special=True), until)


def without_specials(text: str, tokenizer: Text) -> str:
    """What tokenising a text and decoding it without special tokens gives: LLaDA's way of deleting them."""
    return tokenizer.decode(tokenizer.encode(text), skip_special=True)


def until_of(arguments: dict[str, Any]) -> list[str]:
    """The stop strings of a request."""
    until = arguments.get("until") or []
    return [until] if isinstance(until, str) else list(until)


def _special(stop: str, text: Text) -> int | None:
    """The special token that a stop string is, if it is one: `<|im_end|>` must be seen before special tokens are gone."""
    tokens = text.encode(stop) if stop else []
    is_one = len(tokens) == 1 and text.decode(tokens) == stop and text.decode(tokens, skip_special=True) == ""
    return int(tokens[0]) if is_one else None
