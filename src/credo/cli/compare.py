"""`credo compare`: several methods on one question, one table."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import (
    EvidenceOption,
    JsonOption,
    MaximiseOption,
    MaxIterOption,
    ModelArgument,
    SecondsOption,
    SeedOption,
    TolOption,
    load_whole,
    read_evidence,
    read_maximise,
)
from .completion import complete_method
from .output import is_terminal, print_table

__all__ = ["run"]


def run(
    model: ModelArgument,
    methods: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="METHOD...",
            help="The first is the reference; all quick ones if absent.",
            autocompletion=complete_method,
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            "-m",
            metavar="METHOD",
            help="One more method; repeat it.",
            autocompletion=complete_method,
        ),
    ] = None,
    evidence: EvidenceOption = None,
    maximise: MaximiseOption = None,
    max_iter: MaxIterOption = 1000,
    tol: TolOption = 1e-8,
    seconds: SecondsOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Ask several methods the same question; errors are relative to the first."""
    from ..core.errors import UnsupportedError
    from ..evaluate.compare import compare

    loaded = load_whole(model)
    table = compare(
        loaded,
        [*(methods or ()), *(method or ())] or None,
        evidence=read_evidence(loaded.to_factor_graph().variables, evidence),
        maximise=read_maximise(maximise),
        max_iter=max_iter,
        tol=tol,
        seconds=seconds,
        seed=seed,
    )
    if not any(row.answered for row in table):
        refusals = "; ".join(f"{row.method}: {row.reason}" for row in table)
        raise UnsupportedError(f"no method could treat this problem: {refusals}")
    if as_json:
        typer.echo(table.to_json())
    elif is_terminal():
        print_table(table.columns, table.cells(), table.flush_right)
    else:
        typer.echo(str(table))
