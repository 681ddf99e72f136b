"""`credo convert`: from one file format to another."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import load_model
from .output import note

__all__ = ["run"]


def run(
    source: Annotated[str, typer.Argument(metavar="IN", help="The model file to read.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="The file to write; its ending says how.")],
    to: Annotated[
        str | None, typer.Option("--to", metavar="FORMAT", help="Format of OUT, if its ending does not say.")
    ] = None,
) -> None:
    """Convert a model file to another format."""
    from ..io.formats import save

    model = load_model(source)
    save(model, target, to)
    note(f"wrote {target}")
