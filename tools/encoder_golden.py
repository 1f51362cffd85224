"""What encoder_fixture.py and real_weights.py share: numbers of a transformers model as a golden file for `cofill models verify`.

The reference is transformers' own class in f64 (rotary angles are f32 there, too) with `attn_implementation="eager"`, one sequence at a time, nothing padded.
"""

import json

import numpy as np
import torch


def write_safetensors(path, tensors):
    """Without the library, so that who converts weights needs nothing but NumPy."""
    kinds = {np.dtype(np.float32): "F32", np.dtype(np.int64): "I64"}
    header, offset = {}, 0
    for name, tensor in tensors.items():
        ends = [offset, offset + tensor.nbytes]
        header[name] = {"dtype": kinds[tensor.dtype], "shape": list(tensor.shape), "data_offsets": ends}
        offset += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(np.ascontiguousarray(tensor).tobytes() for tensor in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


@torch.no_grad()
def forward(model, tokens):
    """Logits [length, vocab] and attention [layers, heads, length, length] of one sequence."""
    out = model(input_ids=torch.tensor([tokens]), output_attentions=True)
    return out.logits[0].double().numpy(), torch.stack(out.attentions)[:, 0].double().numpy()


def golden(model, cases, never):
    """The golden numbers of named sequences; ids of `never` have no probability."""
    out = {}
    for name, tokens in cases.items():
        logits, attention = forward(model, tokens)
        allowed = logits.copy()
        allowed[:, never] = -np.inf
        p = np.exp(allowed - allowed.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        entropy = -np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0), axis=-1)
        out[f"{name}.input_ids"] = np.array([tokens], dtype=np.int64)
        out[f"{name}.logits"] = logits[None]
        out[f"{name}.confidence"] = p.max(axis=-1)[None]
        out[f"{name}.entropy"] = entropy[None]
        out[f"{name}.argmax"] = p.argmax(axis=-1)[None].astype(np.int64)
        out[f"{name}.attn_mean"] = attention.mean(axis=1)[:, None]  # [layers, 1, length, length]
    return {name: value if value.dtype == np.int64 else value.astype(np.float32) for name, value in out.items()}
