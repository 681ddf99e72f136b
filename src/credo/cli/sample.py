"""`credo sample`: joint samples as a table."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import (
    EvidenceOption,
    JsonOption,
    MethodOption,
    ModelArgument,
    SeedOption,
    load_model,
    read_evidence,
)
from .tables import OutTableOption, put_table

__all__ = ["run"]


def run(
    model: ModelArgument,
    count: Annotated[int, typer.Option("-n", "--count", min=0, help="Number of samples.")] = 1000,
    evidence: EvidenceOption = None,
    method: MethodOption = None,
    seed: SeedOption = 0,
    out: OutTableOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw joint samples given the evidence, one line each, with state labels."""
    from ..data.table_files import check_ending
    from ..inference.portfolio.question import sample

    if out is not None:
        check_ending(out)
    loaded = load_model(model)
    observed = read_evidence(loaded.to_factor_graph().variables, evidence)
    given = {} if method is None else {"method": method}
    samples = sample(loaded, count, evidence=observed, seed=seed, **given)
    columns = {name: samples[name] for name in samples.variables.names}
    put_table(columns, out, as_json, f"{len(samples)} samples of {len(columns)} variables")
