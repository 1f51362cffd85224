#!/usr/bin/env python3
"""Writes fixtures/statistics.json: Spearman correlations and KL divergences as SciPy computes them.

    python -m venv /tmp/scipy && /tmp/scipy/bin/pip install scipy
    /tmp/scipy/bin/python tools/statistics_fixture.py > fixtures/statistics.json

Rust reads the values back exactly: JSON numbers are the shortest that round-trip. Distributions are float32, as the engine has them;
SciPy works on them in float64, and like ours brings both to sum 1 first.
"""

import json
import sys
import warnings

import numpy as np
import scipy
from scipy.stats import entropy, spearmanr

random = np.random.default_rng(7)


def spearman_case(what, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of constant input
        rho = float(spearmanr(x, y).statistic)
    return {"what": what, "x": [float(v) for v in x], "y": [float(v) for v in y], "rho": None if np.isnan(rho) else rho}


def softmax32(logits):
    e = np.exp(logits - logits.max())
    return (e / e.sum()).astype(np.float32)


def kl_case(what, p, q):
    p, q = np.asarray(p, np.float32), np.asarray(q, np.float32)
    value = float(entropy(p.astype(np.float64), q.astype(np.float64)))
    assert np.isfinite(value)
    return {"what": what, "p": [float(v) for v in p], "q": [float(v) for v in q], "kl": value}


n = random.normal
spearman = [
    spearman_case("seven pairs, no ties", n(size=7), n(size=7)),
    spearman_case("seven pairs, ties in x", [1, 2, 2, 3, 3, 3, 4], n(size=7)),
    spearman_case("seven pairs, ties in both", [0, 0, 1, 1, 2, 2, 2], [5, 5, 5, 1, 1, 2, 2]),
    spearman_case("all but one tied", [0, 0, 0, 0, 0, 0, 1], n(size=7)),
    spearman_case("constant", [3, 3, 3, 3], [1, 2, 3, 4]),
    spearman_case("two pairs", [1, 2], [2, 1]),
    spearman_case("magnitudes far apart", [1e-300, 1e-12, 1.0, 1e12, 1e300], [1e-9, 5e-9, 4e-9, 1.0, 2.0]),
    spearman_case("two hundred, few values", random.integers(0, 5, 200), random.integers(0, 4, 200)),
]
x = n(size=60)
spearman.append(spearman_case("correlated", x, x + 0.5 * n(size=60)))

p, q = softmax32(3 * n(size=40)), softmax32(3 * n(size=40))
near = softmax32(np.log(p.astype(np.float64)) + 1e-3 * n(size=40))
kl = [
    kl_case("two coins", [0.5, 0.5], [0.25, 0.75]),
    kl_case("zeros in p", [0.0, 0.25, 0.75], [0.5, 0.25, 0.25]),
    kl_case("forty tokens", p, q),
    kl_case("the other way", q, p),
    kl_case("hardly changed", p, near),
    kl_case("sharp against flat", softmax32(20 * n(size=40)), softmax32(0.1 * n(size=40))),
    kl_case("not quite summing to one", 1.0005 * p, 0.9995 * q),
]

made_by = f"tools/statistics_fixture.py, SciPy {scipy.__version__}, NumPy {np.__version__}"
lines = lambda cases: ",\n".join(json.dumps(case) for case in cases)
sys.stdout.write(f'{{"made_by": {json.dumps(made_by)},\n"spearman": [\n{lines(spearman)}],\n"kl": [\n{lines(kl)}]}}\n')
