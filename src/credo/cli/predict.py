"""`credo predict`: the most probable states, or the probabilities, of variables in every row of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

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
from .completion import complete_target
from .tables import (
    ColumnsOption,
    DataArgument,
    GroupsOption,
    ImpossibleOption,
    LengthsOption,
    OutTableOption,
    put_table,
    read_lengths,
    read_names,
)

__all__ = ["run"]


def run(  # noqa: PLR0913, the options of one call
    model: ModelArgument,
    data: DataArgument,
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET...",
            help="Variables; of a model of sequences or rows: state, component.",
            autocompletion=complete_target,
        ),
    ],
    *,
    proba: Annotated[bool, typer.Option("--proba", help="Probabilities of all states instead.")] = False,
    std: Annotated[
        bool, typer.Option("--std", help="The standard deviation of a number beside its mean.")
    ] = False,
    maximise: Annotated[
        str | None,
        typer.Option(
            "--maximise",
            "--maximize",
            metavar="all|A,B",
            help="The states that are most probable together: of all variables (of a sequence its best "
            "path), or of these.",
        ),
    ] = None,
    impossible: ImpossibleOption = "refuse",
    groups: GroupsOption = None,
    columns: ColumnsOption = None,
    lengths: LengthsOption = None,
    method: MethodOption = None,
    max_iter: MaxIterOption = 1000,
    tol: TolOption = 1e-8,
    seed: SeedOption = 0,
    out: OutTableOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict variables in every row; what the table says about them is ignored."""
    from ..data.table_files import check_ending
    from ..inference.portfolio.predict import predict

    if out is not None:
        check_ending(out)
    names = read_names(maximise) or []
    found = predict(
        load_model(model),
        data,
        targets[0] if len(targets) == 1 else targets,
        proba=proba,
        std=std,
        maximise="all" if names == ["all"] else names,
        inference=method,
        impossible=impossible,
        max_iter=max_iter,
        tol=tol,
        seed=seed,
        lengths=read_lengths(lengths),
        groups=groups,
        columns=read_names(columns),
    )
    put_table(_columns(found, targets), out, as_json, f"predictions of {', '.join(targets)}")


def _columns(found: Any, targets: list[str]) -> dict[str, Any]:
    """Columns by name; of probabilities of several targets one for each `target=state`."""
    if not isinstance(found, Mapping):
        return {targets[0]: found}
    if not any(isinstance(part, Mapping) for part in found.values()):
        return {str(name): column for name, column in found.items()}
    return {f"{name}={state}": column for name, table in found.items() for state, column in table.items()}
