"""`credo convert`: from one file format to another."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import MODEL_HELP, load_model
from .completion import complete_model
from .output import note

__all__ = ["run"]


def run(
    source: Annotated[str, typer.Argument(metavar="IN", help=MODEL_HELP, autocompletion=complete_model)],
    target: Annotated[str, typer.Argument(metavar="OUT", help="The file to write; its ending says how.")],
    to: Annotated[
        str | None, typer.Option("--to", metavar="FORMAT", help="Format of OUT, if its ending does not say.")
    ] = None,
) -> None:
    """Convert a model to another format, or write a sample model to a file."""
    from ..io.formats import save

    model = load_model(source)
    save(model, target, to)
    note(f"wrote {target}")
