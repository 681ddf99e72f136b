"""`credo compare-models`: several models, one table of how well they explain the same data."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import JsonOption, SeedOption, load_model
from .completion import complete_blank
from .output import is_terminal, print_table
from .tables import ColumnsOption, GroupsOption, LengthsOption, TargetsOption, read_lengths, read_names

__all__ = ["run"]


def run(
    rest: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL... DATA",
            help="Models, as for `credo fit`: files, or names such as 'mixture(2)'; then a table.",
            autocompletion=complete_blank,
        ),
    ],
    criteria: Annotated[
        str | None,
        typer.Option("--criteria", metavar="A,B", help="Some of bic, laplace, exact, vb, cv; all if absent."),
    ] = None,
    prior: Annotated[
        str | None, typer.Option("--prior", metavar="PRIOR", help="Such as 'bdeu(size=10)'.")
    ] = None,
    folds: Annotated[int, typer.Option("--folds", min=2, help="Parts of the cross-validation.")] = 5,
    nested: Annotated[
        bool, typer.Option("--nested", help="Test each model against the one before, which it contains.")
    ] = False,
    restarts: Annotated[int, typer.Option("--restarts", min=1, help="Runs of everything iterative.")] = 3,
    groups: GroupsOption = None,
    columns: ColumnsOption = None,
    lengths: LengthsOption = None,
    targets: TargetsOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Weigh models against each other on the same data; higher is better."""
    from ..evaluate.models import compare_models

    *specs, data = rest
    if not specs:
        raise typer.BadParameter(f"expected MODEL... DATA, got only {data!r}")
    twice = next((spec for spec in specs if specs.count(spec) > 1), None)
    if twice is not None:
        raise typer.BadParameter(f"the model {twice!r} is named twice; name it once")
    table = compare_models(
        {spec: load_model(spec) for spec in specs},
        data,
        criteria=read_names(criteria),
        prior=prior,
        folds=folds,
        nested=nested,
        restarts=restarts,
        seed=seed,
        groups=groups,
        columns=read_names(columns),
        lengths=read_lengths(lengths),
        targets=targets,
    )
    if as_json:
        typer.echo(table.to_json())
    elif is_terminal():
        print_table(table.columns, table.cells(), [title != "model" for title in table.columns])
        for sentence in table.sentences():
            typer.echo(sentence)
    else:
        typer.echo(str(table))
