"""The package itself: what it imports, what its stubs say, the command it installs, the examples in its docstrings."""

from __future__ import annotations

import ast
import doctest
import inspect
import pathlib
import re
import subprocess
import sys

import pytest

import cofill
from cofill import _cofill

PACKAGE = pathlib.Path(cofill.__file__).parent


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, timeout=300)


def test_importing_it_imports_neither_torch_nor_the_harness() -> None:
    heavy = ("torch", "lm_eval", "pandas", "polars", "transformers", "datasets", "tqdm")
    said = run("-c", f"import cofill, sys; print([name for name in {heavy!r} if name in sys.modules])")
    assert said.stdout == "[]\n", said.stderr


def test_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists() and (PACKAGE / "_cofill.pyi").exists()


def test_every_public_name_is_there() -> None:
    for name in cofill.__all__:
        if name not in cofill._LAZY:
            assert hasattr(cofill, name), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        cofill.nothing
    assert "generate" in dir(cofill)


def stub() -> dict[str, dict[str, ast.AST]]:
    """Classes of the stub and their members; functions under an empty name."""
    tree = ast.parse((PACKAGE / "_cofill.pyi").read_text())
    members: dict[str, dict[str, ast.AST]] = {"": {}}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            members[""][node.name] = node
        elif isinstance(node, ast.ClassDef):
            members[node.name] = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    return members


def test_the_stubs_name_what_is_there_and_nothing_else() -> None:
    members = stub()
    classes = {name for name, value in vars(_cofill).items() if inspect.isclass(value)}
    functions = {name for name, value in vars(_cofill).items() if inspect.isbuiltin(value)}
    assert classes == set(members) - {""} and functions == set(members[""])
    for name in classes:
        public = {member for member in vars(getattr(_cofill, name)) if not member.startswith("_")}
        assert public == {member for member in members[name] if not member.startswith("_")}, name


def test_signatures_of_the_stubs_are_those_at_run_time() -> None:
    def keywords(node: ast.FunctionDef) -> list[str]:
        arguments = node.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        return [name for name in names if name not in ("self", "cls")]

    for owner, members in stub().items():
        for name, node in members.items():
            target = getattr(getattr(_cofill, owner) if owner else _cofill, name)
            if name.startswith("_") or isinstance(node, ast.FunctionDef) and node.decorator_list:
                continue
            at_run_time = [p for p in inspect.signature(target).parameters.values() if p.kind is not p.VAR_KEYWORD]
            assert [p.name for p in at_run_time if p.name != "self"] == keywords(node), f"{owner}.{name}"


def documented() -> list[tuple[str, object]]:
    """Everything of the package that needs no torch and has a docstring."""
    found: list[tuple[str, object]] = [("cofill", cofill), ("diagnose", cofill.diagnose.intervention)]
    for name, value in vars(_cofill).items():
        if inspect.isclass(value) or inspect.isbuiltin(value):
            found.append((name, value))
            if inspect.isclass(value):
                found += [(f"{name}.{m}", v) for m, v in vars(value).items() if not m.startswith("_") and getattr(v, "__doc__", None)]
    return found


@pytest.mark.parametrize(("name", "value"), documented(), ids=lambda item: item if isinstance(item, str) else "")
def test_everything_is_documented_and_examples_run(name: str, value: object) -> None:
    doc = inspect.getdoc(value)
    assert doc or name == "Trace.temperature" or name == "Trace.seed", f"{name} has no docstring"
    test = doctest.DocTestParser().get_doctest(doc or "", {"cofill": cofill}, name, None, None)
    results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    assert results.failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestParser()
    examples = [example for _, value in documented() for example in finder.get_examples(inspect.getdoc(value) or "")]
    assert len(examples) >= 25


def test_the_command_is_the_program() -> None:
    said = run("-m", "cofill._command", "--version")
    assert said.returncode == 0 and said.stdout == f"cofill {cofill.__version__}\n"
    wrong = run("-m", "cofill._command", "generate", "-s", "nope", "x")
    assert wrong.returncode == 2 and "unknown sampler `nope`" in wrong.stderr and wrong.stdout == ""
    differing = run("-m", "cofill._command", "models", "verify", "tiny-llada", "/nowhere")
    assert differing.returncode == 2


def test_the_readme_of_the_repository_shows_what_happens(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = pathlib.Path(__file__).resolve().parents[3] / "README.md"
    blocks = re.findall(r"```python\n(.*?)```", readme.read_text(), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        exec(compile(block, str(readme), "exec"), {})
    assert blocks and (tmp_path / "trace.html").exists()


def test_a_pipe_that_closes_early_is_no_error() -> None:
    process = subprocess.Popen([sys.executable, "-m", "cofill._command", "samplers", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline().startswith(b"{")
    process.stdout.close()
    assert process.stderr is not None and process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 0
