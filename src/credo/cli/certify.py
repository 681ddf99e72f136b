"""`credo certify`: what is known about the convergence of message passing before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import EvidenceOption, JsonOption, ModelArgument, load_discrete, read_evidence
from .completion import complete_method
from .output import print_json, print_table

if TYPE_CHECKING:
    from ..inference.messages.certificates import Certification

__all__ = ["run"]


def run(
    model: ModelArgument,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            "-m",
            metavar="METHOD",
            help="Such as bp, or 'alpha-bp(alpha=0.5)'.",
            autocompletion=complete_method,
        ),
    ] = "bp",
    evidence: EvidenceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Test the known conditions under which message passing converges on a model."""
    from ..inference.messages.certificates import certify

    loaded = load_discrete(model)
    observed = read_evidence(loaded.to_factor_graph().variables, evidence)
    found = certify(loaded, method, evidence=observed)
    if as_json:
        print_json(_as_dict(found))
    else:
        _show(found)


def _show(found: Certification) -> None:
    rows = [
        [
            c.name,
            "unknown" if c.value is None else f"{c.value:.6g}",
            f"< {c.threshold:g}",
            {True: "yes", False: "no", None: "-"}[c.holds],
            c.meaning,
        ]
        for c in found.certificates
    ]
    print_table(["condition", "value", "limit", "holds", "meaning"], rows, [False, True, True, False, False])
    typer.echo("")
    typer.echo(found.sentence)


def _as_dict(found: Certification) -> dict[str, Any]:
    return {
        "method": found.method,
        "guaranteed": found.guaranteed,
        "sentence": found.sentence,
        "certificates": [vars(c) for c in found.certificates],
    }
