"""`credo learners`: what can be learned from data and how, and the options of each learner."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .arguments import JsonOption
from .completion import complete_learner
from .output import print_json, print_pairs, print_table

__all__ = ["run"]


def run(
    learner: Annotated[
        str | None,
        typer.Argument(
            metavar="LEARNER", help="Show the options of this one.", autocompletion=complete_learner
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the learners and the models to be learned by name, or the options of one learner."""
    from ..learning import LEARNERS

    if as_json:
        print_json([_details(name) for name in (LEARNERS if learner is None else [learner])])
    elif learner is None:
        _show_all()
    else:
        _show_one(learner)


def _show_all() -> None:
    from ..learning import LEARNERS
    from ..models.by_name import BLANKS

    rows = [[name, entry.summary] for name, entry in LEARNERS.items()]
    print_table(["learner", "what it does"], rows, [False] * 2)
    typer.echo("")
    blanks = map(BLANKS.describe, BLANKS.names())
    print_table(
        ["model to be learned", "what it is"], [[b["call"], b["description"]] for b in blanks], [False] * 2
    )
    typer.echo("")
    typer.echo("`credo learners LEARNER` shows the options of one; `credo fit MODEL DATA` learns.")


def _show_one(name: str) -> None:
    found = _details(name)
    yes = {True: "yes", False: "no"}
    print_pairs(
        [
            ("learner", found["name"]),
            ("what it does", found["description"]),
            ("objective never falls", yes[found["monotone"]]),
            ("checkpoints", yes[found["checkpoints"]]),
            ("batches of a stream", yes[found["streams"]]),
            ("soft evidence", yes[found["soft_evidence"]]),
        ]
    )
    if not found["options"]:
        return
    typer.echo("")
    rows = [[o["name"], str(o["default"]), o["meaning"]] for o in found["options"]]
    print_table(["option", "default", "meaning"], rows, [False] * 3)


def _details(name: str) -> dict[str, Any]:
    """What is known of a learner, with its options; imports its module."""
    from ..core.option_notes import options_with_notes
    from ..core.registry import summary_of
    from ..learning.base import learners

    cls: Any = learners.get(name)
    return {
        "name": cls.name,
        "description": summary_of(cls),
        "monotone": cls.monotone,
        "checkpoints": cls.checkpoints,
        "streams": cls.streams,
        "soft_evidence": cls.reads_soft,
        "options": options_with_notes(cls),
    }
