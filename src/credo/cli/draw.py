"""`credo draw`: a picture of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ..core.files import replacing
from .arguments import EvidenceOption, MethodOption, ModelArgument, load_whole, read_evidence
from .output import note

__all__ = ["run"]


def run(
    model: ModelArgument,
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FILE", help="Picture to write: .png, .svg or .pdf.")
    ] = "model.png",
    evidence: EvidenceOption = None,
    beliefs: Annotated[
        bool, typer.Option("--beliefs", help="Show the marginals of all variables given the evidence.")
    ] = False,
    method: MethodOption = None,
    style: Annotated[
        Literal["auto", "directed", "factors", "pairwise"],
        typer.Option("--style", help="Arrows, factor squares, or lines between variables."),
    ] = "auto",
) -> None:
    """Draw the structure of a model, or what is believed about it; observed variables are dark."""
    from ..core.errors import OptionError
    from ..inference.portfolio.question import infer
    from ..plotting import plot_model

    if method is not None and not beliefs:
        raise typer.BadParameter("--method answers --beliefs; give both, or neither")
    loaded = load_whole(model)
    observed = read_evidence(loaded.to_factor_graph().variables, evidence)
    answer = infer(loaded, method, evidence=observed) if beliefs else None
    figure = plot_model(loaded, style=style, evidence=observed, beliefs=answer)
    kinds = figure.canvas.get_supported_filetypes()
    ending = Path(out).suffix[1:].lower()
    if ending not in kinds:
        raise OptionError(f"{out}: expected a file name ending in one of {sorted(kinds)}, got {ending!r}")
    with replacing(out) as file:
        figure.savefig(file, format=ending)
    note(f"wrote {out}")
