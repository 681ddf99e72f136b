"""`credo impute`: a table with its missing cells filled by what a model believes of them."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from .arguments import (
    JsonOption,
    MaxIterOption,
    MethodOption,
    ModelArgument,
    SeedOption,
    TolOption,
    load_model,
)
from .tables import ColumnsOption, DataArgument, ImpossibleOption, OutTableOption, put_table, read_names

__all__ = ["run"]


def run(
    model: ModelArgument,
    data: DataArgument,
    *,
    how: Annotated[
        Literal["mode", "mean", "map", "sample"],
        typer.Option(
            "--how",
            help="The mode of each cell, the mean of numbers, the best completion of the row, or a draw.",
        ),
    ] = "mode",
    impossible: ImpossibleOption = "refuse",
    columns: ColumnsOption = None,
    method: MethodOption = None,
    max_iter: MaxIterOption = 1000,
    tol: TolOption = 1e-8,
    seed: SeedOption = 0,
    out: OutTableOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fill the missing cells of a table; all others stay as they are."""
    from ..data.table_files import check_ending
    from ..inference.portfolio.predict import impute

    if out is not None:
        check_ending(out)
    filled = impute(
        load_model(model),
        data,
        how,
        inference=method,
        impossible=impossible,
        max_iter=max_iter,
        tol=tol,
        seed=seed,
        columns=read_names(columns),
    )
    put_table(filled, out, as_json, "the filled table")
