"""`credo infer`: marginals, MAP and marginal MAP of a model."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import (
    EvidenceOption,
    JsonOption,
    MaximiseOption,
    MaxIterOption,
    MethodOption,
    ModelArgument,
    SecondsOption,
    SeedOption,
    TolOption,
    load_whole,
    read_evidence,
    read_maximise,
)
from .completion import complete_method, complete_variable
from .output import bar, is_terminal, note, print_json, print_pairs, print_table

if TYPE_CHECKING:
    from ..core.result import Joint, Marginals, Result
    from ..core.variable import Variables

__all__ = ["run"]

_SHOWN = 50  # variables a terminal shows without being asked for one


def run(
    model: ModelArgument,
    positional: Annotated[
        str | None,
        typer.Argument(
            metavar="METHOD",
            help="As listed by `credo methods`; chosen if absent. --method says the same.",
            autocompletion=complete_method,
        ),
    ] = None,
    method: MethodOption = None,
    evidence: EvidenceOption = None,
    query: Annotated[
        list[str] | None,
        typer.Option(
            "--query",
            "-q",
            metavar="NAME",
            help="Show only this variable; repeat it. A,B shows their joint table.",
            autocompletion=complete_variable,
        ),
    ] = None,
    maximise: MaximiseOption = None,
    max_iter: MaxIterOption = 1000,
    tol: TolOption = 1e-8,
    seconds: SecondsOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Answer a question about a model: marginals and log Z, MAP, or marginal MAP."""
    from ..core.errors import ConvergenceWarning
    from ..inference.portfolio.question import infer

    if positional is not None and method is not None:
        raise typer.BadParameter(f"the method is named twice, {positional!r} and {method!r}; name it once")
    method = method if positional is None else positional
    loaded = load_whole(model)
    variables = loaded.to_factor_graph().variables
    observed = read_evidence(variables, evidence)
    single, joint = _queries(variables, query or [])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said below in one line
        result = infer(
            loaded,
            method,
            evidence=observed,
            maximise=read_maximise(maximise),
            max_iter=max_iter,
            tol=tol,
            seconds=seconds,
            seed=seed,
        )
    tables = [_joint(loaded, names, observed, method) for names in joint]
    names = single if query else list(variables.names)
    if as_json:
        print_json(_as_dict(result, names, tables))
    else:
        _show(result, names, tables, evidence or [])
    if not result.converged:
        note(f"{result.algorithm}: {result.status.value}: {result.advice}")


def _queries(variables: Variables, items: list[str]) -> tuple[list[str], list[list[str]]]:
    """Single variables, and groups written with commas; every name is checked."""
    single, joint = [], []
    for item in items:
        names = [item] if item in variables or "," not in item else item.split(",")
        for name in names:
            variables.position(name)
        if len(names) == 1:
            single.append(item)
        else:
            joint.append(names)
    return single, joint


def _joint(model: Any, names: list[str], evidence: dict[str, Any], method: str | None) -> Joint:
    from ..inference.portfolio.question import query

    given = {} if method is None else {"method": method}
    return query(model, names, evidence=evidence, **given)


def _show(result: Result, names: list[str], tables: list[Joint], evidence: list[str]) -> None:
    from ..core.display import told
    from ..core.stopwatch import told_seconds

    head = [("evidence", ", ".join(evidence))] if evidence else []
    head += [("method", result.algorithm), ("status", f"{result.status.value}, {told_seconds(result)}")]
    if result.log_z is not None:
        head.append(("value" if result.assignment is not None else "log Z", str(result.log_z)))
    print_pairs([*head, *(("note", sentence) for sentence in result.notes)])
    if result.assignment is not None:
        wanted = set(names)
        chosen = [[name, told(state)] for name, state in result.assignment.items() if name in wanted]
        typer.echo("")
        print_table(["variable", "state"], chosen, [False, False])
    if result.marginals is not None and names:
        shown = names[:_SHOWN] if is_terminal() else names
        _show_marginals(result.marginals, [name for name in shown if name not in result.marginals.densities])
        _show_densities(result.marginals, [name for name in shown if name in result.marginals.densities])
        if len(shown) < len(names):
            typer.echo(f"{len(names) - len(shown)} more variables: --query NAME shows one, --json all")
    for joint in tables:
        typer.echo("")
        _show_joint(joint)


def _show_marginals(marginals: Marginals, names: list[str]) -> None:
    """One line per state; on a terminal the name is not repeated and a bar is drawn."""
    rows = []
    for name in names:
        for k, (state, p) in enumerate(marginals[name].to_dict().items()):
            row = [name if k == 0 or not is_terminal() else "", state, f"{p:.6f}"]
            rows.append([*row, bar(p)] if is_terminal() else row)
    if rows:
        header = ["variable", "state", "probability", ""][: 4 if is_terminal() else 3]
        typer.echo("")
        print_table(header, rows, [False, False, True, False][: len(header)])


def _show_densities(marginals: Marginals, names: list[str]) -> None:
    """One line per continuous variable, or per coordinate of one on a simplex."""
    import numpy as np

    rows = []
    for name in names:
        mean, sd = np.atleast_1d(marginals[name].mean), np.atleast_1d(marginals[name].sd)
        labels = [name] if len(mean) == 1 else [f"{name}[{k}]" for k in range(len(mean))]
        rows += [[label, f"{m:.6g}", f"{s:.6g}"] for label, m, s in zip(labels, mean, sd, strict=True)]
    if rows:
        typer.echo("")
        print_table(["variable", "mean", "sd"], rows, [False, True, True])


def _show_joint(joint: Joint) -> None:
    import numpy as np

    rows = []
    for where, p in np.ndenumerate(joint.table):
        labels = [v.label(k) for v, k in zip(joint.variables, where, strict=True)]
        rows.append([*labels, f"{p:.6f}"])
    print_table([*joint.names, "probability"], rows, [False] * len(joint.names) + [True])


def _as_dict(result: Result, names: list[str], tables: list[Joint]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "method": result.algorithm,
        "status": result.status.value,
        "converged": result.converged,
        "seconds": result.seconds,
        "compile_seconds": result.compile_seconds,
        "notes": list(result.notes),
    }
    if result.log_z is not None:
        found["log_z"] = {"value": result.log_z.value, "kind": result.log_z.kind}
    if result.marginals is not None:
        found["marginals"] = {name: _belief(result.marginals, name) for name in names}
    if result.assignment is not None:
        wanted = set(names)
        found["assignment"] = {
            n: s if isinstance(s, str) else _list(s) for n, s in result.assignment.items() if n in wanted
        }
    if tables:
        found["joints"] = [
            {
                "variables": list(joint.names),
                "states": [list(v.states) for v in joint.variables],
                "table": joint.table.tolist(),
            }
            for joint in tables
        ]
    return found


def _belief(marginals: Marginals, name: str) -> dict[str, Any]:
    """State -> probability, or the moments of a continuous variable."""
    if name not in marginals.densities:
        return dict(marginals[name].to_dict())
    return {moment: _list(getattr(marginals[name], moment)) for moment in ("mean", "sd")}


def _list(value: Any) -> Any:
    """A number, or a list of numbers."""
    import numpy as np

    return np.asarray(value, dtype=float).tolist()
