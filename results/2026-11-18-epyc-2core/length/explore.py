"""After the fact, and so no part of PROTOCOL.md: the same gaps (20 prompts a task) by the same climb on the plain mean confidence, without dividing by B(L).
`python3 explore.py COFILL > explore.jsonl`"""

import json
import subprocess
import sys


def cofill(*args: str) -> str:
    return subprocess.run([COFILL, *args], check=True, capture_output=True, text=True).stdout


def tokens(model: str, *args: str) -> list[int]:
    return json.loads(cofill("generate", "-m", model, "--json", "--max-nfe", "0", *args))["tokens"]


def climb(score) -> tuple[int, int]:
    """As the engine climbs, one length at a time."""
    best, length, asked = score(8), 8, 1
    for step in (1, -1):
        at, falls = 8, 0
        while falls < 4 and 1 <= at + step <= 64:
            at += step
            asked += 1
            falls += 1
            if score(at) > best:
                best, length, falls = score(at), at, 0
    return length, asked


COFILL = sys.argv[1]
for model in ("tiny-llada", "tiny-dream"):
    for task in ("chain", "sums", "code"):
        lines = cofill("mini", "corpus", "--task", task, "--split", "test", "--seed", "0", "-n", "20").splitlines()
        for example in map(json.loads, lines):
            answer = example["answer"].split("\n")
            for k in (1, 2):
                if len(answer) < k + 2:
                    continue
                cut, after = "\n".join(answer[1 : 1 + k]), "\n".join(answer[1 + k :])
                true = len(tokens(model, cut, "-n", "1")) - 1
                both = tokens(model, "--template", f"{example['prompt']}{answer[0]}\n[MASK:1]\n{after}")
                mask = tokens(model, "--tokens", "M")[0]
                hole = both.index(mask)
                known: dict[int, float] = {}

                def plain(length: int) -> float:
                    if length not in known:
                        ids = [*map(str, both[:hole]), *["M"] * length, *map(str, both[hole + 1 :])]
                        rows = json.loads(cofill("probe", "-m", model, "--json", "--tokens", ",".join(ids)))["rows"]
                        known[length] = sum(row["confidence"] for row in rows) / len(rows)
                    return known[length]

                length, asked = climb(plain)
                print(json.dumps({"model": model, "task": task, "k": k, "true": true, "length": length, "probes": asked, "phi_true": plain(true), "phi_found": plain(length)}), flush=True)
