"""Runs PROTOCOL.md: `python3 measure.py COFILL > raw.jsonl`, then `python3 measure.py --table raw.jsonl`."""

import collections
import json
import subprocess
import sys

N, SAMPLER = 40, "topk:2+ad"


def cofill(*args: str) -> str:
    return subprocess.run([COFILL, *args], check=True, capture_output=True, text=True).stdout


def corpus(task: str) -> list[dict]:
    lines = cofill("mini", "corpus", "--task", task, "--split", "test", "--seed", "0", "-n", str(N)).splitlines()
    return [json.loads(line) for line in lines]


def generate(model: str, *args: str) -> dict:
    answer = json.loads(cofill("generate", "-m", model, "-s", SAMPLER, "--json", *args))
    return {key: answer.get(key) for key in ("tokens", "text", "nfe", "probes", "gaps", "ended", "right")}


def gaps(model: str, task: str) -> None:
    for example in corpus(task):
        lines = example["answer"].split("\n")
        for k in (1, 2):
            if len(lines) < k + 2:
                continue
            before, cut, after = "\n".join(lines[:1]), "\n".join(lines[1 : 1 + k]), "\n".join(lines[1 + k :])
            # No forward: the canvas is the text's tokens and one mask.
            true = len(generate(model, cut, "-n", "1", "--max-nfe", "0")["tokens"]) - 1
            row = {"what": "gap", "model": model, "task": task, "k": k, "true": true}
            for name, gap in (("auto", "auto"), ("told", str(true)), ("eight", "8")):
                answer = generate(model, "--template", f"{example['prompt']}{before}\n[MASK:{gap}]\n{after}")
                exact = answer["text"] == f"{example['prompt']}{example['answer']}"
                row[name] = {"exact": exact, "nfe": answer["nfe"], "probes": answer["probes"] or 0}
                if answer["gaps"]:
                    row[name]["length"] = answer["gaps"][0]["length"]
            print(json.dumps(row), flush=True)


def answers(model: str, task: str) -> None:
    for example in corpus(task):
        row = {"what": "answer", "model": model, "task": task}
        for name, args in (("usual", []), ("auto", ["-n", "auto", "--max-length", "128"])):
            answer = generate(model, example["prompt"], *args)
            row[name] = {key: answer[key] for key in ("right", "nfe", "ended")} | {"canvas": len(answer["tokens"])}
        print(json.dumps(row), flush=True)


def table(path: str) -> None:
    rows = [json.loads(line) for line in open(path)]
    groups = collections.defaultdict(list)
    for row in rows:
        groups[(row["what"], row["model"], row["task"])].append(row)
    mean = lambda values: sum(values) / max(len(values), 1)
    share = lambda values: f"{100 * mean([bool(v) for v in values]):.0f} %"
    print("| model | task | gaps | true length | auto finds it | mean distance | probes | exact: auto | exact: told | exact: 8 | NFE auto | NFE told |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for (what, model, task), all_ in groups.items():
        if what != "gap":
            continue
        found = [row["auto"]["length"] - row["true"] for row in all_]
        true = sorted({row["true"] for row in all_})
        print(f"| {model} | {task} | {len(all_)} | {true[0]} to {true[-1]} | {share([f == 0 for f in found])} | {mean([abs(f) for f in found]):.1f} | {mean([row['auto']['probes'] for row in all_]):.1f} | "
              + " | ".join(share([row[name]["exact"] for row in all_]) for name in ("auto", "told", "eight"))
              + f" | {mean([row['auto']['nfe'] for row in all_]):.1f} | {mean([row['told']['nfe'] for row in all_]):.1f} |")
    print("\n| model | task | n | right: usual | right: auto | NFE usual | NFE auto | auto ended by end of text | auto full |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (what, model, task), all_ in groups.items():
        if what != "answer":
            continue
        ended = collections.Counter(row["auto"]["ended"] for row in all_)
        print(f"| {model} | {task} | {len(all_)} | {share([row['usual']['right'] for row in all_])} | {share([row['auto']['right'] for row in all_])} | "
              f"{mean([row['usual']['nfe'] for row in all_]):.1f} | {mean([row['auto']['nfe'] for row in all_]):.1f} | {ended['eos']} | {ended['full']} |")


if __name__ == "__main__":
    if sys.argv[1] == "--table":
        table(sys.argv[2])
        sys.exit()
    COFILL = sys.argv[1]
    for model in ("tiny-llada", "tiny-dream"):
        for task in ("chain", "sums", "code"):
            gaps(model, task)
        for task in ("chain", "sums", "code", "sudoku"):
            answers(model, task)
