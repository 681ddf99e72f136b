"""`credo datasets`: the sample models that every command takes by name."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from .arguments import JsonOption
from .completion import complete_model
from .output import print_json, print_pairs, print_table

__all__ = ["run"]


def run(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="Show the arguments of this one.", autocompletion=complete_model
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the sample models, or the arguments of one; each can be given in the place of a model file."""
    from ..datasets.catalogue import names

    entries = [_entry(each) for each in ([name] if name is not None else names())]
    if as_json:
        print_json(entries)
    elif name is None:
        print_table(
            ["model", "what it is"], [[entry["call"], entry["description"]] for entry in entries], [False] * 2
        )
    else:
        _show(entries[0])


def _show(entry: dict[str, Any]) -> None:
    print_pairs([("model", entry["call"]), ("what it is", entry["description"])])
    if entry["arguments"]:
        typer.echo("")
        print_table(["argument", "default"], list(map(list, entry["arguments"].items())), [False] * 2)


def _entry(name: str) -> dict[str, Any]:
    """How to write a sample model with the arguments it needs, what it is, and all its arguments."""
    from ..core.registry import summary_of
    from ..datasets.catalogue import find

    make = find(name)
    parameters = inspect.signature(make).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty]
    spelt = make.__name__.replace("_", "-")
    return {
        "name": spelt,
        "call": f"{spelt}({', '.join(needed)})" if needed else spelt,
        "description": summary_of(make),
        "arguments": {p.name: "needed" if p.default is p.empty else str(p.default) for p in parameters},
    }
