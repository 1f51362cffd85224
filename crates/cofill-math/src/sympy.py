"""Judges MATH answers with sympy, as lm-eval-harness 0.4.8 does; started by cofill's `--math sympy`.

Says hello with its versions (or what is missing), then answers one JSON line per JSON line:
{"given": LATEX, "gold": LATEX} -> {"equiv": BOOL}.
"""

import sys

sys.path[:] = [folder for folder in sys.path if folder]  # No module of the current folder takes sympy's place.

import json
import signal

SECONDS = 5  # The harness's limit for one pair, both readings included.


class Late(Exception):
    pass


def ring(signum, frame):
    raise Late


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def start():
    """The versions at work, after one formula has been read for good measure."""
    from importlib.metadata import version

    import sympy
    from sympy.parsing.latex import parse_latex

    parse_latex("1")  # Raises ImportError unless the antlr4 runtime is there and of the right version.
    return {
        "python": sys.version.split()[0],
        "sympy": sympy.__version__,
        "antlr4": version("antlr4-python3-runtime"),
    }


def equivalent(given, gold):
    """Whether the difference simplifies to 0. Whatever goes wrong, lateness included, is a no."""
    import sympy
    from sympy.parsing.latex import parse_latex

    signal.signal(signal.SIGALRM, ring)
    try:
        signal.alarm(SECONDS)
        try:
            return bool(sympy.simplify(parse_latex(given) - parse_latex(gold)) == 0)
        finally:
            signal.alarm(0)
    except Exception:
        return False


def main():
    try:
        hello = start()
    except Exception as error:
        say({"error": f"{type(error).__name__}: {error}"})
        return
    try:
        import resource

        # An answer may ask for a number that fills the machine; it gets a MemoryError instead, which is a no.
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    except (ImportError, ValueError, OSError):
        pass
    say(hello)
    for line in sys.stdin:
        pair = json.loads(line)
        say({"equiv": equivalent(pair["given"], pair["gold"])})


main()
