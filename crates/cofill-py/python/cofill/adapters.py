"""What cofill must know of a torch model: where its mask, its rows, its head and its attention are.

Published classes are known by name: LLaDA (`LLaDAModelLM`), Dream (`DreamModel`), dllm's conversions of Qwen and Llama
(`A2DQwen2LMHeadModel` and relatives), LLaDA-MoE. For any other model write a small class; `template(model)` prints one that fits.
No code of any of them is copied: hooks on their modules are all there is, and the modules are looked for before anything runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from cofill import Error
from cofill.torch.capture import Receive, SdpaTap, tap_projections, tap_rotary

__all__ = ["Adapter", "LLaDA", "Dream", "A2D", "LLaDAMoE", "adapt", "template"]


class Adapter:
    """Any model that is called with `input_ids` and `attention_mask` and answers with `.logits`; the base of all others.

    Parameters
    ----------
    model : torch.nn.Module
        The model. It is never changed; hooks live for one forward.
    mask_id : int, optional
        The token that marks an open position; from the configuration's `mask_token_id` if not given.
    shift : bool, optional
        Whether the row before a position predicts it (Dream). The default is the family's.

    Attributes
    ----------
    mask_id : int
        The token that marks an open position.
    head : torch.nn.Module or None
        The module from hidden states to logits, called once a forward; None takes whole logits.
    n_layers : int
        How many layers have attention.
    """

    shift: bool = False

    def __init__(self, model: torch.nn.Module, mask_id: int | None = None, shift: bool | None = None) -> None:
        self.model: Any = model  # its attributes are found by name
        self.config = getattr(model, "config", None)
        self.mask_id = self._mask_id(mask_id)
        if shift is not None:
            self.shift = shift
        self.head: torch.nn.Module | None = _output_embeddings(model)
        if self.device.type == "meta":
            raise Error(f"the weights of {type(model).__name__} are on the device meta: they are not loaded; load them to a CPU or a GPU")
        self.n_layers = int(_first(self.config, "num_hidden_layers", "n_layers") or 0)
        if self.vocab is not None and self.mask_id >= self.vocab:
            raise Error(f"mask_id must be below the model's {self.vocab} tokens, but {self.mask_id} was given")
        self.check()

    def source_row(self, position: torch.Tensor) -> torch.Tensor:
        """The rows whose logits predict some positions: themselves, or under the shift the ones before (0 stays 0)."""
        return (position - 1).clamp(min=0) if self.shift else position

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Logits of a batch of canvases.

        Parameters
        ----------
        x : torch.Tensor
            int64 `[batch, length]`.
        mask : torch.Tensor or None
            int64 `[batch, length]`, 0 where a position is padding on the left; None without padding.
        """
        return self.model(input_ids=x, attention_mask=mask).logits

    def capture(self, layers: Sequence[int], receive: Receive) -> AbstractContextManager[Any]:
        """Hands the queries and keys of some layers to `receive` during the forwards inside the context.

        This one knows every model that calls `scaled_dot_product_attention` once a layer.
        """
        return SdpaTap(layers, receive)

    def check(self) -> None:
        """Refuses a model that lacks the modules this adapter needs, by name."""

    @property
    def device(self) -> torch.device:
        """Where the model takes its input."""
        embeddings = getattr(self.model, "get_input_embeddings", lambda: None)()
        weights = [getattr(embeddings, "weight", None)] if embeddings is not None else []
        for tensor in [*weights, *self.model.parameters()]:
            if tensor is not None:
                return tensor.device
        return torch.device("cpu")

    @property
    def vocab(self) -> int | None:
        """How many columns the logits have, if that is known before a forward."""
        weight = getattr(self.head, "weight", None)
        return None if weight is None else int(weight.shape[0])

    @property
    def pad_id(self) -> int:
        """What stands where nothing does. Padding is masked, so that it may be anything but the mask."""
        for name in ("pad_token_id", "eos_token_id"):
            token = getattr(self.config, name, None)
            token = token[0] if isinstance(token, (list, tuple)) and token else token
            if isinstance(token, int) and token != self.mask_id:
                return token
        return 0 if self.mask_id != 0 else 1

    @property
    def name(self) -> str:
        """What a trace calls the model."""
        return getattr(self.config, "_name_or_path", "") or type(self.model).__name__

    def _mask_id(self, given: int | None) -> int:
        mask_id = given if given is not None else _first(self.config, "mask_token_id", "mask_id")
        if mask_id is None:
            raise Error(
                f"the configuration of {type(self.model).__name__} has no mask_token_id; pass mask_id=, the id of the mask in its tokenizer"
            )
        if isinstance(mask_id, bool) or not hasattr(mask_id, "__index__") or mask_id < 0:
            raise Error(f"mask_id must be a token id, 0 or more, but {mask_id!r} was given")
        return int(mask_id)

    def _need(self, *names: str) -> None:
        """Refuses a model without these modules."""
        missing = [name for name in names if _module(self.model, name) is None]
        if missing:
            raise Error(
                f"{type(self.model).__name__} was taken for a {type(self).__name__} model, but has no {', '.join(f'`{n}`' for n in missing)}; "
                f"its code differs from what this version of cofill knows. Pass adapter=cofill.adapters.Adapter(model), which needs no "
                "names, or an adapter of your own"
            )


class LLaDA(Adapter):
    """`LLaDAModelLM`, as published: rows are not shifted, padding is told by a 2-D mask (ignored by files before October 2025)."""

    def check(self) -> None:
        self._need("model.transformer.wte", "model.transformer.ln_f")
        if not self._blocks():
            self._need("model.transformer.blocks")
        for i, block in enumerate(self._blocks()):
            if not isinstance(getattr(block, "rotary_emb", None), torch.nn.Module):
                self._need(f"model.transformer.blocks.{i}.rotary_emb")
        self.n_layers = len(self._blocks())

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        return self.model(input_ids=x, attention_mask=mask, use_cache=False).logits

    def capture(self, layers: Sequence[int], receive: Receive) -> AbstractContextManager[Any]:
        blocks = self._blocks()
        return tap_rotary([(layer, blocks[layer].rotary_emb) for layer in layers], receive)

    def _blocks(self) -> list[torch.nn.Module]:
        blocks = _module(self.model, "model.transformer.blocks")
        if blocks is not None:
            return list(blocks)
        groups = _module(self.model, "model.transformer.block_groups")  # with block_group_size above 1
        return [block for group in groups for block in group] if groups is not None else []


class Projections(Adapter):
    """Models in the layout of transformers: `model.layers[i].self_attn` with `q_proj` and `k_proj`."""

    def check(self) -> None:
        self._need("model.embed_tokens", "model.norm", "model.layers")
        self.n_layers = len(self.model.model.layers)
        for i in range(self.n_layers):
            self._need(f"model.layers.{i}.self_attn.q_proj", f"model.layers.{i}.self_attn.k_proj")

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        positions = None if mask is None else position_ids(mask)
        return self.model(input_ids=x, attention_mask=mask, position_ids=positions, use_cache=False).logits

    def capture(self, layers: Sequence[int], receive: Receive) -> AbstractContextManager[Any]:
        return tap_projections([(layer, self.model.model.layers[layer].self_attn) for layer in layers], receive)


class Dream(Projections):
    """`DreamModel`, as published: the row before a position predicts it; padding is a 4-D mask and position ids."""

    shift = True

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        if mask is None:
            return self.model(input_ids=x, attention_mask="full", use_cache=False).logits
        real = mask.bool()
        both = real[:, None, None, :] & real[:, None, :, None]  # [batch, 1, length, length]
        return self.model(input_ids=x, attention_mask=both, position_ids=position_ids(mask), use_cache=False).logits


class A2D(Projections):
    """dllm's conversions of Qwen and Llama; rows are not shifted unless the configuration says `right_shift_logits`."""

    def __init__(self, model: torch.nn.Module, mask_id: int | None = None, shift: bool | None = None) -> None:
        if shift is None:
            shift = bool(getattr(getattr(model, "config", None), "right_shift_logits", False))
        super().__init__(model, mask_id, shift)


class LLaDAMoE(Projections):
    """`LLaDAMoEModelLM`, as published: rows are not shifted."""


FAMILIES: dict[str, type[Adapter]] = {
    "LLaDAModelLM": LLaDA,
    "DreamModel": Dream,
    "A2DQwen2LMHeadModel": A2D,
    "A2DQwen3LMHeadModel": A2D,
    "A2DLlamaLMHeadModel": A2D,
    "LLaDAMoEModelLM": LLaDAMoE,
    "FastdLLMLLaDAModelLM": LLaDA,
    "FastdLLMDreamModel": Dream,
}
"""Published classes by name."""


def adapt(model: torch.nn.Module, adapter: Any = None, *, mask_id: int | None = None, shift: bool | None = None) -> Any:
    """The adapter of a model: the one that is given, or the one its class is known for.

    Parameters
    ----------
    model : torch.nn.Module
        The model.
    adapter : object, class or function, optional
        An adapter, or what makes one when it is called with (model, mask_id, shift).
    mask_id, shift : optional
        In place of what the model's family says.
    """
    # An adapter without a model of its own may stand for something that torch does not know.
    if not isinstance(model, torch.nn.Module) and (adapter is None or hasattr(adapter, "model")):
        raise Error(f"model must be a torch model, but a {type(model).__name__} was given; a model by its name is cofill.Engine(name)")
    if shift is not None and not isinstance(shift, bool):
        raise Error(f"shift must be True or False, but {shift!r} was given")
    if isinstance(adapter, type) or (callable(adapter) and not hasattr(adapter, "forward")):
        return adapter(model, mask_id, shift)
    if adapter is not None:
        missing = [name for name in ("mask_id", "source_row", "forward") if not hasattr(adapter, name)]
        if missing:
            raise Error(
                f"adapter has no {', '.join(f'`{n}`' for n in missing)}; derive it from cofill.adapters.Adapter, as here:\n\n{template(model)}"
            )
        if mask_id is not None or shift is not None:
            raise Error("mask_id and shift are the adapter's to say; give them to it instead")
        made_for = getattr(adapter, "model", model)
        if made_for is not model:
            raise Error(
                f"adapter was made for another model, a {type(made_for).__name__}, than the {type(model).__name__} that was given; pass the same "
                "model to both"
            )
        return adapter
    names = [
        *(getattr(getattr(model, "config", None), "architectures", None) or []),
        *(c.__name__ for c in type(model).__mro__),
    ]
    for name in names:
        if name in FAMILIES:
            return FAMILIES[name](model, mask_id, shift)
    known = ", ".join(FAMILIES)
    raise Error(
        f"no adapter is known for {type(model).__name__}; known classes are {known}. Pass adapter=, for example\n\n{template(model)}"
    )


def template(model: torch.nn.Module) -> str:
    """The text of an adapter for a model nobody knows, to begin with."""
    return f'''class MyAdapter(cofill.adapters.Adapter):
    """For {type(model).__name__}."""

    shift = False                                  # True if the row before a position predicts it, as in Dream

    def forward(self, x, mask):                    # x: int64 [batch, length]; mask: int64 [batch, length], 0 = padding, or None
        return self.model(input_ids=x, attention_mask=mask).logits         # [batch, length, vocab]

    # self.head: the module from hidden states to logits, found by get_output_embeddings(); None takes whole logits.
    # capture(layers, receive): the default sees the arguments of scaled_dot_product_attention, call by call.

cofill.generate(model, input_ids, adapter=MyAdapter(model, mask_id=...), sampler="eb:3+ad")'''


def position_ids(mask: torch.Tensor) -> torch.Tensor:
    """Positions that count from the first real token; padding gets 1, as Dream's own loop does it. int64 `[batch, length]`"""
    return (mask.long().cumsum(dim=-1) - 1).masked_fill(mask == 0, 1)


def _first(config: Any, *names: str) -> Any:
    """The first of some settings that a configuration has."""
    for name in names:
        value = getattr(config, name, None)
        if value is not None:
            return value
    return None


def _module(model: torch.nn.Module, path: str) -> torch.nn.Module | None:
    """A module by its dotted name."""
    found: Any = model
    for part in path.split("."):
        if part.isdigit() and isinstance(found, torch.nn.ModuleList):
            found = found[int(part)] if int(part) < len(found) else None
        elif isinstance(found, torch.nn.ModuleDict):
            found = found[part] if part in found else None
        else:
            found = getattr(found, part, None)
        if not isinstance(found, torch.nn.Module):
            return None
    return found


def _output_embeddings(model: torch.nn.Module) -> torch.nn.Module | None:
    get = getattr(model, "get_output_embeddings", None)
    found = get() if callable(get) else None
    return found if isinstance(found, torch.nn.Module) else None
