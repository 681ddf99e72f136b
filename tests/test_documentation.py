"""The documentation is complete and true: pages exist, examples run and print what they show."""

from __future__ import annotations

import contextlib
import dataclasses
import doctest
import importlib
import importlib.util
import inspect
import io
import pkgutil
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

import credo
from credo.cli.main import app
from credo.core.option_notes import option_notes
from credo.datasets.catalogue import SAMPLES
from credo.inference.problem.base import algorithms
from credo.io.base import FORMATS
from credo.learning.base import learners
from credo.models.by_name import BLANKS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
GENERATED = ("algorithms", "learners", "models", "estimators", "datasets", "_build")
WRITTEN = sorted(p for p in DOCS.rglob("*.md") if p.relative_to(DOCS).parts[0] not in GENERATED)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *WRITTEN]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
MODULES = sorted(
    m.name for m in pkgutil.walk_packages(credo.__path__, "credo.") if not m.name.endswith("__main__")
)


def _generator() -> Any:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_module_imports_and_holds_what_it_lists():
    for name in MODULES:
        module = importlib.import_module(name)
        assert (module.__doc__ or "").strip(), f"{name} has no docstring"
        for public in getattr(module, "__all__", ()):
            assert hasattr(module, public), f"{name}.__all__ lists {public}, which does not exist"


def test_the_public_names_exist():
    for name in credo.__all__:
        assert getattr(credo, name) is not None
    assert set(credo.__all__) <= set(dir(credo))
    with pytest.raises(AttributeError, match="module 'credo' has no attribute 'nonsense'"):
        _ = credo.nonsense


def test_all_that_is_registered_has_a_page(tmp_path: Path):
    generate = _generator()
    generate.main(tmp_path)
    for name in credo.algorithms():
        page = (tmp_path / "algorithms" / f"{name}.md").read_text(encoding="utf-8")
        assert page.startswith(f"# {name}\n")
        for option in dataclasses.fields(algorithms.get(name)):
            assert f"`{option.name}`" in page
    for name in learners.names():
        page = (tmp_path / "learners" / f"{name}.md").read_text(encoding="utf-8")
        assert page.startswith(f"# {name}\n")
        assert all(f"`{option.name}`" in page for option in dataclasses.fields(learners.get(name)))
    classes = {"models": set(generate.models()), "estimators": set(generate.estimators())}
    assert classes["models"] >= {"BayesNet", "MarkovNet", "CRF"} and "GaussianHMM" in classes["estimators"]
    for folder, names in classes.items():
        for name in names:
            assert (tmp_path / folder / f"{name}.md").read_text(encoding="utf-8").startswith(f"# {name}\n")
    listed = classes | {"algorithms": set(credo.algorithms()), "learners": set(learners.names())}
    for folder, names in listed.items():
        index = (tmp_path / folder / "index.md").read_text(encoding="utf-8")
        assert all(name in index for name in names)
    samples = (tmp_path / "datasets" / "index.md").read_text(encoding="utf-8")
    assert all(f"`{name}" in samples for name in (*SAMPLES.names(), *BLANKS.names()))


def _dataclasses() -> list[type]:
    found = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for item in vars(module).values():
            if inspect.isclass(item) and dataclasses.is_dataclass(item) and item.__module__ == name:
                found[f"{name}.{item.__qualname__}"] = item
    return [found[key] for key in sorted(found) if not key.rpartition(".")[2].startswith("_")]


def _undocumented(cls: type) -> list[str]:
    notes, text = option_notes(cls), inspect.getdoc(cls) or ""
    return [
        f.name
        for f in dataclasses.fields(cls)
        if not notes.get(f.name) and not re.search(rf"(^|[\s`(,]){f.name}\b", text, re.MULTILINE)
    ]


def test_every_field_is_documented():
    silent = {
        f"{c.__module__}.{c.__qualname__}": found for c in _dataclasses() if (found := _undocumented(c))
    }
    assert not silent, f"say in a comment on its line what it is: {silent}"


class Block(NamedTuple):
    language: str
    text: str
    line: int


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    for match in re.finditer(r"^```(\w*)[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Block(match.group(1), match.group(2), text[: match.start()].count("\n") + 1)


def run_page(text: str, page: str) -> None:
    """Run the Python blocks as one session; a `text` block after one is what it must print."""
    session: dict[str, Any] = {"__name__": "__main__"}
    found = list(blocks(text))
    for block, after in zip(found, [*found[1:], None][: len(found)], strict=True):
        if block.language == "python":
            code = compile("\n" * block.line + block.text, page, "exec", dont_inherit=True)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(code, session)
            if after is not None and after.language == "text":
                assert out.getvalue() == after.text, f"{page}, line {after.line}"
        elif block.language == "console":
            _run_commands(block, page)
        elif block.language == "sh":
            _run_lines(block, page)


def _run_lines(block: Block, page: str) -> None:
    """Lines as they are typed: `credo` is run; what `make` and `pip install` are asked for must exist."""
    for line in block.text.splitlines():
        program, *words = shlex.split(line, comments=True)
        if program == "credo":
            ran = CliRunner().invoke(app, words)
            assert ran.exit_code == 0, f"{page}: {line}\n{ran.stderr}"
        elif program == "make":
            targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
            assert words and set(words) <= set(targets), f"{page}: {line}"
        else:
            assert [program, *words[:1]] == ["pip", "install"], f"{page}: {line} is not run by this test"
            extras = re.fullmatch(r"\.(?:\[(.*)\])?", words[1])
            assert extras is not None, f"{page}: {line}"
            assert set((extras.group(1) or "all").split(",")) <= set(EXTRAS), f"{page}: {line}"


def _run_commands(block: Block, page: str) -> None:
    """Lines after `$ credo ...` are its output; `...` stands for anything."""
    for chunk in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = chunk.partition("\n")
        words = shlex.split(command)
        assert words[0] == "credo", f"{page}, line {block.line}: expected a credo command, got {command!r}"
        ran = CliRunner().invoke(app, words[1:])
        assert ran.exit_code == 0, f"{page}: {command}\n{ran.stderr}"
        same = doctest.OutputChecker().check_output(shown, ran.stdout, doctest.ELLIPSIS)
        assert not shown or same, f"{page}: {command}\nexpected\n{shown}\ngot\n{ran.stdout}"


@pytest.fixture
def clean_registries():
    """A page that shows how to register something must not leave it behind."""
    yield
    for name in [n for n, cls in algorithms._classes.items() if not cls.__module__.startswith("credo.")]:
        del algorithms._classes[name]
    for name in [n for n, made in FORMATS.items() if not made.read.__module__.startswith("credo.")]:
        del FORMATS[name]


@pytest.mark.usefixtures("clean_registries")
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_every_example_runs_and_prints_what_it_shows(page: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(page.read_text(encoding="utf-8"), page.name)


def test_a_wrong_output_is_noticed():
    run_page("```python\nprint(1 + 1)\n```\n\ngives\n\n```text\n2\n```\n", "good.md")
    with pytest.raises(AssertionError, match=r"bad\.md, line 5"):
        run_page("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n", "bad.md")


@pytest.mark.parametrize(
    "line", ["credo infer asja", "make coffee", "make", "pip install .[nonsense]", "pip install else", "ls"]
)
def test_a_shell_line_that_does_not_run_is_noticed(line: str):
    with pytest.raises(AssertionError, match="page"):
        run_page(f"```sh\n{line}\n```\n", "page.md")


def test_every_block_of_the_first_page_is_run_or_compared():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {block.language for block in blocks(text)} == {"python", "text", "sh"}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page: Path):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" in target or any(part in GENERATED for part in Path(target).parts):
            continue
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_changelog_names_the_current_version():
    assert f"## [{credo.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
