"""`credo methods`: what the algorithms answer and promise, and the options of each."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import JsonOption
from .completion import complete_method
from .output import print_json, print_pairs, print_table

if TYPE_CHECKING:
    from ..inference.problem.contents import Method

__all__ = ["run"]


def run(
    method: Annotated[
        str | None,
        typer.Argument(
            metavar="METHOD", help="Show the options of this one.", autocompletion=complete_method
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the inference methods with what they answer and promise, or the options of one."""
    from ..inference.problem.contents import methods

    if as_json:
        names = list(methods()) if method is None else [method]
        print_json([_details(name) for name in names])
    elif method is None:
        _show_all(methods())
    else:
        _show_one(method)


def _show_all(known: dict[str, Method]) -> None:
    from ..inference.problem.contents import TASKS, family_title

    for family, group in groupby(known.items(), key=lambda item: item[1].family):
        rows = [[name, *map(_list, (m.answers, m.promises)), m.summary] for name, m in group]
        typer.echo(f"{family_title(family)}:")
        print_table(["method", "answers", "promises", "what it does"], rows, [False] * 4)
        typer.echo("")
    typer.echo(f"Answers: {'; '.join(f'{word}: {meaning}' for word, meaning in TASKS.items())}.")
    typer.echo("`credo methods METHOD` shows the options of one.")


def _show_one(name: str) -> None:
    from ..inference.problem.contents import TASKS, family_title

    found = _details(name)
    head = [
        ("method", name),
        ("family", family_title(found["family"])),
        ("what it does", found["description"]),
        ("answers", _list(TASKS[task] for task in found["answers"])),
        ("variables", _list(found["reads"])),
        ("promises", _list(found["promises"])),
    ]
    print_pairs(head)
    if not found["options"]:
        return
    typer.echo("")
    rows = [[o["name"], str(o["default"]), o["meaning"]] for o in found["options"]]
    print_table(["option", "default", "meaning"], rows, [False] * 3)


def _details(name: str) -> dict[str, Any]:
    """What is known of a method, with its options; imports its module."""
    from ..core.option_notes import options_with_notes
    from ..inference.problem.base import algorithms

    cls = algorithms.get(name)
    known = algorithms.entries()[name]
    return {
        "name": name,
        "family": known.family,
        "description": known.summary,
        "answers": known.answers,
        "reads": known.reads,
        "promises": known.promises,
        "options": options_with_notes(cls),
    }


def _list(words: Any) -> str:
    return ", ".join(words) or "-"
