"""The transformer of all families, in their own tensor names.

LLaDA: no biases, row i predicts position i. Dream: biases on q, k and v, row i - 1 predicts position i. Causal: Qwen2's layout, which is
Dream's, and a position sees only what stands before it.
"""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn


@dataclass
class Shape:
    family: str  # llada | dream | causal
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    mlp: int
    vocab: int
    eps: float
    theta: float = 10_000.0
    context: int = 8192  # training sequences are below 100; this is what a canvas may have

    @property
    def shift(self) -> bool:
        return self.family != "llada"

    @property
    def causal(self) -> bool:
        return self.family == "causal"


class Norm(nn.Module):
    def __init__(self, hidden: int, eps: float):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(hidden)), eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class Block(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.s, self.dim = s, s.hidden // s.heads
        kv = s.kv_heads * self.dim
        bias = s.family != "llada"
        self.attn_norm = Norm(s.hidden, s.eps)
        self.q = nn.Linear(s.hidden, s.hidden, bias=bias)
        self.k = nn.Linear(s.hidden, kv, bias=bias)
        self.v = nn.Linear(s.hidden, kv, bias=bias)
        self.o = nn.Linear(s.hidden, s.hidden, bias=False)
        self.mlp_norm = Norm(s.hidden, s.eps)
        self.gate = nn.Linear(s.hidden, s.mlp, bias=False)
        self.up = nn.Linear(s.hidden, s.mlp, bias=False)
        self.down = nn.Linear(s.mlp, s.hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, visible: Tensor | None) -> Tensor:
        b, n, _ = x.shape
        h = self.attn_norm(x)

        def heads(t: Tensor) -> Tensor:
            return t.view(b, n, -1, self.dim).transpose(1, 2)  # [b, heads, n, dim]

        q, k, v = heads(self.q(h)), heads(self.k(h)), heads(self.v(h))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if self.s.kv_heads != self.s.heads:
            group = self.s.heads // self.s.kv_heads
            k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        if self.s.causal:  # padding stands at the end, where nobody sees it
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        x = x + self.o(mixed.transpose(1, 2).reshape(b, n, -1))
        h = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)  # halves, not neighbours: Llama's way
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class Model(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.s = s
        self.embedding = nn.Embedding(s.vocab, s.hidden)
        self.blocks = nn.ModuleList(Block(s) for _ in range(s.layers))
        self.norm = Norm(s.hidden, s.eps)
        self.head = nn.Linear(s.hidden, s.vocab, bias=False)
        dim = s.hidden // s.heads
        angles = torch.outer(torch.arange(s.context).float(), s.theta ** (-torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin(), persistent=False)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                # What is added to the residual stream starts at nothing: every block begins as the identity.
                silent = name.endswith(("o.weight", "down.weight"))
                nn.init.zeros_(p) if silent else nn.init.normal_(p, std=1.0 / math.sqrt(p.shape[1]))
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, ids: Tensor, valid: Tensor, at: Tensor) -> Tensor:
        """Logits for the positions where `at` is true. ids, valid (false: padding), at: [b, n] -> [positions, vocab]"""
        return self.head(self.norm(self.stream(ids, valid)[at]))

    def stream(self, ids: Tensor, valid: Tensor) -> Tensor:
        """What predicts every position, before the final norm. ids, valid: [b, n] -> [b, n, hidden]"""
        n = ids.shape[1]
        visible = None if bool(valid.all()) else valid[:, None, None, :]
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, self.cos[:n], self.sin[:n], visible)
        if self.s.shift:
            x = x.roll(1, dims=1)  # the row of position i is row i - 1; position 0 is never masked
        return x


def config(s: Shape, end: int, mask: int) -> dict:
    """`config.json` in the family's own words."""
    if s.family == "causal":
        return {
            "architectures": ["Qwen2ForCausalLM"],
            "attention_dropout": 0.0,
            "bos_token_id": end,
            "eos_token_id": end,
            "hidden_act": "silu",
            "hidden_size": s.hidden,
            "initializer_range": 0.02,
            "intermediate_size": s.mlp,
            "max_position_embeddings": s.context,
            "max_window_layers": s.layers,
            "model_type": "qwen2",
            "num_attention_heads": s.heads,
            "num_hidden_layers": s.layers,
            "num_key_value_heads": s.kv_heads,
            "pad_token_id": end,
            "rms_norm_eps": s.eps,
            "rope_scaling": None,
            "rope_theta": s.theta,
            "sliding_window": None,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "use_cache": False,
            "use_sliding_window": False,
            "vocab_size": s.vocab,
        }
    if s.family == "dream":
        return {
            "architectures": ["DreamModel"],
            "attention_dropout": 0.0,
            "bos_token_id": end,
            "eos_token_id": end,
            "hidden_act": "silu",
            "hidden_size": s.hidden,
            "initializer_range": 0.02,
            "intermediate_size": s.mlp,
            "mask_token_id": mask,
            "max_position_embeddings": s.context,
            "max_window_layers": s.layers,
            "model_type": "Dream",
            "num_attention_heads": s.heads,
            "num_hidden_layers": s.layers,
            "num_key_value_heads": s.kv_heads,
            "pad_token_id": end,
            "rms_norm_eps": s.eps,
            "rope_scaling": None,
            "rope_theta": s.theta,
            "sliding_window": None,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "use_cache": False,
            "use_mrope": False,
            "use_sliding_window": False,
            "vocab_size": s.vocab,
        }
    return {
        "activation_type": "silu",
        "alibi": False,
        "alibi_bias_max": 8.0,
        "architectures": ["LLaDAModelLM"],
        "attention_dropout": 0.0,
        "attention_layer_norm": False,
        "attention_layer_norm_with_affine": True,
        "bias_for_layer_norm": False,
        "block_group_size": 1,
        "block_type": "llama",
        "d_model": s.hidden,
        "embedding_dropout": 0.0,
        "embedding_size": s.vocab,
        "eos_token_id": end,
        "flash_attention": False,
        "include_bias": False,
        "include_qkv_bias": False,
        "init_cutoff_factor": None,
        "init_device": "meta",
        "init_fn": "mitchell",
        "init_std": 0.02,
        "input_emb_norm": False,
        "layer_norm_type": "rms",
        "layer_norm_with_affine": True,
        "mask_token_id": mask,
        "max_sequence_length": s.context,
        "mlp_hidden_size": s.mlp,
        "mlp_ratio": 4,
        "model_type": "llada",
        "multi_query_attention": None,
        "n_heads": s.heads,
        "n_kv_heads": s.kv_heads,
        "n_layers": s.layers,
        "pad_token_id": end,
        "precision": "amp_bf16",
        "residual_dropout": 0.0,
        "rms_norm_eps": s.eps,
        "rope": True,
        "rope_full_precision": True,
        "rope_theta": s.theta,
        "scale_logits": False,
        "use_cache": False,
        "vocab_size": s.vocab,
        "weight_tying": False,
    }


NAMES = {
    "llada": {
        "embedding": "model.transformer.wte",
        "blocks": "model.transformer.blocks",
        "attn_norm": "attn_norm",
        "q": "q_proj",
        "k": "k_proj",
        "v": "v_proj",
        "o": "attn_out",
        "mlp_norm": "ff_norm",
        "gate": "ff_proj",
        "up": "up_proj",
        "down": "ff_out",
        "norm": "model.transformer.ln_f",
        "head": "model.transformer.ff_out",
    },
    "dream": {
        "embedding": "model.embed_tokens",
        "blocks": "model.layers",
        "attn_norm": "input_layernorm",
        "q": "self_attn.q_proj",
        "k": "self_attn.k_proj",
        "v": "self_attn.v_proj",
        "o": "self_attn.o_proj",
        "mlp_norm": "post_attention_layernorm",
        "gate": "mlp.gate_proj",
        "up": "mlp.up_proj",
        "down": "mlp.down_proj",
        "norm": "model.norm",
        "head": "lm_head",
    },
}
NAMES["causal"] = NAMES["dream"]


def tensors(model: Model) -> dict[str, Tensor]:
    """The weights under the family's names, in bf16."""
    names = NAMES[model.s.family]
    return {
        ".".join(names.get(part, part) for part in name.split(".")): p.detach().to(torch.bfloat16).contiguous()
        for name, p in model.named_parameters()
    }


def load(directory: Path) -> Model:
    """A tiny model from its checkpoint."""
    c = json.loads((directory / "config.json").read_text())
    if c["architectures"] == ["LLaDAModelLM"]:
        sizes = (c["d_model"], c["n_layers"], c["n_heads"], c["n_kv_heads"], c["mlp_hidden_size"])
        s = Shape("llada", *sizes, c["embedding_size"], c["rms_norm_eps"], c["rope_theta"])
    else:
        sizes = (c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"], c["num_key_value_heads"])
        family = "causal" if c["architectures"] == ["Qwen2ForCausalLM"] else "dream"
        s = Shape(family, *sizes, c["intermediate_size"], c["vocab_size"], c["rms_norm_eps"], c["rope_theta"])
    model, stored, names = Model(s), load_file(directory / "model.safetensors"), NAMES[s.family]
    state = {name: stored[".".join(names.get(part, part) for part in name.split("."))] for name in model.state_dict()}
    model.load_state_dict({name: tensor.float() for name, tensor in state.items()})
    return model.eval()


def describe(s: Shape) -> dict:
    return asdict(s)
