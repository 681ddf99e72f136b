"""`credo solve`: the interface of the UAI competitions.

The answer is written in the result format: the task on the first line, then log10 Z (PR), all
marginals (MAR), a complete assignment (MAP) or the states of the query variables (MMAP). Without a
method a portfolio chooses by the width of the model, within the time given.
"""

from __future__ import annotations

import warnings
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import JsonOption, MethodOption, ModelArgument, SecondsOption, SeedOption, load_discrete
from .output import note, print_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.result import Result
    from ..core.variable import Variables

__all__ = ["run"]

_SECONDS = 60.0  # of a portfolio, unless said otherwise
_STARTING = 10.0  # seconds within which a command begins that is a process of its own
TASKS = ("PR", "MAR", "MAP", "MMAP")


def run(
    model: ModelArgument,
    rest: Annotated[
        list[str],
        typer.Argument(
            metavar="[EVIDENCE] TASK", help="An evidence file if there is one, then PR, MAR, MAP or MMAP."
        ),
    ],
    query: Annotated[
        str | None, typer.Option("--query", metavar="FILE", help="Query file of MMAP: what to maximise.")
    ] = None,
    method: MethodOption = None,
    seconds: SecondsOption = None,
    seed: SeedOption = 0,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say the bounds, the gap and what is proven.")
    ] = False,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="FILE", help="Where to write; standard output if absent."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Solve a UAI problem and write the answer in the competition's format."""
    from ..core.errors import ConvergenceWarning, QueryError
    from ..inference.portfolio.question import infer
    from ..inference.portfolio.solve import solve
    from ..io.uai_results import read_evidence, read_query

    began = perf_counter() - _seconds_before()
    evidence_file, task = _task(rest)
    if (task == "MMAP") != (query is not None):
        wanted = "needs" if task == "MMAP" else "takes no"
        raise typer.BadParameter(f"{task} {wanted} --query FILE")
    loaded = load_discrete(model)
    variables = loaded.to_factor_graph().variables
    asked = read_query(query, variables) if query is not None else []
    if query is not None and not asked:
        raise QueryError(f"{query} names no variable to maximise; name some, or solve PR for log10 Z")
    evidence = read_evidence(evidence_file, variables) if evidence_file is not None else None
    maximise: Any = {"MAP": "all", "MMAP": asked}.get(task, ())
    if method is None:
        given = _SECONDS if seconds is None else seconds
        answer = solve(
            loaded,
            evidence,
            maximise,
            marginals=task == "MAR",
            seconds=max(0.0, given - (perf_counter() - began)),  # reading the model takes time, too
            seed=seed,
            on_better=None if out is None else _keep(out, task, variables, asked),
        )
        result, remarks = answer.result, answer.sentences if verbose else ()
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # said below in one line
            result = infer(loaded, method, evidence=evidence, maximise=maximise, seconds=seconds, seed=seed)
        remarks = tuple(result.summary().splitlines()) if verbose else ()
    if not result.converged:
        note(f"{result.algorithm}: {result.status.value}: {result.advice}")
    for remark in remarks:
        note(remark)
    text = _answer(task, result, variables, asked)
    if out is not None:
        from ..core.content import write_content

        write_content(out, text)
    if as_json:
        print_json(_as_dict(task, result, variables, asked))
    elif out is None:
        typer.echo(text, nl=False)


def _seconds_before() -> float:
    """What a command that is a process of its own has used up so far; 0 inside of another program."""
    from ..core.stopwatch import process_seconds

    spent = process_seconds()
    return spent if spent < _STARTING else 0.0


def _keep(out: str, task: str, variables: Variables, asked: list[str]) -> Callable[[Result], None]:
    """What writes an assignment as it is found, so that whoever ends the process has the best one."""
    from ..core.content import write_content

    return lambda found: write_content(out, _answer(task, found, variables, asked))


def _task(rest: list[str]) -> tuple[str | None, str]:
    """The evidence file, if any, and the task."""
    *files, task = rest
    if len(files) > 1:
        raise typer.BadParameter(
            f"expected MODEL [EVIDENCE] TASK, got {len(files) - 1} more: {' '.join(rest)}"
        )
    if task.upper() not in TASKS:
        raise typer.BadParameter(f"the last argument must be a task out of {', '.join(TASKS)}, got {task!r}")
    return (files[0] if files else None), task.upper()


def _answer(task: str, result: Result, variables: Variables, asked: list[str]) -> str:
    from ..core.errors import UnsupportedError
    from ..io.uai_results import write_map, write_mar, write_mmap, write_pr

    parts: dict[str, Any] = {"PR": result.log_z, "MAR": result.marginals}
    held = parts.get(task, result.assignment)
    if held is None:
        raise UnsupportedError(f"{result.algorithm} gives no answer to {task}; choose another --method")
    if task == "PR":
        return write_pr(held.value)
    if task == "MAR":
        return write_mar(held.values())
    if task == "MAP":
        return write_map(held.indices)
    return write_mmap({variables.position(name): held.index(name) for name in asked})


def _as_dict(task: str, result: Result, variables: Variables, asked: list[str]) -> dict[str, Any]:
    """The answer by names; what stands in the competition's format by positions."""
    found: dict[str, Any] = {
        "task": task,
        "method": result.algorithm,
        "status": result.status.value,
        "converged": result.converged,
        "seconds": result.seconds,
        "notes": list(result.notes),
    }
    if result.log_z is not None:
        found["log_z"] = {"value": result.log_z.value, "kind": result.log_z.kind}
    if task == "MAR" and result.marginals is not None:
        found["marginals"] = {name: dict(result.marginals[name].to_dict()) for name in variables.names}
    if task in ("MAP", "MMAP") and result.assignment is not None:
        names = asked if task == "MMAP" else variables.names
        found["assignment"] = {name: result.assignment[name] for name in names}
        found["score"] = None if result.score is None else result.score.value
    return found
