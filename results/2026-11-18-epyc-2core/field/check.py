"""CLAD and Fast-dLLM++ once more, in plain Python, against `cofill select` on random steps: python3 check.py COFILL"""

import json
import random
import subprocess
import sys


def surest_first(c):
    return sorted(range(len(c)), key=lambda i: (-c[i], i))


def clad(c, a, tau):
    """The positions CLAD commits, ascending; a block as long as the step."""
    n = len(c)
    sure = [i for i in range(n) if c[i] >= tau] or surest_first(c)[:1]
    spans = []
    for i in sure:
        if spans and spans[-1][-1] == i - 1:
            spans[-1].append(i)
        else:
            spans.append([i])
    if len(spans) == 1:
        return spans[0]
    k = range(len(spans))

    def one_way(s, t):
        return max(sum(max(a[i][j], a[j][i]) for j in spans[t]) / len(spans[t]) for i in spans[s])

    tie = [[0.0 if s == t else max(one_way(s, t), one_way(t, s)) for t in k] for s in k]
    mean = [sum(row) / (len(spans) - 1) for row in tie]
    top = [max((t for t in k if t != s), key=lambda t: (tie[s][t], -t)) for s in k]
    waits = set()
    for s in k:
        t = top[s]
        strong = tie[s][t] >= 1.2 / n if len(spans) == 2 else tie[s][t] >= max(mean[s], mean[t])
        if s < t and top[t] == s and strong:
            waits.add(t if len(spans[s]) >= len(spans[t]) else s)
    return sorted(i for s in k if s not in waits for i in spans[s])


def profile(c, delta):
    """The positions Fast-dLLM++ commits, in order: as many ranks as have L - U > delta, and the first."""
    order, total, kept = surest_first(c), 0.0, 0
    for rank, i in enumerate(order):
        total += c[i]
        lower, upper = total - rank, 1 - c[i]
        kept += rank == 0 or lower - upper > delta
    return order[:kept]


def main():
    draw = random.Random(5)
    asked, want = [], []
    for _ in range(4000):
        n, coarse = draw.randint(1, 16), draw.random() < 0.3

        def number(x):
            return round(16 * x) / 16 if coarse else x

        c = [number(draw.random() ** 0.4) for _ in range(n)]
        a = [[number(draw.random() / 2) if draw.random() < 0.5 else 0.0 for _ in range(n)] for _ in range(n)]
        tau, delta = draw.choice([0.5, 0.625, 0.75]), draw.choice([0, 0.125, 0.25, 0.5, -1, -3])
        asked += [{"sampler": f"clad:{tau}", "confidence": c, "attention": a}]
        asked += [{"sampler": f"fast-profile:{1 - delta}", "confidence": c}]
        want += [clad(c, a, tau), profile(c, delta)]
    lines = "\n".join(map(json.dumps, asked)) + "\n"
    out = subprocess.run([sys.argv[1], "select"], input=lines, capture_output=True, text=True, check=True).stdout
    got = [json.loads(line)["selected"] for line in out.splitlines()]
    differ = sum(g != w for g, w in zip(got, want, strict=True))
    print(f"{len(got)} steps, {differ} differ")


main()
