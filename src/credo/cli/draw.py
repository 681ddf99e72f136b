"""`credo draw`: a picture of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from .arguments import EvidenceOption, ModelArgument, load_discrete, read_evidence
from .output import note

__all__ = ["run"]


def run(
    model: ModelArgument,
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FILE", help="Picture to write: .png, .svg or .pdf.")
    ] = "model.png",
    evidence: EvidenceOption = None,
    style: Annotated[
        Literal["auto", "directed", "factors", "pairwise"],
        typer.Option("--style", help="Arrows, factor squares, or lines between variables."),
    ] = "auto",
) -> None:
    """Draw the structure of a model; observed variables are dark."""
    from ..core.errors import OptionError
    from ..plotting import plot_model

    loaded = load_discrete(model)
    observed = read_evidence(loaded.to_factor_graph().variables, evidence)
    figure = plot_model(loaded, style=style, evidence=observed)
    kinds = figure.canvas.get_supported_filetypes()
    ending = Path(out).suffix[1:].lower()
    if ending not in kinds:
        raise OptionError(f"{out}: expected a file name ending in one of {sorted(kinds)}, got {ending!r}")
    figure.savefig(out)
    note(f"wrote {out}")
