"""Tables that say below their numbers which method is better where; the sentences are made of the numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from _tables import Table

__all__ = ["OrderedTable", "at_published", "falling", "not_below"]

Said = Callable[[Sequence[dict]], Iterator[str]]  # records -> sentences


@dataclass(frozen=True)
class OrderedTable(Table):
    """A table with sentences about the order of its numbers."""

    orders: Sequence[Said] = ()

    def report(self, records: Sequence[dict]) -> None:
        """Print the table, then the sentences."""
        super().report(records)
        for said in self.orders:
            for line in said(records):
                print(line)


def at_published(method: str, metric: str) -> Said:
    """Rows in which a method is at or above the published number."""

    def said(records: Sequence[dict]) -> Iterator[str]:
        mine = [r for r in _of(records, method, metric) if r["published"] is not None]
        lower = [r for r in mine if r["mean"] < r["published"]]
        if mine:
            won = len(mine) - len(lower)
            yield f"{method}: {metric} at or above the published one in {won} of {len(mine)} rows"
        for r in lower:
            yield f"  not in: {r['cell']} ({r['mean']:.4g}, published {r['published']:.4g})"

    return said


def not_below(method: str, other: str, metric: str, kind: str = "", **about: object) -> Said:
    """Rows, those with these settings, in which a method is not below another one."""

    def said(records: Sequence[dict]) -> Iterator[str]:
        theirs = {r["cell"]: r["mean"] for r in _of(records, other, metric)}
        mine = [r for r in _of(records, method, metric) if r["cell"] in theirs and _fits(r, about)]
        won = sum(r["mean"] >= theirs[r["cell"]] for r in mine)
        if mine:
            yield f"{method}: {metric} not below that of {other} in {won} of {len(mine)} {kind}rows"

    return said


def falling(method: str, metric: str, along: str, by: str) -> Said:
    """Whether a number falls from row to row along a setting, in each group of rows."""

    def said(records: Sequence[dict]) -> Iterator[str]:
        mine = _of(records, method, metric)
        for group in dict.fromkeys(r[by] for r in mine):
            values = sorted((r[along], r["mean"]) for r in mine if r[by] == group)
            steps = list(pairwise(values))
            won = sum(after < before for (_, before), (_, after) in steps)
            if steps:
                told = ", ".join(f"{value:.3f}" for _, value in values)
                names = ", ".join(str(k) for k, _ in values)
                yield (
                    f"{method}, {group}: {metric} {told} for {along} = {names}; falling in {won} of "
                    f"{len(steps)} steps between rows"
                )

    return said


def _of(records: Sequence[dict], method: str, metric: str) -> list[dict]:
    return [r for r in records if r["method"] == method and r["metric"] == metric]


def _fits(record: dict, about: dict[str, object]) -> bool:
    """Settings as given; None stands for a setting that a row does not have."""
    return all(record.get(name) == value for name, value in about.items())
