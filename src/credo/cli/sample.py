"""`credo sample`: joint samples as CSV."""

from __future__ import annotations

import csv
import sys
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from ..core.files import replacing
from .arguments import EvidenceOption, MethodOption, ModelArgument, SeedOption, load_model, read_evidence
from .output import note

if TYPE_CHECKING:
    from ..core.result import Samples

__all__ = ["run"]


def run(
    model: ModelArgument,
    count: Annotated[int, typer.Option("-n", "--count", min=0, help="Number of samples.")] = 1000,
    evidence: EvidenceOption = None,
    method: MethodOption = None,
    seed: SeedOption = 0,
    out: Annotated[str | None, typer.Option("--out", "-o", metavar="FILE", help="CSV file to write.")] = None,
) -> None:
    """Draw joint samples given the evidence, one line each, with state labels."""
    from ..inference.portfolio.question import sample

    loaded = load_model(model)
    observed = read_evidence(loaded.to_factor_graph().variables, evidence)
    given = {} if method is None else {"method": method}
    samples = sample(loaded, count, evidence=observed, seed=seed, **given)
    if out is None:
        _write(samples, sys.stdout)
        return
    with replacing(out, text=True) as file:
        _write(samples, file)
    note(f"wrote {len(samples)} samples of {len(samples.variables)} variables to {out}")


def _write(samples: Samples, file: IO[str]) -> None:
    """Labels of discrete variables, numbers of real ones, one column per coordinate of a simplex."""
    columns: dict[str, Any] = {}
    for name in samples.variables.names:
        values = samples[name]
        if values.ndim == 1:
            columns[name] = values.tolist()
        else:
            columns |= {f"{name}[{k}]": part.tolist() for k, part in enumerate(values.T)}
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(columns)
    rows.writerows(zip(*columns.values(), strict=True))
