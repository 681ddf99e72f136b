"""Data in and out of commands: how tables are read, and where answers about their rows go."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from .completion import complete_column
from .output import note, print_json

__all__ = [
    "ColumnsOption",
    "DataArgument",
    "GroupsOption",
    "LengthsOption",
    "OutTableOption",
    "TargetsOption",
    "put_table",
    "read_lengths",
    "read_names",
]

DataArgument = Annotated[
    str, typer.Argument(metavar="DATA", help="A table: a .csv, .tsv or .parquet file with names of columns.")
]
GroupsOption = Annotated[
    str | None,
    typer.Option(
        "--groups",
        metavar="COLUMN",
        help="The column that tells sequences apart.",
        autocompletion=complete_column,
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="A,B",
        help="The columns that are read; all if absent.",
        autocompletion=complete_column,
    ),
]
LengthsOption = Annotated[
    str | None,
    typer.Option("--lengths", metavar="N,N", help="Lengths of the sequences below each other in the table."),
]
TargetsOption = Annotated[
    str | None,
    typer.Option(
        "--targets",
        metavar="COLUMN",
        help="The column of labels that a crf predicts from the others.",
        autocompletion=complete_column,
    ),
]
ImpossibleOption = Annotated[
    Literal["refuse", "missing"],
    typer.Option("--impossible", help="Rows that the model excludes: refuse them, or leave them empty."),
]
OutTableOption = Annotated[
    str | None,
    typer.Option(
        "--out", "-o", metavar="FILE", help="A .csv, .tsv or .parquet file; standard output (CSV) if absent."
    ),
]


def read_names(given: str | None) -> list[str] | None:
    """The names between commas."""
    return None if given is None else [name.strip() for name in given.split(",") if name.strip()]


def read_lengths(given: str | None) -> list[int] | None:
    """The whole numbers between commas."""
    if given is None:
        return None
    try:
        return [int(part) for part in given.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--lengths: expected numbers such as 100,50, got {given!r}") from None


def put_table(columns: Mapping[str, Any], out: str | None, as_json: bool, what: str) -> None:
    """Write columns to a file, or to standard output as CSV, or as JSON: name -> values."""
    from ..data.table_files import plain_columns, write_rows, write_table

    if out is not None:
        write_table(columns, out)
        note(f"wrote {what} to {out}")
    if as_json:
        print_json(plain_columns(columns))
    elif out is None:
        write_rows(plain_columns(columns), sys.stdout)
