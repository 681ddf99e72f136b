"""What is known of every algorithm before its module is imported.

Each folder of algorithms is a table of contents: `METHODS`, a name and a `Method` per algorithm, the best
known first. Lists of methods, hints and the completion of a shell read these; only the module of an algorithm
that runs is imported.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache

from ...core.registry import Entry

__all__ = ["FAMILIES", "KINDS", "TASKS", "Method", "family_title", "methods"]

FAMILIES = (
    "exact", "messages", "variational", "bounds", "search", "sampling", "particles", "neural", "portfolio",
)  # fmt: skip
KINDS = ("discrete", "real", "vector", "positive", "interval", "simplex")  # of domains
TASKS = {
    "sum": "marginals and log Z",
    "max": "MAP",
    "mixed": "marginal MAP",
    "powered": "powered sums",
    "ordered": "powered sums in a given order",
    "query": "joint tables",
    "samples": "samples",
}


@dataclass(frozen=True)
class Method(Entry):
    """What an algorithm is for."""

    answers: tuple[str, ...] = ()  # kinds of questions, words of `TASKS`
    reads: tuple[str, ...] = ("discrete",)  # domains of variables, words of `KINDS`
    groups: tuple[str, ...] = ("tables",)  # kinds of factors; "functions": all, as batches
    promises: tuple[str, ...] = ()  # as declared by the class, sorted
    compiles: bool = False  # as declared by the class
    checkpoints: bool = False  # as declared by the class
    slopes: bool = False  # as declared by the class

    @property
    def family(self) -> str:
        """The folder it lives in; `other` for an algorithm from elsewhere."""
        parts = self.module.split(".")
        return parts[2] if parts[:2] == ["credo", "inference"] and len(parts) > 3 else "other"


@cache
def methods() -> dict[str, Method]:
    """Name -> what is known, of the algorithms that come with this package."""
    found: dict[str, Method] = {}
    for family in FAMILIES:
        found |= importlib.import_module(f"credo.inference.{family}").METHODS
    return found


def family_title(family: str) -> str:
    """A heading for the algorithms of a family."""
    if family not in FAMILIES:
        return "Other methods"
    text: str = importlib.import_module(f"credo.inference.{family}").__doc__ or family
    return text.partition("\n")[0].rstrip(".")
