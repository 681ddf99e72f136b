"""`credo reproduce`: a published table or figure, measured again.

The experiments are scripts of the source distribution, in the folder `experiments`; they use the library
and are not part of it. Numbers and pictures go to the folder the command is given in.
"""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import OptionError, UnsupportedError
from ..core.registry import near_misses, or_else
from .completion import complete_experiment
from .output import print_table

__all__ = ["first_line", "run", "scripts"]


def run(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="Which one; none lists them.", autocompletion=complete_experiment
        ),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", metavar="N", help="Repetitions per cell of a table.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version that takes seconds.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what an earlier run measured.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="First seed.")] = None,
    out: Annotated[
        str, typer.Option("--out", metavar="FOLDER", help="Where numbers and pictures go.")
    ] = "out/experiments",
) -> None:
    """Measure a published table or figure again, and print both side by side."""
    known = scripts()
    if name is None:
        rows = [[key, first_line(path)] for key, path in known.items()]
        print_table(["experiment", "what it shows"], rows, [False, False])
        return
    if name not in known:
        near = near_misses(name, known)
        hint = f"did you mean {or_else(near)}? " if near else ""
        raise OptionError(f"no experiment named '{name}'; {hint}`credo reproduce` lists all {len(known)}")
    given = {"--repeats": repeats, "--seed": seed, "--out": out}
    flags = {"--quick": quick, "--fresh": fresh}
    arguments = [part for key, value in given.items() if value is not None for part in (key, str(value))]
    arguments += [key for key, wanted in flags.items() if wanted]
    _execute(known[name], arguments)


def _execute(script: Path, arguments: list[str]) -> None:
    """Run a script as `python script arguments` would."""
    before = sys.argv, sys.path
    sys.argv, sys.path = [str(script), *arguments], [str(script.parent), *sys.path]
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.argv, sys.path = before


def scripts() -> dict[str, Path]:
    """Name -> script, of the folder `experiments` here or beside the sources."""
    for folder in (Path("experiments"), Path(__file__).resolve().parents[3] / "experiments"):
        if (folder / "_common.py").is_file():
            return {p.stem.replace("_", "-"): p for p in sorted(folder.glob("[a-z]*.py"))}
    raise UnsupportedError(
        "the experiments are part of the sources, not of the installed package, and there is no folder "
        "'experiments' here; run `credo reproduce` in a checkout of the sources"
    )


def first_line(path: Path) -> str:
    """What a script says it shows."""
    words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return words.partition("\n")[0]
