"""Every module is behind a public door: reached from the names of `credo`, a registry or the program.

A door is a name users can write down: one of `credo` or of its rooms (their tables of names), the name of an
algorithm, a learner, a format or a sample model, a command. What a module behind a door imports is behind it
too; imports for type checkers open nothing.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import credo
from credo.cli.main import COMMANDS
from credo.core.lazy import _Room
from credo.datasets.catalogue import CONTENTS
from credo.inference.problem.contents import methods
from credo.io.formats import _CONTENTS
from credo.learning import LEARNERS
from credo.models.by_name import BLANKS
from test_layers import absolute_names

SOURCE = Path(credo.__file__).parents[1]
SCRIPT = "credo.cli.main"  # what the program `credo` runs


def _named(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_named(path): path for path in sorted((SOURCE / "credo").rglob("*.py"))}


class _AtRunTime(ast.NodeTransformer):
    """The tree without what only type checkers read."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return None
        return self.generic_visit(node)


@cache
def imported(source: str, package: str) -> set[str]:
    """The modules of the library that a file of this package imports when it runs, in functions too."""
    tree = _AtRunTime().visit(ast.parse(source))
    names = (".".join(name) for _, name in absolute_names(tree, tuple(package.split("."))))
    return {n if n in MODULES else n.rpartition(".")[0] for n in names} & MODULES.keys()


def doors(room: str) -> Iterator[str]:
    """The modules that a package names in its table."""
    package = importlib.import_module(room)
    if isinstance(package, _Room):
        yield from (f"{room}.{module}" for module in {*package._homes.values(), *package._modules.values()})


def registered() -> set[str]:
    """The modules behind the names of algorithms, learners, formats, models and commands."""
    tables = (methods().values(), LEARNERS.values(), CONTENTS.values(), BLANKS.contents.values(), _CONTENTS)
    return {entry.module for table in tables for entry in table} | {
        f"credo.cli.{name.replace('-', '_')}" for name in COMMANDS
    }


def reached(files: dict[str, Path]) -> set[str]:
    """All modules behind the doors, with the packages around them."""
    found: set[str] = set()
    waiting = {"credo", "credo.__main__", SCRIPT, *registered()}
    while waiting:
        name = waiting.pop()
        if name in found or name not in files:
            continue
        found.add(name)
        inside = files[name].stem == "__init__"
        package = name if inside else name.rpartition(".")[0]
        waiting |= imported(files[name].read_text(encoding="utf-8"), package) | {name.rpartition(".")[0]}
        waiting |= set(doors(name)) if inside else set()
    return found


def test_every_module_is_behind_a_public_door():
    hidden = sorted(MODULES.keys() - reached(MODULES))
    assert not hidden, (
        f"only tests can reach {hidden}: give them a name in the table of their room, or delete them"
    )


def test_a_module_that_nobody_names_is_found(tmp_path: Path):
    lonely = tmp_path / "lonely.py"
    lonely.write_text("from credo.core import check\n")
    assert "credo.models.lonely" not in reached({**MODULES, "credo.models.lonely": lonely})


def test_imports_in_functions_open_doors_and_those_for_type_checkers_do_not():
    late = "def f():\n    from ..core import check\n    from .hmm import HMM\n"
    assert imported(late, "credo.models") == {"credo.core.check", "credo.models.hmm"}
    typed = "if TYPE_CHECKING:\n    from .hmm import HMM\n"
    assert imported(typed, "credo.models") == set()


def test_the_names_of_rooms_lead_to_what_once_took_deep_paths():
    assert credo.models.SemiMarkov and credo.models.FactorialHMM and credo.models.BayesianTree
    assert callable(credo.models.normal_form_build.from_bayes_net)
    assert callable(credo.learning.vmp.fit) and callable(credo.learning.lda_bound.entropy_bound)
    assert credo.learning.ThetaChain and credo.nn.chunks.Chunks
    assert callable(credo.evaluate.alpha_divergence)
