"""What docs/python.md and the README of the package show is what happens.

Every fenced block is run, in order, one namespace and one empty folder for each section. In ```python, a comment `# ->` behind a statement or on the
lines after it is what the statement shows: what it prints, the value of an expression, or the error that it raises; `...` stands for
anything. In ```console, lines with `$` are commands, and the lines below are in their output, in this order. An HTML comment before a block says more:

    <!-- needs: torch, transformers -->     run only where these can be imported
    <!-- file: chain.yaml -->               the block is a file of that name
    <!-- not run: why -->                   shell lines that build the package, or that have the harness fetch a benchmark

Models of 8 billion weights are asked for by their real names. `published` puts our torch doubles with the weights of tiny-llada and tiny-dream in their
place: `from_pretrained` of transformers returns them, with a chat template that is the question itself, and the default mask id of LLaDA's script is theirs.
For the engine, a folder of that name links to tiny-llada.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import io
import os
import pathlib
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import cofill

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "python.md"
README = ROOT / "crates" / "cofill-py" / "README.md"
KNOWN_NEEDS = {"torch", "transformers", "lm_eval", "pandas"}


@dataclass(frozen=True)
class Block:
    """A fenced block and what the comment before it says."""

    section: str
    line: int  # of the fence
    language: str
    text: str
    remark: str

    @property
    def needs(self) -> list[str]:
        """What must be importable; a version may follow a name."""
        listed = self.remark.removeprefix("needs: ") if self.remark.startswith("needs: ") else ""
        return [name for name in listed.split(", ") if name]

    @property
    def file(self) -> str | None:
        return self.remark.removeprefix("file: ") if self.remark.startswith("file: ") else None

    @property
    def is_run(self) -> bool:
        return not self.remark.startswith("not run: ")


def blocks_of(page: pathlib.Path) -> list[Block]:
    found: list[Block] = []
    section, remark, inside = "", "", None
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        if inside is not None:
            if line == "```":
                first, language, lines = inside
                found.append(Block(section, first, language, "\n".join(lines) + "\n", remark))
                inside, remark = None, ""
            else:
                inside[2].append(line)
        elif line.startswith("```"):
            inside = (number, line[3:], [])
        elif comment := re.fullmatch(r"<!-- (.*) -->", line):
            remark = comment[1]
        elif line:
            section = line.lstrip("# ") if line.startswith("## ") else section
            remark = ""
    assert inside is None, f"{page}: the block of line {inside[0] if inside else 0} does not end"
    return found


BLOCKS = blocks_of(PAGE)
SECTIONS = list(dict.fromkeys(block.section for block in BLOCKS))


# --- running -------------------------------------------------------------------------------------------------------------------------------


def statements(source: str) -> Iterator[tuple[ast.stmt, list[str]]]:
    """Every statement with the lines that it must show."""
    lines = source.splitlines()
    comments = {}  # line number: text behind `# ->`, on a line of its own or behind a statement
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and token.string.startswith("# ->"):
            comments[token.start[0]] = token.string.removeprefix("# ->").removeprefix(" ")
    body = ast.parse(source).body
    for statement, following in zip(body, [*body[1:], None]):
        assert statement.end_lineno is not None
        last = len(lines) if following is None else following.lineno - 1
        yield statement, [comments[number] for number in range(statement.end_lineno, last + 1) if number in comments]


def run_python(block: Block, namespace: dict[str, Any]) -> None:
    for statement, expected in statements(block.text):
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                if isinstance(statement, ast.Expr):
                    value = eval(compile(ast.Expression(statement.value), str(PAGE), "eval"), namespace)
                    if value is not None:
                        print(repr(value))
                else:
                    exec(compile(ast.Module([statement], []), str(PAGE), "exec"), namespace)
        except Exception as error:
            if not expected:
                raise
            kind = type(error)
            name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
            printed.write(f"{name}: {error}")
        if expected:
            source = ast.get_source_segment(block.text, statement)
            assert matches(printed.getvalue(), expected), (
                f"line {block.line + statement.lineno}: `{source}` shows\n{printed.getvalue()}\nand not\n" + "\n".join(expected)
            )


def matches(shown: str, expected: list[str]) -> bool:
    pattern = ".*".join(re.escape(part) for part in "\n".join(expected).split("..."))
    return re.fullmatch(pattern, shown.rstrip("\n"), flags=re.DOTALL) is not None


def run_console(block: Block, folder: pathlib.Path) -> None:
    programs = folder / ".programs"
    programs.mkdir(exist_ok=True)
    for name, call in (("python", ""), ("cofill", "-m cofill._command")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {call} "$@"\n')
        (programs / name).chmod(0o755)
    package = str(pathlib.Path(cofill.__file__).parents[1])
    environment = os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")]),
    }
    commands = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert commands[0] == "", f"line {block.line}: a console block begins with a command"
    for text in commands[1:]:
        command, *expected = text.splitlines()
        said = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
        output = said.stdout + said.stderr
        fails = any(line.startswith("error: ") for line in expected)
        assert (said.returncode != 0) == fails, f"line {block.line}: `{command}` exits with {said.returncode}\n{output}"
        rest = output.splitlines()
        for line in expected:
            assert line in rest, f"line {block.line}: `{command}` does not say `{line}` but\n{output}"
            rest = rest[rest.index(line) + 1 :]


def run(blocks: list[Block], folder: pathlib.Path, **given: Any) -> list[Block]:
    """Runs blocks, with some names given, and gives back those that were run."""
    namespace: dict[str, Any] = {"__name__": "__main__", **given}
    done = []
    for block in blocks:
        if block.file is not None:
            (folder / block.file).write_text(block.text)
        elif block.language == "python":
            run_python(block, namespace)
        elif block.language == "console":
            run_console(block, folder)
        else:
            raise AssertionError(f"line {block.line}: nobody knows how to run ```{block.language}")
        done.append(block)
    return done


# --- what stands in for large models -----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """An empty folder to run in, but for a checkpoint under the name that the page gives it. Nothing is fetched."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "LLaDA-8B-Instruct").symlink_to(ROOT / "models" / "tiny-llada", target_is_directory=True)
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / ".hf"))
    return tmp_path


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch doubles in place of the published models, wherever torch and transformers are."""
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError:
        return
    import tiny_torch

    import cofill.compat.llada

    def tiny(name: str) -> pathlib.Path:
        return ROOT / "models" / ("tiny-dream" if "Dream" in name else "tiny-llada")

    def load_model(name: str, *, trust_remote_code: bool, torch_dtype: Any) -> Any:
        assert trust_remote_code and torch_dtype is torch.bfloat16, "as the published models are loaded"
        model = tiny_torch.load(tiny(name))
        if "LLaDA" in name:
            # What transformers does to remote classes with `prepare_inputs_for_generation`: they get its `generate`.
            double = type(model)
            needed = {"main_input_name": "input_ids", "_is_stateful": False, "_supports_default_dynamic_cache": lambda self: False}
            model.__class__ = type(double.__name__, (double, transformers.GenerationMixin), needed)
            model.generation_config = transformers.GenerationConfig()
            model.device = torch.device("cpu")
        return model

    original = transformers.AutoTokenizer.from_pretrained

    def load_tokenizer(name: str, *, trust_remote_code: bool) -> Any:
        tokenizer = original(tiny(name))
        tokenizer.chat_template = "{{ messages[0]['content'] }}\n"
        return tokenizer

    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", load_model)
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", load_tokenizer)
    script = cofill.compat.llada.generate.__wrapped__  # type: ignore[attr-defined]  # below torch.no_grad
    defaults = tuple(411 if value == 126336 else value for value in script.__defaults__)
    assert defaults != script.__defaults__
    monkeypatch.setattr(script, "__defaults__", defaults)


# --- the tests ------------------------------------------------------------------------------------------------------------------------------


def plain(section: str) -> list[Block]:
    """What runs with NumPy alone."""
    return [block for block in BLOCKS if block.section == section and block.is_run and not block.needs]


def whole(section: str) -> list[Block]:
    return [block for block in BLOCKS if block.section == section and block.is_run]


PLAIN = [section for section in SECTIONS if plain(section)]
WITH_MORE = [section for section in SECTIONS if plain(section) != whole(section)]


@pytest.mark.parametrize("section", PLAIN)
def test_numpy_is_enough_for_blocks_without_a_remark(section: str, folder: pathlib.Path) -> None:
    assert run(plain(section), folder) == plain(section)


@pytest.mark.parametrize("section", WITH_MORE)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_whole_recipe_runs(section: str, folder: pathlib.Path, published: None) -> None:
    blocks = whole(section)
    for need in sorted({need for block in blocks for need in block.needs}):
        package, *version = need.split()
        pytest.importorskip(package)
        if version and importlib.metadata.version(package) != version[0]:
            blocks = [block for block in blocks if need not in block.needs]  # words of one version of it
    assert run(blocks, folder) == blocks


def test_no_block_is_left_out() -> None:
    run_by_somebody = [*(block for section in PLAIN for block in plain(section)), *(block for section in WITH_MORE for block in whole(section))]
    for block in BLOCKS:
        assert {need.split()[0] for need in block.needs} <= KNOWN_NEEDS, f"line {block.line} needs {block.needs}"
        if block.is_run:
            assert block in run_by_somebody, f"line {block.line}"
        else:
            reason = block.remark.removeprefix("not run: ")
            assert block.language == "console" and re.match("builds the package|the harness fetches gsm8k", reason), f"line {block.line}: {reason}"
    assert len([section for section in SECTIONS if section[:1].isdigit()]) == 5, "five recipes"
    for page in (PAGE, README):
        assert len(re.findall("```|~~~", page.read_text())) == 2 * len(blocks_of(page)), "fences that are indented, or that nobody sees"


def test_a_block_that_says_something_else_fails() -> None:
    def check(text: str) -> None:
        run_python(Block("", 1, "python", text, ""), {})

    check("1 + 1  # -> 2\nprint('a\\nb')\n# -> a\n# -> b\nint('x')  # -> ValueError: invalid...'x'\n")
    for wrong in ("1 + 1  # -> 3\n", "x = 2  # -> 2\n", "print('a\\nb')  # -> a\n", "1  # -> ValueError: no\n"):
        with pytest.raises(AssertionError):
            check(wrong)
    with pytest.raises(ZeroDivisionError):
        check("1 / 0\n")


def test_links_of_the_page_lead_somewhere() -> None:
    text = PAGE.read_text()
    headings = {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in text.splitlines() if line.startswith("#")}
    links = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    assert len(links) > 5
    for link in links:
        path, _, anchor = link.partition("#")
        assert (PAGE.parent / path).exists() if path else anchor in headings, link


def test_the_page_on_the_index_is_short_and_runs(folder: pathlib.Path) -> None:
    text = README.read_text()
    assert len(text.splitlines()) <= 60
    assert all(link.startswith("https://") for link in re.findall(r"\]\(([^)\s]+)\)", text)), "relative links break there"
    blocks = [block for block in blocks_of(README) if not block.needs and block.is_run]
    assert len(blocks) == 3 and run(blocks, folder) == blocks


def test_the_page_on_the_index_calls_torch_models_as_they_are_called(folder: pathlib.Path, published: None) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    blocks = [block for block in blocks_of(README) if block.needs]
    model = transformers.AutoModel.from_pretrained("LLaDA", trust_remote_code=True, torch_dtype=torch.bfloat16)
    assert len(blocks) == 1 and run(blocks, folder, cofill=cofill, model=model, input_ids=torch.tensor([[360, 391, 256]])) == blocks
