"""`credo fit`: the parameters of a model, learned from a table."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import JsonOption, MethodOption, SeedOption, load_start
from .completion import complete_blank, complete_column, complete_learner
from .output import note, print_json, print_pairs
from .tables import (
    ColumnsOption,
    DataArgument,
    GroupsOption,
    LengthsOption,
    TargetsOption,
    read_lengths,
    read_names,
)

if TYPE_CHECKING:
    from ..learning.base import Fit

__all__ = ["run"]


def run(  # noqa: PLR0913, the options of one call
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="Where learning starts: a file, a model to be learned such as bayes-net, 'hmm(states=3)' or "
            "'mixture(3)', or a sample model.",
            autocompletion=complete_blank,
        ),
    ],
    data: DataArgument,
    *,
    edges: Annotated[
        str | None, typer.Option("--edges", metavar="A->B,C->B", help="Edges of a bayes-net, parent first.")
    ] = None,
    states: Annotated[
        list[str] | None,
        typer.Option(
            "--states",
            metavar="NAME=N",
            help="States of a variable of a bayes-net that the data do not tell, such as a hidden one: "
            "a number, or labels A,B; repeat it.",
        ),
    ] = None,
    learner: Annotated[
        str | None,
        typer.Option(
            "--learner",
            "-l",
            metavar="LEARNER",
            help="As listed by `credo learners`; chosen if absent.",
            autocompletion=complete_learner,
        ),
    ] = None,
    prior: Annotated[
        str | None, typer.Option("--prior", metavar="PRIOR", help="Such as 'bdeu(size=10)'.")
    ] = None,
    restarts: Annotated[
        int | None, typer.Option("--restarts", min=1, help="Runs from different starts; the best is kept.")
    ] = None,
    groups: GroupsOption = None,
    columns: ColumnsOption = None,
    lengths: LengthsOption = None,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="COLUMN",
            help="The column that says the hidden state where it is known.",
            autocompletion=complete_column,
        ),
    ] = None,
    targets: TargetsOption = None,
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="COLUMN",
            help="The column that says how often a row counts.",
            autocompletion=complete_column,
        ),
    ] = None,
    validation: Annotated[
        str | None,
        typer.Option("--validation", metavar="SHARE|FILE", help="Rows to watch: a share, or another table."),
    ] = None,
    batch_rows: Annotated[
        int | None,
        typer.Option("--batch-rows", metavar="N", min=1, help="Read the table anew in batches of N rows."),
    ] = None,
    shuffle: Annotated[
        bool, typer.Option("--shuffle", help="Batches in another order in every pass.")
    ] = False,
    method: MethodOption = None,
    max_iter: Annotated[int, typer.Option("--max-iter", help="Most iterations.")] = 500,
    tol: Annotated[
        float | None, typer.Option("--tol", help="Residual that counts as none; the learner's own if absent.")
    ] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", help="Most wall time.")] = None,
    seed: SeedOption = 0,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="FILE", help="Where to write the model; .credo keeps any."),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option("--keep", metavar="FILE", help="Write the whole fit (.credo); MODEL to go on from it."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="FILE", help="Keep the run here, and resume it from here."),
    ] = None,
    every: Annotated[float, typer.Option("--every", help="Seconds between checkpoints.")] = 60,
    as_json: JsonOption = False,
) -> None:
    """Learn the parameters of a model from a table; what is missing or hidden is summed out."""
    from ..core.errors import ConvergenceWarning
    from ..learning.base import fit

    given = {"edges": edges, "states": None if states is None else _states(states)}
    start = load_start(model, **{name: value for name, value in given.items() if value is not None})
    _check_formats(start, out, keep)
    if shuffle and not batch_rows:
        raise typer.BadParameter("--shuffle needs --batch-rows N")
    reading: Any = {"groups": groups, "columns": read_names(columns)}
    source: Any = data
    if batch_rows:
        from ..data.stream import stream

        source = stream(data, batch_rows=batch_rows, shuffle=shuffle, seed=seed, **reading)
        reading = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said below in one line
        found = fit(
            start,
            source,
            learner,
            prior=prior,
            restarts=restarts,
            lengths=read_lengths(lengths),
            labels=labels,
            targets=targets,
            weights=weights,
            validation=None if validation is None else _share(validation),
            inference=method,
            max_iter=max_iter,
            tol=tol,
            seconds=seconds,
            seed=seed,
            checkpoint=checkpoint,
            every=every,
            **reading,
        )
    try:
        _keep(found, out, keep)
    finally:
        if as_json:
            print_json(_as_dict(found, out, keep))
        else:
            _show(found)
    if not (found.converged or found.stopped_early):
        note(f"{found.learner}: {found.status.value}: {found.advice}")
    if out is None and keep is None:
        note("the model was not kept; --out FILE writes it")


def _states(items: list[str]) -> dict[str, Any]:
    """Name -> a number of states, labels, or real."""
    found: dict[str, Any] = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals or not name.strip() or not text.strip():
            raise typer.BadParameter(f"--states: expected NAME=N or NAME=LABEL,LABEL, got {item!r}")
        labels = [part.strip() for part in text.split(",")]
        found[name.strip()] = int(text) if text.strip().isdecimal() else text if text == "real" else labels
    return found


def _share(text: str) -> float | str:
    """A share of the rows, or a file."""
    try:
        return float(text)
    except ValueError:
        return text


def _check_formats(start: Any, out: str | None, keep: str | None) -> None:
    """Refuse what cannot be written before an hour has been spent on it."""
    from ..core.errors import FormatError
    from ..core.instance import Template
    from ..families.blank import BlankRows
    from ..families.independent import rows_model
    from ..io.formats import writer_of

    if keep is not None and not writer_of(keep).keeps_all:
        raise FormatError(f"{keep}: expected a .credo or .json file, which keeps a whole fit")
    if out is None or writer_of(out).keeps_all:
        return
    if isinstance(rows_model(getattr(start, "model", start)), (BlankRows, Template)):
        raise FormatError(f"{out}: expected a .credo or .json file, which keep models of rows and sequences")


def _keep(found: Fit, out: str | None, keep: str | None) -> None:
    from ..io.formats import save

    for what, value, path in (("the model", found.model, out), ("the fit", found, keep)):
        if path is not None:
            save(value, path)
            note(f"wrote {what} to {path}")


def _show(found: Fit) -> None:
    from ..core.stopwatch import told_seconds

    head = [
        ("model", repr(found.model)),
        ("learner", found.learner),
        ("status", f"{found.status.value}, {told_seconds(found)}"),
    ]
    if len(found.objective):
        first, last = found.objective[0], found.objective[-1]
        steps = len(found.objective) - 1
        moved = f"{first:.6g} -> {last:.6g} per row in {steps} iterations"
        head.append(("objective", moved if steps else f"{last:.6g} per row"))
    for title, value in (("log-likelihood", found.log_likelihood), ("log evidence", found.evidence)):
        if value is not None:
            head.append((title, str(value)))
    if len(found.trace.get("validation", ())):
        head.append(("validation", f"{found.trace['validation'][-1]:.6g} per row"))
    print_pairs([*head, *(("note", sentence) for sentence in found.notes)])


def _as_dict(found: Fit, out: str | None, keep: str | None) -> dict[str, Any]:
    def value(estimate: Any) -> Any:
        return None if estimate is None else {"value": estimate.value, "kind": estimate.kind}

    return {
        "model": type(found.model).__name__,
        "learner": found.learner,
        "status": found.status.value,
        "converged": found.converged,
        "seconds": found.seconds,
        "compile_seconds": found.compile_seconds,
        "objective": found.objective.tolist(),
        "log_likelihood": value(found.log_likelihood),
        "evidence": value(found.evidence),
        "validation": [float(v) for v in found.trace.get("validation", ())],
        "restarts": None if found.restarts is None else found.restarts.tolist(),
        "notes": list(found.notes),
        "out": out,
        "keep": keep,
    }
