"""Makes fixtures/qwen: two tiny random checkpoints of dllm's Qwen conversions, and what they must answer.

    python tools/qwen_fixture.py fixtures/qwen

Needs NumPy only. The forward pass is written from the architecture's description (specs/models.md), in f64 but for the rotary
angles, which the reference classes compute in f32. Nothing of it is shared with the engine it checks. Every number that could hide
a mistake by being 1, 0 or a multiple of another is something else: norm weights, biases, the width of a head, theta.
"""

import json
import pathlib
import sys

import numpy as np

VOCAB, MASK, EOS = 40, 37, 38

COMMON = {
    "hidden_act": "silu",
    "max_position_embeddings": 64,
    "vocab_size": VOCAB,
    "mask_token_id": MASK,
    "eos_token_id": EOS,
    "use_sliding_window": False,
    "num_hidden_layers": 2,
    "layer_types": ["full_attention"] * 2,
}

CONFIGS = {
    # Biases, tied, heads as wide as the width divided by their number; written as transformers 4 does.
    "qwen2": COMMON
    | {
        "architectures": ["A2DQwen2LMHeadModel"],
        "model_type": "a2d-qwen2",
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "rope_scaling": None,
        "rope_theta": 1e4,
        "sliding_window": None,
        "tie_word_embeddings": True,
    },
    # Normalised q and k, no biases, untied, wider heads, three query heads to a key head; written as transformers 5 does.
    "qwen3": COMMON
    | {
        "architectures": ["A2DQwen3LMHeadModel"],
        "model_type": "a2d-qwen3",
        "attention_bias": False,
        "head_dim": 10,
        "hidden_size": 16,
        "intermediate_size": 28,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"},
        "tie_word_embeddings": False,
    },
}

# Masks in a row and alone, first and last; a canvas without one; a canvas of one position.
CANVASES = {
    "suffix": [5, 17, 30, 2, 2, MASK, MASK, MASK, MASK],
    "infill": [MASK, 9, MASK, 21, 33, MASK, MASK, 4, 12, 0, MASK, 39, MASK],
    "whole": [1, 2, 3, 36, 38],
    "one": [7],
}


def head_dim(config):
    return config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])


def weights(config, seed):
    rng = np.random.default_rng(seed)
    hidden, mlp, dim = config["hidden_size"], config["intermediate_size"], head_dim(config)
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    qwen3 = "attention_bias" in config

    def matrix(rows, columns, scale=1.5):
        return rng.standard_normal((rows, columns)) * scale / np.sqrt(columns)

    def norm(width):
        return rng.uniform(0.5, 1.5, width)

    # A tied head must give logits of the size of an untied one's.
    w = {"model.embed_tokens.weight": matrix(VOCAB, hidden, 4.0)}
    for i in range(config["num_hidden_layers"]):
        at = f"model.layers.{i}."
        w[at + "input_layernorm.weight"] = norm(hidden)
        for name, out in [("q", heads * dim), ("k", kv_heads * dim), ("v", kv_heads * dim)]:
            w[at + f"self_attn.{name}_proj.weight"] = matrix(out, hidden)
            if not qwen3:
                w[at + f"self_attn.{name}_proj.bias"] = rng.standard_normal(out) * 0.5
        if qwen3:
            w[at + "self_attn.q_norm.weight"] = norm(dim)
            w[at + "self_attn.k_norm.weight"] = norm(dim)
        w[at + "self_attn.o_proj.weight"] = matrix(hidden, heads * dim)
        w[at + "post_attention_layernorm.weight"] = norm(hidden)
        w[at + "mlp.gate_proj.weight"] = matrix(mlp, hidden)
        w[at + "mlp.up_proj.weight"] = matrix(mlp, hidden)
        w[at + "mlp.down_proj.weight"] = matrix(hidden, mlp)
    w["model.norm.weight"] = norm(hidden)
    if not config["tie_word_embeddings"]:
        w["lm_head.weight"] = matrix(VOCAB, hidden, 4.0)
    return {name: tensor.astype(np.float32) for name, tensor in w.items()}


def rms(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def rotate(x, theta):
    """x: [positions, dim]; entries j and j + dim/2 are a pair."""
    n, dim = x.shape
    inverse = (1.0 / theta ** (np.arange(0, dim, 2, dtype=np.float32) / np.float32(dim))).astype(np.float32)
    angle = np.arange(n, dtype=np.float32)[:, None] * inverse[None, :]
    cos, sin = np.cos(angle).astype(np.float64), np.sin(angle).astype(np.float64)
    a, b = x[:, : dim // 2], x[:, dim // 2 :]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=1)


def forward(config, weights, tokens):
    """Logits [positions, vocab] and head-mean attention [layers, query, key]."""
    w = {name: tensor.astype(np.float64) for name, tensor in weights.items()}
    eps, dim = config["rms_norm_eps"], head_dim(config)
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    theta = config["rope_parameters"]["rope_theta"] if "rope_parameters" in config else config["rope_theta"]
    x = w["model.embed_tokens.weight"][tokens]
    means = []
    for i in range(config["num_hidden_layers"]):
        at = f"model.layers.{i}."

        def project(name, h):
            return h @ w[f"{at}self_attn.{name}_proj.weight"].T + w.get(f"{at}self_attn.{name}_proj.bias", 0.0)

        def prepare(t, norm):
            weight = w.get(f"{at}self_attn.{norm}.weight")
            return rotate(t if weight is None else rms(t, weight, eps), theta)

        h = rms(x, w[at + "input_layernorm.weight"], eps)
        q, k, v = project("q", h), project("k", h), project("v", h)
        mixed, mean = [], 0.0
        for head in range(heads):
            own, shared = slice(head * dim, (head + 1) * dim), head // (heads // kv_heads)
            shared = slice(shared * dim, (shared + 1) * dim)
            p = softmax(prepare(q[:, own], "q_norm") @ prepare(k[:, shared], "k_norm").T / np.sqrt(dim))
            mean = mean + p / heads
            mixed.append(p @ v[:, shared])
        means.append(mean)
        x = x + project("o", np.concatenate(mixed, axis=1))
        h = rms(x, w[at + "post_attention_layernorm.weight"], eps)
        gate = h @ w[at + "mlp.gate_proj.weight"].T
        h = gate / (1.0 + np.exp(-gate)) * (h @ w[at + "mlp.up_proj.weight"].T)
        x = x + h @ w[at + "mlp.down_proj.weight"].T
    x = rms(x, w["model.norm.weight"], eps)
    head = w["model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"]
    return x @ head.T, np.stack(means)


def statistics(logits):
    """Confidence and entropy of every row: of the full softmax, the mask never being the proposal."""
    p = softmax(logits)
    entropy = -np.sum(p * np.log(p), axis=-1)
    p[:, MASK] = 0.0
    return p.argmax(axis=-1), p.max(axis=-1), entropy


def expected(config, weights):
    out = {}
    for name, tokens in CANVASES.items():
        logits, attention = forward(config, weights, tokens)
        out[f"{name}.tokens"] = np.array(tokens)
        out[f"{name}.logits"] = logits  # of each row, before any shift
        out[f"{name}.attention"] = attention
        # Under the shift, row i - 1 predicts position i, and row 0 itself as well.
        for variant, rows in [("plain", logits), ("shifted", np.concatenate([logits[:1], logits[:-1]]))]:
            token, confidence, entropy = statistics(rows)
            out[f"{name}.{variant}.token"] = token
            out[f"{name}.{variant}.confidence"] = confidence
            out[f"{name}.{variant}.entropy"] = entropy
    return {name: np.asarray(value, dtype=np.float32) for name, value in out.items()}


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + tensor.nbytes]}
        offset += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(np.ascontiguousarray(tensor).tobytes() for tensor in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def main(folder):
    for seed, (name, config) in enumerate(CONFIGS.items(), start=20):
        out = folder / name
        out.mkdir(parents=True, exist_ok=True)
        tensors = weights(config, seed)
        (out / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        write_safetensors(out / "model.safetensors", tensors)
        write_safetensors(out / "expected.safetensors", expected(config, tensors))
        for canvas, tokens in CANVASES.items():
            _, confidence, _ = statistics(forward(config, tensors, tokens)[0])
            print(f"{name} {canvas}: confidence {confidence.min():.3f} to {confidence.max():.3f}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
