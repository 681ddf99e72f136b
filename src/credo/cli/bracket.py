"""`credo bracket`: a bound on each side of log Z, of the MAP score or of the marginal MAP value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import (
    EvidenceOption,
    JsonOption,
    MaximiseOption,
    ModelArgument,
    SeedOption,
    load_whole,
    read_evidence,
    read_maximise,
)
from .output import note, print_json, print_pairs, print_table

if TYPE_CHECKING:
    from ..inference.portfolio.bracket import Bracket

__all__ = ["run"]


def run(
    model: ModelArgument,
    evidence: EvidenceOption = None,
    maximise: MaximiseOption = None,
    gap: Annotated[float, typer.Option("--gap", help="Stop when the bounds are this close.")] = 0.0,
    seconds: Annotated[float, typer.Option("--seconds", help="Most wall time, about.")] = 10.0,
    memory_gb: Annotated[
        float | None,
        typer.Option("--memory-gb", help="Most memory for tables; half of the machine's if absent."),
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Bound a number from both sides, by methods in turn, until the bounds meet or the time is up."""
    from ..inference.portfolio.bracket import bracket

    loaded = load_whole(model)
    found = bracket(
        loaded,
        read_evidence(loaded.to_factor_graph().variables, evidence),
        read_maximise(maximise),
        gap=gap,
        seconds=seconds,
        memory_gb=memory_gb,
        seed=seed,
    )
    if as_json:
        print_json(_as_dict(found))
    else:
        _show(found)
    if not found.status.is_success:
        note(f"bracket: {found.status.value}: {found.status.advice}")


def _show(found: Bracket) -> None:
    from ..core.display import told

    print_pairs(
        [
            ("lower", f"{found.lower.value:.10g}  by {found.lower_by}"),
            ("upper", f"{found.upper.value:.10g}  by {found.upper_by}"),
            ("gap", "0, exact" if found.is_exact else f"{found.gap:.4g}"),
            ("status", f"{found.status.value}, {found.seconds:.3g} s"),
            *(("note", sentence) for sentence in found.notes),
        ]
    )
    if found.assignment is not None:
        typer.echo("")
        rows = [[name, told(state)] for name, state in found.assignment.items()]
        print_table(["variable", "state"], rows, [False, False])


def _as_dict(found: Bracket) -> dict[str, Any]:
    return {
        "lower": {"value": found.lower.value, "kind": found.lower.kind, "method": found.lower_by},
        "upper": {"value": found.upper.value, "kind": found.upper.kind, "method": found.upper_by},
        "gap": found.gap,
        "exact": found.is_exact,
        "status": found.status.value,
        "converged": found.status.is_success,
        "seconds": found.seconds,
        "assignment": None if found.assignment is None else dict(found.assignment.items()),
        "notes": list(found.notes),
    }
