"""Writes the tokenizer of the tiny models: `tokenizer.json` and `tokenizer_config.json`.

    cofill mini corpus -n 50000 --seed 1 | python tools/train/tokenizer.py --mask "<|mdm_mask|>" models/tiny-llada

Text is cut by CUT, and a piece that is in the vocabulary is one token; anything else falls apart into bytes, each of which has a
token, so every text comes back as it was. There are no merges: with `ignore_merges` the whole piece is looked up first, and
the pieces of the mini tasks are a closed list. A space goes to the word before it when a number follows: numbers are bare,
and 7 is the same token in `has 7`, `7+5` and `f(7)`.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from tokenizers import Regex, pre_tokenizers

CUT = "|".join(
    [
        r"(?<=\p{N}) \p{N}(?!\p{N})",  # 1 2 3: one token a cell, in grids
        r"\p{N}{1,2}",
        r" ?\p{L}+(?: (?=\p{N}))?",
        r" ?[^\s\p{L}\p{N}]+(?: (?=\p{N}))?",
        r"\s",
    ]
)
END = "<|endoftext|>"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mask", required=True, help="how the family writes its mask")
    parser.add_argument("dir", type=Path)
    args = parser.parse_args()

    split = pre_tokenizers.Split(Regex(CUT), behavior="isolated", invert=False)
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    cut = pre_tokenizers.Sequence([split, to_bytes])
    pieces: Counter[str] = Counter()
    for line in sys.stdin:
        example = json.loads(line)
        # The gaps of an infill prompt are positions, not text; what stands around them is in the answer.
        text = example["answer"] if example["length"] == 0 else example["prompt"] + example["answer"]
        pieces.update(piece for piece, _ in cut.pre_tokenize_str(text))

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())  # a character for each of the 256 bytes
    numbers = [str(n) for n in range(100)]
    words = sorted(pieces.keys() - set(alphabet) - set(numbers))
    vocab = {token: i for i, token in enumerate(dict.fromkeys(alphabet + numbers + words))}
    special = {END: len(vocab), args.mask: len(vocab) + 1}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}

    args.dir.mkdir(parents=True, exist_ok=True)
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": text, **flags} for text, i in special.items()],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": CUT}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
            ],
        },
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": True,
            "vocab": vocab,
            "merges": [],
        },
    }
    config = {
        "add_bos_token": False,
        "eos_token": END,
        "pad_token": END,
        "mask_token": args.mask,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "added_tokens_decoder": {str(i): {"content": text, **flags} for text, i in special.items()},
    }
    for name, value in [("tokenizer.json", tokenizer), ("tokenizer_config.json", config)]:
        (args.dir / name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(vocab) + 2} ids, {len(words)} of them words", file=sys.stderr)


if __name__ == "__main__":
    main()
