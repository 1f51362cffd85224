"""Torch doubles of LLaDA, Dream and dllm's Qwen conversions: our own code, the published module names, the same arithmetic.

They load the tiny checkpoints of the goldens, whose logits and attention come from the published classes: what holds for a double that
reproduces those holds for the class it stands for. With COFILL_DLLM=<checkout of ZHZisZZ/dllm> `load` gives the published classes instead.
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import sys
import types
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

torch.set_num_threads(1)  # tiny products: more threads only wait for each other


class Config(types.SimpleNamespace):
    """A configuration with the fields of config.json; what is missing is None, as in transformers' own for optional fields."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


class RmsNorm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * y.to(x.dtype)


def angles(positions: torch.Tensor, d: int, theta: float) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin of half-split rotation, in f32. `[..., length, d]`"""
    frequency = 1.0 / theta ** (torch.arange(0, d, 2).float() / d)
    angle = positions.float()[..., None] * frequency
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos(), angle.sin()


def turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


# --- LLaDA -----------------------------------------------------------------------------------------------------------------------------


class Rotary(nn.Module):
    """Takes q and k, gives them rotated: the module that the LLaDA hook listens to."""

    def __init__(self, theta: float) -> None:
        super().__init__()
        self.theta = theta

    def forward(self, q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        cos, sin = angles(torch.arange(k.shape[-2]), k.shape[-1], self.theta)
        return turn(q.float(), cos, sin).type_as(q), turn(k.float(), cos, sin).type_as(k)


class LLaDALlamaBlock(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        d, self.heads, self.kv_heads = c.d_model, c.n_heads, c.n_kv_heads or c.n_heads
        kv = self.kv_heads * d // self.heads
        self.attn_norm, self.ff_norm = RmsNorm(d, c.rms_norm_eps), RmsNorm(d, c.rms_norm_eps)
        self.q_proj, self.attn_out = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.k_proj, self.v_proj = nn.Linear(d, kv, bias=False), nn.Linear(d, kv, bias=False)
        self.ff_proj, self.up_proj = (
            nn.Linear(d, c.mlp_hidden_size, bias=False),
            nn.Linear(d, c.mlp_hidden_size, bias=False),
        )
        self.ff_out = nn.Linear(c.mlp_hidden_size, d, bias=False)
        self.rotary_emb = Rotary(c.rope_theta)

    def forward(self, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        b, length, _ = x.shape
        h = self.attn_norm(x)
        q = self.q_proj(h).view(b, length, self.heads, -1).transpose(1, 2)
        k = self.k_proj(h).view(b, length, self.kv_heads, -1).transpose(1, 2)
        v = self.v_proj(h).view(b, length, self.kv_heads, -1).transpose(1, 2)
        q, k = self.rotary_emb(q, k)
        group = self.heads // self.kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=None if bias is None else bias.to(q.dtype))
        x = x + self.attn_out(a.transpose(1, 2).reshape(b, length, -1))
        h = self.ff_norm(x)
        return x + self.ff_out(F.silu(self.ff_proj(h)) * self.up_proj(h))


class LLaDAModelLM(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        c = self.config = config
        tower: dict[str, nn.Module] = {
            "wte": nn.Embedding(c.embedding_size or c.vocab_size, c.d_model),
            "ln_f": RmsNorm(c.d_model, c.rms_norm_eps),
        }
        blocks = [LLaDALlamaBlock(c) for _ in range(c.n_layers)]
        size = c.block_group_size or 1
        if size > 1:
            tower["block_groups"] = nn.ModuleList(
                nn.ModuleList(blocks[i : i + size]) for i in range(0, len(blocks), size)
            )
        else:
            tower["blocks"] = nn.ModuleList(blocks)
        if not c.weight_tying:
            tower["ff_out"] = nn.Linear(c.d_model, c.embedding_size or c.vocab_size, bias=False)
        self.model = nn.Module()
        self.model.transformer = nn.ModuleDict(tower)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None, use_cache: bool = False
    ) -> Any:
        t = self.model.transformer
        bias = None
        if attention_mask is not None and bool((attention_mask == 0).any()):
            bias = (1.0 - attention_mask.float())[:, None, None, :] * torch.finfo(torch.float32).min
        x = t["wte"](input_ids)
        blocks = t["blocks"] if "blocks" in t else [block for group in t["block_groups"] for block in group]
        for block in blocks:
            x = block(x, bias)
        x = t["ln_f"](x)
        logits = F.linear(x, t["wte"].weight) if self.config.weight_tying else t["ff_out"](x)
        return types.SimpleNamespace(logits=logits)

    def get_input_embeddings(self) -> nn.Module:
        return self.model.transformer["wte"]

    def get_output_embeddings(self) -> nn.Module:
        return self.model.transformer["wte" if self.config.weight_tying else "ff_out"]


# --- Dream, Qwen -----------------------------------------------------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self, c: Config, bias: bool, norms: bool) -> None:
        super().__init__()
        d, self.num_heads, self.num_key_value_heads = c.hidden_size, c.num_attention_heads, c.num_key_value_heads
        self.head_dim = c.head_dim or d // self.num_heads
        q, kv = self.num_heads * self.head_dim, self.num_key_value_heads * self.head_dim
        self.q_proj, self.o_proj = nn.Linear(d, q, bias=bias), nn.Linear(q, d, bias=False)
        self.k_proj, self.v_proj = nn.Linear(d, kv, bias=bias), nn.Linear(d, kv, bias=bias)
        if norms:
            self.q_norm, self.k_norm = RmsNorm(self.head_dim, c.rms_norm_eps), RmsNorm(self.head_dim, c.rms_norm_eps)

    def forward(
        self, hidden_states: torch.Tensor, attention_mask: Any = None, position_embeddings: Any = None
    ) -> torch.Tensor:
        b, length, _ = hidden_states.shape
        norm = [getattr(self, name, nn.Identity()) for name in ("q_norm", "k_norm")]
        q = norm[0](self.q_proj(hidden_states).view(b, length, self.num_heads, self.head_dim)).transpose(1, 2)
        k = norm[1](self.k_proj(hidden_states).view(b, length, self.num_key_value_heads, self.head_dim)).transpose(1, 2)
        v = self.v_proj(hidden_states).view(b, length, self.num_key_value_heads, self.head_dim).transpose(1, 2)
        cos, sin = (x.unsqueeze(1) for x in position_embeddings)
        q, k = turn(q, cos, sin), turn(k, cos, sin)
        group = self.num_heads // self.num_key_value_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        a = F.scaled_dot_product_attention(
            q, k, v, attn_mask=attention_mask if isinstance(attention_mask, torch.Tensor) else None
        )
        return self.o_proj(a.transpose(1, 2).reshape(b, length, -1))


class Mlp(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(c.hidden_size, c.intermediate_size, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c: Config, bias: bool, norms: bool) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = (RmsNorm(c.hidden_size, c.rms_norm_eps) for _ in range(2))
        self.self_attn, self.mlp = Attention(c, bias, norms), Mlp(c)

    def forward(self, x: torch.Tensor, attention_mask: Any, position_embeddings: Any) -> torch.Tensor:
        x = x + self.self_attn(
            hidden_states=self.input_layernorm(x),
            attention_mask=attention_mask,
            position_embeddings=position_embeddings,
        )
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """`model.embed_tokens`, `model.layers`, `model.norm` and `lm_head`, with biases or with norms."""

    bias, norms = True, False

    def __init__(self, config: Config) -> None:
        super().__init__()
        c = self.config = config
        self.theta = c.rope_theta or c.rope_parameters["rope_theta"]
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.model.layers = nn.ModuleList(Layer(c, self.bias, self.norms) for _ in range(c.num_hidden_layers))
        self.model.norm = RmsNorm(c.hidden_size, c.rms_norm_eps)
        self.lm_head = nn.Linear(c.hidden_size, c.vocab_size, bias=False)
        if c.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def bias_of(self, mask: Any) -> Any:
        return mask

    def forward(
        self, input_ids: torch.Tensor, attention_mask: Any = None, position_ids: Any = None, use_cache: bool = False
    ) -> Any:
        x = self.model.embed_tokens(input_ids)
        positions = torch.arange(x.shape[1])[None] if position_ids is None else position_ids
        rotation = tuple(r.to(x.dtype) for r in angles(positions, self.model.layers[0].self_attn.head_dim, self.theta))
        mask = self.bias_of(attention_mask)
        for layer in self.model.layers:
            x = layer(x, attention_mask=mask, position_embeddings=rotation)
        return types.SimpleNamespace(logits=self.lm_head(self.model.norm(x)))

    def get_input_embeddings(self) -> nn.Module:
        return self.model.embed_tokens

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head


class DreamModel(Decoder):
    """Takes "full", None or a 4-D mask, as the published forward does."""

    def bias_of(self, mask: Any) -> Any:
        if isinstance(mask, torch.Tensor) and mask.dim() != 4:
            raise ValueError("the published forward expects a 4-D mask")
        return mask


class A2DQwen2LMHeadModel(Decoder):
    """Takes a 2-D mask and makes a bias of it, also of one without padding."""

    def bias_of(self, mask: Any) -> Any:
        if mask is None:
            return None
        return (1.0 - mask[:, None, None, :].to(torch.float32)) * torch.finfo(torch.float32).min


class A2DQwen3LMHeadModel(A2DQwen2LMHeadModel):
    bias, norms = False, True


DOUBLES = {c.__name__: c for c in (LLaDAModelLM, DreamModel, A2DQwen2LMHeadModel, A2DQwen3LMHeadModel)}


def read_config(folder: pathlib.Path) -> Config:
    return Config(**json.loads((folder / "config.json").read_text()))


def load(folder: pathlib.Path) -> nn.Module:
    """The checkpoint in a folder: a double, or the published class if COFILL_DLLM says where those are."""
    config = read_config(folder)
    name = config.architectures[0]
    weights = load_file(folder / "model.safetensors")
    if os.environ.get("COFILL_DLLM"):
        model = _published(name, folder)
    else:
        model = DOUBLES[name](config)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected and all("lm_head" in m or "inv_freq" in m for m in missing), (missing, unexpected)
    return model.eval()


# --- the published classes -----------------------------------------------------------------------------------------------------------------

PLACES = {
    "LLaDAModelLM": ("llada", "modeling_llada", "LLaDAConfig", "configuration_llada"),
    "DreamModel": ("dream", "modeling_dream", "DreamConfig", "configuration_dream"),
    "A2DQwen2LMHeadModel": ("a2d", "qwen2.modeling_qwen2", "A2DQwen2Config", "qwen2.modeling_qwen2"),
    "A2DQwen3LMHeadModel": ("a2d", "qwen3.modeling_qwen3", "A2DQwen3Config", "qwen3.modeling_qwen3"),
}


def _package(pipeline: str) -> str:
    """The modeling files of a pipeline as a package of their own: dllm's `__init__` files import all of dllm."""
    package = f"published_{pipeline}"
    if package not in sys.modules:
        made = types.ModuleType(package)
        made.__path__ = [str(pathlib.Path(os.environ["COFILL_DLLM"]) / "dllm" / "pipelines" / pipeline / "models")]  # type: ignore[attr-defined]
        sys.modules[package] = made
    return package


def _published(name: str, folder: pathlib.Path) -> nn.Module:
    pipeline, module, config_class, config_module = PLACES[name]
    package = _package(pipeline)
    settings = json.loads((folder / "config.json").read_text())
    if "rope_parameters" in settings:  # written by transformers 5; 4.57 calls it so
        settings["rope_theta"] = settings.pop("rope_parameters")["rope_theta"]
    config = getattr(importlib.import_module(f"{package}.{config_module}"), config_class)(
        **{k: v for k, v in settings.items() if k not in ("auto_map",)}
    )
    modeling = importlib.import_module(f"{package}.{module}")
    cls = getattr(modeling, name)
    if name != "LLaDAModelLM":
        config._attn_implementation = "sdpa"
        return cls(config)
    inner = modeling.create_model_config_from_pretrained_config(config)
    inner.init_device = "cpu"  # dllm's copy says "cuda"
    return cls(config, model=modeling.LLaDAModel(inner, init_params=True))


def random_mixture() -> nn.Module:
    """The published LLaDA-MoE class, tiny, with random weights."""
    package = _package("llada")
    configuration = importlib.import_module(f"{package}.configuration_lladamoe")
    config_class = next(c for name, c in vars(configuration).items() if name in ("LLaDAMoEConfig", "LLaDAConfig"))
    config = config_class(
        vocab_size=60,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_experts=4,
        num_experts_per_tok=2,
        expert_intermediate_size=16,
        shared_expert_intermediate_size=None,
        qk_layernorm=True,
        moe_layer_freq=[1, 1],
        max_position_embeddings=64,
        rope_theta=1e4,
        partial_rotary_factor=1.0,
        pad_token_id=1,
        attn_implementation="sdpa",
    )
    config.mask_token_id = 59
    torch.manual_seed(0)
    return importlib.import_module(f"{package}.modeling_lladamoe").LLaDAMoEModelLM(config).eval()
