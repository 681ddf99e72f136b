"""Several methods in turn."""

from __future__ import annotations

from ..problem.contents import Method

__all__ = ["METHODS"]

METHODS = {
    "portfolio": Method(
        "credo.inference.portfolio.maximum",
        "Searches and bounds in turn for the time given: the best states found, a bound, and the gap.",
        answers=("max", "mixed"),
        promises=("upper",),
    ),
}
