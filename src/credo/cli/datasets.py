"""`credo datasets`: the sample models that every command takes by name."""

from __future__ import annotations

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
    from ..datasets.catalogue import SAMPLES

    entries = [SAMPLES.describe(each) for each in ([name] if name is not None else SAMPLES.names())]
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
