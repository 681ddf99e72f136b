"""Imports go down only, told from the syntax trees, imports inside functions included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import credo

ROOT = Path(credo.__file__).parent
FLOORS = (
    {"cli"},
    {"plotting", "evaluate"},
    {"estimators"},
    {"learning"},
    {"io", "datasets"},
    {"models", "inference"},
    {"structures", "families"},
    {"nn"},
    {"optimise"},
    {"data"},
    {"core"},
    {"kernels"},
)
DEPTH = {room: depth for depth, floor in enumerate(FLOORS) for room in floor}
HEAVY = {"jax", "matplotlib", "networkx", "numba", "pandas", "ray", "scipy", "typer", "rich", "cotengra"}


def absolute_names(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(line, dotted name) of everything imported anywhere in a file of `package`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            stem = package[: len(package) - node.level + 1] if node.level else ()
            stem += tuple((node.module or "").split(".")) if node.module else ()
            for alias in node.names:
                yield node.lineno, (*stem, alias.name)


@cache
def names_in(source: str, package: tuple[str, ...]) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """The same of a file's source."""
    return tuple(absolute_names(ast.parse(source), package))


def violations(source: str, path: Path) -> list[str]:
    """Imports of a room that is not strictly below the file's own."""
    inside = path.relative_to(ROOT).parts
    mine = inside[0]
    found = []
    for line, name in names_in(source, ("credo", *inside[:-1])):
        if name[0] != "credo" or len(name) < 2 or name[1] == mine:
            continue
        if name[1] in DEPTH and DEPTH[name[1]] <= DEPTH[mine]:
            found.append(f"{'/'.join(inside)}:{line} {mine} imports {name[1]}")
    return found


def _files() -> list[Path]:
    return [p for p in sorted(ROOT.rglob("*.py")) if len(p.relative_to(ROOT).parts) > 1]


def test_every_folder_has_a_floor():
    rooms = {p.relative_to(ROOT).parts[0] for p in _files()}
    assert rooms <= set(DEPTH), f"not in the list of floors: {sorted(rooms - set(DEPTH))}"


def test_imports_go_down():
    wrong = [line for path in _files() for line in violations(path.read_text(encoding="utf-8"), path)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("source", "room", "found"),
    [
        ("from ..models.mrf import MarkovNet", "inference", True),
        ("def f():\n    from ..models import mrf", "inference", True),
        ("from credo.io import formats", "models", True),
        ("import credo.cli.main", "core", True),
        ("from ... import cli", "inference/exact", True),
        ("from ..core import errors", "inference", False),
        ("from ...core import errors", "inference/exact", False),
        ("from ..base import Algorithm", "inference/exact", False),
        ("import numpy", "core", False),
    ],
)
def test_the_check_sees_every_way_to_import(source, room, found):
    assert bool(violations(source, ROOT / room / "planted.py")) == found


def test_there_is_no_room_for_leftovers():
    assert not [p for p in ROOT.rglob("*") if p.stem in {"util", "utils", "helpers", "misc", "common"}]


def test_importing_credo_loads_nothing_heavy():
    for path in (ROOT / "__init__.py", *(ROOT / "core").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        at_top = ast.Module([n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))], [])
        names = {name[0] for _, name in absolute_names(at_top, ("credo",))}
        assert not names & HEAVY, f"{path.name} imports {sorted(names & HEAVY)} when loaded"


# Inside `inference/`: the roof first, then the families of algorithms, the floor last.
INFERENCE = (
    "portfolio",
    "neural",
    "particles",
    "variational",
    "sampling",
    "search",
    "bounds",
    "exact",
    "messages",
    "problem",
)


def inner_violations(source: str, folder: str) -> list[str]:
    """Imports of a folder of `inference/` that is not below the file's own."""
    found = []
    for line, name in names_in(source, ("credo", "inference", folder)):
        other = name[2] if name[:2] == ("credo", "inference") and len(name) > 2 else folder
        if other != folder and (other not in INFERENCE or INFERENCE.index(other) < INFERENCE.index(folder)):
            found.append(f"{folder}, line {line}: {'.'.join(name)}")
    return found


def test_folders_of_inference_are_layers():
    root = ROOT / "inference"
    assert {p.name for p in root.iterdir() if p.is_dir() and p.name != "__pycache__"} == set(INFERENCE)
    files = [
        (path, path.relative_to(root).parts[0]) for path in sorted(root.rglob("*.py")) if path.parent != root
    ]
    wrong = [
        f"{path.name}: {told}"
        for path, folder in files
        for told in inner_violations(path.read_text(encoding="utf-8"), folder)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("source", "folder", "found"),
    [
        ("from ..portfolio.choose import choose", "messages", True),
        ("def f():\n    from ..exact import tree", "problem", True),
        ("from ..messages import engine", "exact", False),
        ("from ..problem.base import Problem", "messages", False),
        ("from ..exact.tree import plan", "messages", True),
    ],
)
def test_a_wrong_import_inside_inference_is_noticed(source, folder, found):
    assert bool(inner_violations(source, folder)) is found
