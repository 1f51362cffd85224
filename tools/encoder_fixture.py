"""Makes fixtures/encoders: a tiny random BERT, ALBERT, RoBERTa and ModernBERT, and what transformers' own classes answer.

    python -m venv v && v/bin/pip install torch==2.15.0 transformers==5.23.0 numpy==2.4.6
    v/bin/python tools/encoder_fixture.py fixtures/encoders

Checkpoints are written by transformers itself (`save_pretrained`), so that their files are what published ones look like. Every number
that could hide a mistake by being 0, 1 or equal to another is something else: norms, biases, tables, the width of a head.
"""

import json
import pathlib
import sys

import torch
import transformers as t
from encoder_golden import golden, write_safetensors

# Words of the vocabularies; the rest of a tokenizer is its family's.
WORDS = ["C", "O", "N", "Cl", "Br", "[nH]", "c", "n", "1", "2", "=", "(", ")", ".", ">>", "[Na+]", "%10", "un", "##able", "read"]
BRACKETED = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ANGLED = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]

SHAPE = {"hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 20}

# ModernBERT has four layers, of which 0 and 3 see everything and the others three positions to either side.
MODELS = {
    "bert": (t.BertForMaskedLM, t.BertConfig(**SHAPE, max_position_embeddings=24, type_vocab_size=2, layer_norm_eps=1e-12)),
    "albert": (
        t.AlbertForMaskedLM,
        t.AlbertConfig(
            **SHAPE | {"num_hidden_layers": 3}, embedding_size=8, max_position_embeddings=24, hidden_act="gelu_new", layer_norm_eps=1e-12
        ),
    ),
    "roberta": (t.RobertaForMaskedLM, t.RobertaConfig(**SHAPE, max_position_embeddings=24, type_vocab_size=1, layer_norm_eps=1e-5)),
    "modernbert": (
        t.ModernBertForMaskedLM,
        t.ModernBertConfig(
            **SHAPE | {"num_hidden_layers": 4}, max_position_embeddings=24, local_attention=6, global_attn_every_n_layers=3, norm_eps=1e-5
        ),
    ),
}

SPLIT = r"\[[^\]]+\]|Br|Cl|>>|%[0-9]{2}|[A-Za-z0-9=().]"


def tokenizer(name, words):
    """A tokenizer.json: WordPiece for BERT, whole words cut by an expression for the others."""
    special = [word for word in words if word in BRACKETED + ANGLED]
    begin, end, unknown = ("<s>", "</s>", "<unk>") if name == "roberta" else ("[CLS]", "[SEP]", "[UNK]")
    ids = {word: i for i, word in enumerate(words)}
    frame = [{"SpecialToken": {"id": begin, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": end, "type_id": 0}}]
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    json = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": ids[word], "content": word, **added} for word in special if not word.startswith("[unused")],
        "normalizer": None,
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": frame,
            "pair": frame,
            "special_tokens": {word: {"id": word, "ids": [ids[word]], "tokens": [word]} for word in (begin, end)},
        },
        "decoder": {"type": "Fuse"},
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": unknown},
    }
    if name == "bert":
        json |= {
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": False},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "vocab": ids, "unk_token": unknown, "continuing_subword_prefix": "##", "max_input_chars_per_word": 100},
        }
    return json


def perturb(model, seed):
    """Random numbers in every parameter. Norms stay near 1, matrices keep activations at their size."""
    generator = torch.Generator().manual_seed(seed)

    def normal(like):
        return torch.randn(like.shape, generator=generator)

    for name, parameter in model.named_parameters():
        if "norm" in name.lower() and name.endswith("weight"):
            parameter.data = 1 + 0.3 * normal(parameter)
        elif parameter.dim() == 1:
            parameter.data = 0.3 * normal(parameter)
        elif "embeddings" in name:
            parameter.data = normal(parameter)
        else:
            parameter.data = normal(parameter) / parameter.shape[1] ** 0.5


def main(folder):
    for seed, (name, (kind, config)) in enumerate(MODELS.items(), start=30):
        words = (ANGLED if name == "roberta" else BRACKETED) + WORDS
        ids = {word: i for i, word in enumerate(words)}
        special = [i for word, i in ids.items() if word in BRACKETED + ANGLED]
        frame = ("<s>", "</s>", "<pad>", "<mask>") if name == "roberta" else ("[CLS]", "[SEP]", "[PAD]", "[MASK]")
        begin, end, pad, mask = (ids[word] for word in frame)
        # One id more than there are tokens: it is never proposed either.
        config.vocab_size, config.pad_token_id = len(words) + 1, pad
        config.bos_token_id = config.cls_token_id = begin
        config.eos_token_id = config.sep_token_id = end
        config.dtype = "float32"
        torch.manual_seed(seed)
        config._attn_implementation = "eager"
        model = kind(config).eval()
        perturb(model, seed)
        model.tie_weights()
        words_of = [ids[word] for word in WORDS]
        cases = {
            "suffix": [begin, *words_of[:5], mask, mask, mask, end],
            "infill": [begin, mask, words_of[3], mask, *words_of[7:15], mask, mask, mask, words_of[0], words_of[1], end],
            "padded": [begin, words_of[2], pad, mask, pad, words_of[9], mask, end],
            "one": [mask],
        }
        out = folder / name
        out.mkdir(parents=True, exist_ok=True)
        model.save_pretrained(out)
        (out / "generation_config.json").unlink(missing_ok=True)
        (out / "tokenizer.json").write_text(json.dumps(tokenizer(name, words), separators=(",", ":")) + "\n")
        never = [*special, len(words)]
        numbers = golden(model.double(), cases, never)
        write_safetensors(out / "golden.safetensors", numbers)
        size = sum(file.stat().st_size for file in out.iterdir())
        print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters, {size} bytes, logits {numbers['infill.logits'].std():.2f}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
