#!/usr/bin/env python3
"""Writes fixtures/math_pairs.jsonl: pairs of LaTeX answers, and whether sympy finds them equal as lm-eval-harness 0.4.8 asks it.

    python -m venv /tmp/sympy && /tmp/sympy/bin/pip install sympy==1.14.0 antlr4-python3-runtime==4.11.0
    /tmp/sympy/bin/python tools/math_fixture.py > fixtures/math_pairs.jsonl

The formulas were thought up for this file; none is a benchmark's. Each is paired with what a model might write for it: the same in other words, a
rounded value, one thing more, one thing less.
"""

import json
import signal

import sympy
from sympy.parsing.latex import parse_latex

FORMULAS = r"""
23
-417
0.125
31,250
\frac{19}{7}
-\frac{5}{64}
\frac{x}{9}
7\frac{2}{3}
8^{7}
3^{-4}
\sqrt{47}
11\sqrt{6}
\frac{5\sqrt{7}}{12}
\sqrt[5]{90}
\frac{1}{4-\sqrt{3}}
\sqrt{29-12\sqrt{5}}
\pi^2
\frac{13\pi}{24}
45\pi-81
17-4i
\frac{2+9i}{5}
k^3-7k+2
(y-6)(y+11)
x(x+4)(x-9)
4m^2n-6mn^3
\frac{w^2-49}{w-7}
\frac{u+3}{u^2+u-6}
\frac{3}{t}+\frac{t}{3}
(a-b)^4
\left(2p+q\right)^3
2^{r+5}
e^{3s}
\sin^2(z)
\cos(2z)
\tan(\frac{\pi}{8})
\log_3(45)
\ln(w+6)
\binom{13}{4}
9!
|v-5|
\lfloor 8.7\rfloor
x_1+x_2
h=14
5<x<12
x\ge6
(4,-9)
[2,8)
1,6,8
\{3,7\}
73_9
66\%
80^\circ
\text{odd}
QRS
n\pm7
\infty
\begin{pmatrix}6\\1\end{pmatrix}
""".split("\n")[1:-1]


def late(*_):
    raise TimeoutError


def equal(given, gold):
    """Whether the difference simplifies to 0. Whatever goes wrong is a no, as in the harness."""
    signal.alarm(5)
    try:
        return bool(sympy.simplify(parse_latex(given) - parse_latex(gold)) == 0)
    except TimeoutError:
        raise SystemExit(f"{given!r} and {gold!r} take sympy longer than 5 s: leave such a formula out") from None
    except Exception:
        return False
    finally:
        signal.alarm(0)


def others(gold):
    """The kinds of answers that a model gives, by name."""
    yield "identical", gold
    yield "plus one", f"{gold}+1"
    yield "negated", f"-({gold})"
    yield "in parentheses", f"({gold})"
    yield "one more in a list", f"{gold},13"
    yield "as an equation", f"y={gold}"
    if r"\frac" in gold:
        yield "large fraction", gold.replace(r"\frac", r"\dfrac")
    try:
        value = parse_latex(gold)
        yield "expanded", sympy.latex(sympy.expand(value))
        yield "factored", sympy.latex(sympy.factor(value))
        yield "simplified", sympy.latex(sympy.simplify(value))
        if value.is_number and value.is_real:
            yield "3 decimals", f"{float(value):.3f}"
            yield "12 decimals", f"{float(value):.12f}"
            yield "doubled and halved", rf"\frac{{2({gold})}}{{2}}"
    except Exception:
        pass  # no formula to sympy: a set, an inequality, a word


signal.signal(signal.SIGALRM, late)
seen = set()
for gold in FORMULAS:
    for kind, given in others(gold):
        if (given, gold) not in seen:
            seen.add((given, gold))
            print(json.dumps({"kind": kind, "given": given, "gold": gold, "is_equiv": equal(given, gold)}))
