"""A small question imports little: told by a new process, since this one has imported everything."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"scipy", "pandas", "jax", "rich", "typer", "matplotlib", "networkx"}
ASK = "import credo; credo.infer(credo.datasets.asia(), evidence={'dysp': 'yes'})"
SHELL = """
import sys
from credo.cli.main import main
sys.argv = ["credo", "infer", "asia", "--evidence", "dysp=yes"]
try:
    main()
except SystemExit as end:
    assert not end.code
"""
LIST = (
    "import credo; credo.algorithms(); from credo.inference.problem.base import algorithms; "
    "algorithms.entries()"
)
WITHOUT_EXTRAS = """
import importlib, pkgutil, sys
sys.modules.update(dict.fromkeys(["jax", "equinox", "optax", "blackjax", "matplotlib", "pandas", "pyarrow"]))
import credo
rooms = [room.name for room in pkgutil.iter_modules(credo.__path__) if room.ispkg and room.name != "nn"]
doors = [importlib.import_module(f"credo.{name}") for name in rooms]
assert sum(getattr(door, name) is not None for door in doors for name in getattr(door, "__all__", ())) > 200
"""
FEW = 80  # modules of this package, a sixth of all


def modules_after(code: str) -> set[str]:
    """What a new process has imported after running some code."""
    show = "import json, sys; print(json.dumps(sorted(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}\n{show}"], capture_output=True, text=True, check=True, timeout=300
    )
    return set(json.loads(ran.stdout.splitlines()[-1]))


def algorithms_among(modules: set[str]) -> set[str]:
    """The modules of algorithms among these."""
    from credo.inference.problem.contents import methods

    return {entry.module for entry in methods().values()} & modules


@pytest.fixture(scope="module")
def after_asking():
    return modules_after(ASK)


def test_a_first_answer_imports_no_heavy_package(after_asking):
    assert not {name.partition(".")[0] for name in after_asking} & HEAVY


def test_a_first_answer_in_the_shell_imports_the_printer_besides():
    found = {name.partition(".")[0] for name in modules_after(SHELL)}
    assert found & HEAVY <= {"rich", "typer"} and "numba" not in found


def test_a_first_answer_imports_only_the_algorithm_that_runs(after_asking):
    assert algorithms_among(after_asking) == {"credo.inference.exact.junction_tree"}


def test_a_first_answer_imports_a_part_of_this_package(after_asking):
    assert len([name for name in after_asking if name.partition(".")[0] == "credo"]) < FEW


def test_listing_algorithms_learners_and_formats_imports_none_of_them():
    learners = "from credo.learning.base import learners; learners.entries()"
    formats = "from credo.io.formats import formats; formats()"
    found = modules_after("; ".join([LIST, learners, formats]))
    assert not algorithms_among(found)
    assert not found & {"credo.learning.em", "credo.learning.likelihood", "credo.io.bif", "credo.io.uai"}


def test_importing_the_package_imports_next_to_nothing():
    found = {name for name in modules_after("import credo") if name.partition(".")[0] == "credo"}
    assert found == {"credo", "credo.core", "credo.core.lazy"}


def test_every_public_name_outside_the_neural_kit_can_be_imported_without_extras():
    assert "jax.numpy" not in modules_after(WITHOUT_EXTRAS)
