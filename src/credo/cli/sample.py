"""`credo sample`: joint samples as a table; of models of sequences new rows and their hidden states."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .arguments import (
    EvidenceOption,
    JsonOption,
    MethodOption,
    ModelArgument,
    SeedOption,
    is_of_rows,
    load_model,
    read_evidence,
    with_graph,
)
from .tables import OutTableOption, put_table, read_lengths

__all__ = ["run"]


def run(
    model: ModelArgument,
    count: Annotated[int, typer.Option("-n", "--count", min=0, help="Number of samples.")] = 1000,
    lengths: Annotated[
        str | None,
        typer.Option("--lengths", metavar="N,N", help="Lengths of new sequences, of models of them."),
    ] = None,
    evidence: EvidenceOption = None,
    method: MethodOption = None,
    seed: SeedOption = 0,
    out: OutTableOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw joint samples given the evidence, one line each, with state labels."""
    from ..data.table_files import check_ending

    if out is not None:
        check_ending(out)
    loaded = load_model(model)
    if is_of_rows(loaded):
        if evidence or method:
            raise typer.BadParameter("new rows are drawn without --evidence and --method; leave both out")
        columns = _new_rows(loaded, count, read_lengths(lengths), seed)
    elif lengths is not None:
        raise typer.BadParameter("--lengths is for models of sequences; -n says how many samples")
    else:
        columns = _joint(with_graph(loaded, model), count, evidence, method, seed)
    size = len(next(iter(columns.values()), ()))
    put_table(columns, out, as_json, f"{size} samples of {len(columns)} variables")


def _joint(
    model: Any, count: int, evidence: list[str] | None, method: str | None, seed: int
) -> dict[str, Any]:
    from ..inference.portfolio.question import sample

    observed = read_evidence(model.to_factor_graph().variables, evidence)
    given = {} if method is None else {"method": method}
    samples = sample(model, count, evidence=observed, seed=seed, **given)
    return {name: samples[name] for name in samples.variables.names}


def _new_rows(model: Any, count: int, lengths: list[int] | None, seed: int) -> dict[str, Any]:
    """Rows and the hidden states that they are from; of several sequences their numbers too."""
    import numpy as np

    from ..families.independent import IndependentRows, rows_model
    from ..inference.portfolio.question import sample

    has_rows = isinstance(rows_model(model), IndependentRows)
    if has_rows and lengths is not None:
        raise typer.BadParameter("--lengths is for models of sequences; -n says how many rows")
    steps = [count] if lengths is None else lengths
    rows, hidden = sample(model, count, seed=seed) if has_rows else sample(model, lengths=steps, seed=seed)
    columns = {} if len(steps) == 1 else {"sequence": np.repeat(np.arange(len(steps)), steps)}
    columns |= _columns(rows_model(model).emission, rows)
    name = "component" if has_rows else "state"
    parts = hidden.T if hidden.ndim == 2 else [hidden]
    return columns | {name if hidden.ndim == 1 else f"{name}{m}": part for m, part in enumerate(parts)}


def _columns(emission: Any, rows: Any) -> dict[str, Any]:
    """Columns of rows, with labels of states."""
    import numpy as np

    from ..core.domain import Discrete

    named = rows.dtype.names
    parts = [rows[name] for name in named] if named else list(np.reshape(rows, (len(rows), -1)).T)
    names = list(named or (f"x{k}" for k in range(len(parts))))
    schema = emission.schema(names)
    found = dict(zip(names, parts, strict=True))
    for name, domain in schema.items():
        if isinstance(domain, Discrete) and name in found:
            labels = domain.states or tuple(map(str, range(domain.size)))
            found[name] = [labels[int(k)] for k in found[name]]
    return found
