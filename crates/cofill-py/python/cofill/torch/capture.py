"""The attention of chosen layers among asked rows, read off a model that computes its own attention by fused kernels.

A[i, j] = mean over heads of softmax over **all** keys of q_i . k_j / sqrt(d), after the rotation, rows and columns = asked rows.
Fused kernels never form it. But q and k pass by: as the output of a rotary module (LLaDA), as outputs of projections beside the
cosines that rotate them (Dream, Qwen, Llama), or as arguments of `scaled_dot_product_attention` (anybody). A *tap* hands them on the moment
they exist, and the product is formed for the asked rows alone, in f32: the discount multiplies every error by 40. Nothing else is
kept: at 8B, 512 positions and 256 masks this is 1 GFLOP beside the forward's 8 TFLOP.

Taps are installed for one forward and removed however it ends. Modules inside a graph of `torch.compile` do not run their hooks; capture
before compiling, or keep the tapped layers out of the graph with `torch.compiler.disable`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import torch
from torch.overrides import TorchFunctionMode

from cofill import Error

__all__ = ["resolve_layers", "Collector", "tap_rotary", "tap_projections", "SdpaTap", "sliced_head"]

ELEMENTS = 1 << 22
"""The most scores that exist at once: 16 MB of f32."""


class Receive(Protocol):
    """What a tap calls with the queries and keys of a layer."""

    def __call__(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, bias: torch.Tensor | None, scale: float | None
    ) -> None:
        """q: [batch, heads, length, d]; k: [batch, kv heads, length, d]; both rotated. bias: broadcasts to [batch, heads, length, length]."""


def resolve_layers(choice: str, n_layers: int) -> range:
    """The layers that a sampler means, for a model that has `n_layers`.

    `first`, `middle` (number n/2), `last`, a number from 0, `last 4`, `last 30%`, as `Query.attention` prints them.

    Examples
    --------
    >>> from cofill.torch.capture import resolve_layers
    >>> resolve_layers("last", 32), resolve_layers("middle", 32), resolve_layers("last 30%", 32)
    (range(31, 32), range(16, 17), range(22, 32))
    """
    if n_layers < 1:
        raise Error(f"layer {choice} was asked for, but the model says that it has {n_layers} layers")

    def from_end(n: int) -> range:
        return range(n_layers - min(max(n, 1), n_layers), n_layers)

    if choice == "first":
        return range(0, 1)
    if choice == "middle":
        return range(n_layers // 2, n_layers // 2 + 1)
    if choice == "last":
        return from_end(1)
    if choice.isdigit():
        layer = int(choice)
        if layer >= n_layers:
            raise Error(f"layer {layer} was asked for, but the model has layers 0 to {n_layers - 1}")
        return range(layer, layer + 1)
    if match := re.fullmatch(r"last (\d+)", choice):
        return from_end(int(match[1]))
    if match := re.fullmatch(r"last (\d+)%", choice):
        return from_end(math.floor(int(match[1]) / 100 * n_layers + 0.5))
    if choice == "learned":
        raise Error(
            "the sampler asks a trained head who changes whom, and a torch model has none; run it with `cofill.Engine`, whose tiny "
            "models have one, or choose a layer with `+ad@layer=last`"
        )
    raise Error(f"layer must be first, middle, last or a number, but `{choice}` was given")


class Collector:
    """Turns queries and keys into head-mean attention among asked rows, as they come.

    Parameters
    ----------
    layers : sequence of (range or None)
        For every sequence of the batch, whose attention is averaged; None for a sequence that asked for none.
    queries, keys : sequence of torch.Tensor
        For every sequence, the rows `[m]` that attend and the rows `[m]` that are attended to.
    padding : torch.Tensor, optional
        Bool `[batch, length]`, True where a key is real. Keys of padding get probability 0.
    """

    def __init__(
        self,
        layers: Sequence[range | None],
        queries: Sequence[torch.Tensor],
        keys: Sequence[torch.Tensor],
        padding: torch.Tensor | None = None,
    ) -> None:
        self.layers, self.queries, self.keys, self.padding = layers, queries, keys, padding
        self.sums: list[torch.Tensor | None] = [None] * len(layers)
        self.seen: list[int] = [0] * len(layers)

    @property
    def wanted(self) -> list[int]:
        """The numbers of all layers that somebody asked for, ascending."""
        return sorted({layer for layers in self.layers if layers is not None for layer in layers})

    def __call__(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, bias: torch.Tensor | None, scale: float | None
    ) -> None:
        for at, layers in enumerate(self.layers):
            if layers is None or layer not in layers:
                continue
            rows, columns = self.queries[at].to(q.device), self.keys[at].to(q.device)
            keep = None if self.padding is None else self.padding[at].to(q.device)
            here = None if bias is None else bias[at if bias.shape[0] > 1 else 0]
            mean = head_mean(q[at], k[at], rows, columns, keep, here, scale)
            before = self.sums[at]
            self.sums[at] = mean if before is None else before + mean
            self.seen[at] += 1

    def result(self, at: int) -> torch.Tensor:
        """The attention of one sequence, f32 `[m, m]`, row = query."""
        layers, total = self.layers[at], self.sums[at]
        if layers is None or total is None or self.seen[at] != len(layers):
            want = 0 if layers is None else len(layers)
            why = (
                "the model attends more than once a layer: use an adapter whose `capture` taps the one that is meant"
                if self.seen[at] > want
                else "a compiled model or another attention kernel hides its queries and keys: load it with attn_implementation='sdpa', without "
                "torch.compile"
            )
            raise Error(f"attention of {want} layer(s) was asked for, but {self.seen[at]} passed by during the forward; {why}")
        return total / len(layers) if len(layers) > 1 else total


def head_mean(
    q: torch.Tensor,
    k: torch.Tensor,
    rows: torch.Tensor,
    columns: torch.Tensor,
    keep: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    """Head-mean attention of some queries toward some keys, normalised over all keys. f32 `[rows, columns]`

    Parameters
    ----------
    q : torch.Tensor
        `[heads, length, d]`, rotated.
    k : torch.Tensor
        `[kv heads, length, d]`, rotated; query head j uses key head j // (heads / kv heads).
    rows, columns : torch.Tensor
        The queries and keys that are kept.
    keep : torch.Tensor, optional
        Bool `[length]`, False for keys of padding.
    bias : torch.Tensor, optional
        Bool or added to the scores; broadcasts to `[heads, length, length]`.
    scale : float, optional
        What scores are multiplied with; 1 / sqrt(d) if not given.
    """
    heads, _, d = q.shape
    kv_heads, length = k.shape[0], k.shape[1]
    if heads % kv_heads:
        raise Error(
            f"attention has {heads} query heads and {kv_heads} key heads; the first must be a multiple of the second"
        )
    group = heads // kv_heads
    scale = d**-0.5 if scale is None else scale
    q = q.index_select(1, rows).float()  # [heads, m, d]
    total = torch.zeros(len(rows), len(columns), dtype=torch.float32, device=q.device)
    bias = _bias_rows(bias, rows, length)
    some = max(1, ELEMENTS // max(1, group * len(rows) * length))
    for first in range(0, kv_heads, some):
        last = min(first + some, kv_heads)
        key = k[first:last].float().repeat_interleave(group, dim=0)  # [n, length, d]
        scores = torch.matmul(q[first * group : last * group], key.transpose(1, 2)).mul_(scale)  # [n, m, length]
        if bias is not None:
            part = bias if bias.shape[0] == 1 else bias[first * group : last * group]
            scores = scores.masked_fill_(~part, -torch.inf) if part.dtype == torch.bool else scores.add_(part)
        if keep is not None:
            scores.masked_fill_(~keep, -torch.inf)
        total += torch.softmax(scores, dim=2).index_select(2, columns).sum(dim=0)
    return total.div_(heads)


def _bias_rows(bias: torch.Tensor | None, rows: torch.Tensor, length: int) -> torch.Tensor | None:
    """The rows of a mask that belong to the asked queries. `[1 or heads, 1 or m, length]`"""
    if bias is None:
        return None
    while bias.dim() < 3:
        bias = bias.unsqueeze(0)
    bias = bias[..., :length]
    if bias.shape[1] > 1:
        bias = bias.index_select(1, rows)
    return bias if bias.dtype == torch.bool else bias.float()


@contextmanager
def tap_rotary(modules: Sequence[tuple[int, torch.nn.Module]], receive: Receive) -> Iterator[None]:
    """For modules that are called with (q, k) and return them rotated, as LLaDA's `rotary_emb` does."""
    with ExitStack() as stack:
        for layer, module in modules:

            def hook(_module: Any, _args: Any, output: Any, layer: int = layer) -> None:
                q, k = output
                receive(layer, q, k, None, None)

            stack.callback(module.register_forward_hook(hook).remove)
        yield


@contextmanager
def tap_projections(modules: Sequence[tuple[int, torch.nn.Module]], receive: Receive) -> Iterator[None]:
    """For attention modules with `q_proj` and `k_proj` that are told `position_embeddings`, as Dream's, Qwen's and Llama's are.

    Where there are `q_norm` and `k_norm`, queries and keys are taken after them.
    """
    with ExitStack() as stack:
        for layer, module in modules:
            _tap_attention(stack, layer, module, receive)
        yield


def _tap_attention(stack: ExitStack, layer: int, module: torch.nn.Module, receive: Receive) -> None:
    held: dict[str, Any] = {}

    def before(_module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        held.clear()
        held["hidden"] = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
        held["rotation"] = kwargs.get("position_embeddings")
        held["bias"] = kwargs.get("attention_mask")

    def keep(name: str) -> Callable[..., None]:
        def hook(_module: Any, _args: Any, output: torch.Tensor) -> None:
            held[name] = output

        return hook

    def after(_module: Any, _args: Any, _output: Any) -> None:
        try:
            if held.get("rotation") is None:
                raise Error(
                    f"layer {layer}'s attention was not told `position_embeddings`; this capture knows modules that are. Use an adapter "
                    "whose `capture` taps `scaled_dot_product_attention`: `cofill.adapters.Adapter` itself does"
                )
            batch, length = held["hidden"].shape[:2]
            cos, sin = held["rotation"]  # [1 or batch, length, d]
            d = getattr(module, "head_dim", cos.shape[-1])
            q = held["q"].reshape(batch, length, -1, d).transpose(1, 2)  # [batch, heads, length, d]
            k = held["k"].reshape(batch, length, -1, d).transpose(1, 2)
            bias = held["bias"] if isinstance(held["bias"], torch.Tensor) else None
            receive(layer, rotated(q, cos, sin), rotated(k, cos, sin), bias, getattr(module, "scaling", None))
        finally:
            held.clear()

    stack.callback(held.clear)
    stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
    for name in ("q", "k"):
        source = getattr(module, f"{name}_norm", None) or getattr(module, f"{name}_proj")
        stack.callback(source.register_forward_hook(keep(name)).remove)
    stack.callback(module.register_forward_hook(after).remove)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Half-split rotary embedding in f32; entries beyond the width of the cosines are left alone."""
    x, cos, sin = x.float(), cos.float().unsqueeze(1), sin.float().unsqueeze(1)
    width = cos.shape[-1]
    turned, left = x[..., :width], x[..., width:]
    a, b = turned.chunk(2, dim=-1)
    turned = turned * cos + torch.cat((-b, a), dim=-1) * sin
    return torch.cat((turned, left), dim=-1) if left.shape[-1] else turned


class SdpaTap(TorchFunctionMode):
    """For any model that calls `torch.nn.functional.scaled_dot_product_attention` once a layer: its arguments, by the number of the call."""

    def __init__(self, layers: Sequence[int], receive: Receive) -> None:
        super().__init__()
        self.layers, self.receive, self.calls = set(layers), receive, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention:
            layer, self.calls = self.calls, self.calls + 1
            if layer in self.layers:
                named = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args)) | kwargs
                q, k, bias = named["query"], named["key"], named.get("attn_mask")
                if named.get("is_causal"):
                    raise Error(
                        f"layer {layer} attends causally (is_causal=True); a masked diffusion model looks both ways, so this is another kind of model"
                    )
                while bias is not None and bias.dim() < 4:
                    bias = bias.unsqueeze(0)
                self.receive(layer, q, k, bias, named.get("scale"))
        return func(*args, **kwargs)


@contextmanager
def sliced_head(
    head: torch.nn.Module | None, batch: torch.Tensor, rows: torch.Tensor, shape: tuple[int, int] | None = None
) -> Iterator[Callable[[torch.Tensor], torch.Tensor]]:
    """Makes a model's head run on asked rows only: of 512 x 126,464 logits in bf16, 129 MB a sequence never exist.

    Yields a function that takes the model's logits and returns those of the asked rows, `[rows, vocab]`, also when the head was never
    called: with tied weights LLaDA multiplies by the embedding itself.

    Parameters
    ----------
    head : torch.nn.Module or None
        The module from hidden states to logits; None takes whole logits and slices those.
    batch, rows : torch.Tensor
        For every asked row, which sequence of the batch it is in, and where.
    shape : (int, int), optional
        Batch and length of the canvases. What has another shape is refused before it is indexed: on a GPU that would end the process.
    """
    sliced = False

    def slice_input(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
        nonlocal sliced
        name = "" if args else next(iter(kwargs), "")  # `self.lm_head(input=x)` is a call, too
        hidden = args[0] if args else kwargs.get(name)
        if not isinstance(hidden, torch.Tensor) or hidden.dim() != 3:
            return None  # an embedding that also serves as a head, asked for its first purpose
        if shape is not None and hidden.shape[:2] != shape:
            raise Error(
                f"the head was called with {tuple(hidden.shape)}, but [{shape[0]}, {shape[1]}, width] was expected; see `head` and `forward` of "
                "the adapter"
            )
        sliced = True
        # Three dimensions stay three, for those who look at the shape afterwards.
        some = hidden[batch.to(hidden.device), rows.to(hidden.device)].unsqueeze(0)
        return ((some, *args[1:]), kwargs) if args else (args, {**kwargs, name: some})

    def asked(logits: torch.Tensor) -> torch.Tensor:
        if sliced:
            return logits[0]
        if shape is not None and logits.shape[:2] != shape:
            raise Error(
                f"the model answered with {tuple(logits.shape)}, but [{shape[0]}, {shape[1]}, vocab] was expected; see `forward` of the adapter"
            )
        return logits[batch.to(logits.device), rows.to(logits.device)]

    handle = None if head is None else head.register_forward_pre_hook(slice_input, with_kwargs=True)
    try:
        yield asked
    finally:
        if handle is not None:
            handle.remove()
