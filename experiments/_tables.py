"""The harness of published tables: cells measured again, repetition by repetition, and printed side by side.

An experiment is a `Table`: its cells (what a row of the published table fixes), the published numbers of
each cell by (method, metric), and one function

    measure(cell, seeds) -> one {method: {metric: number}} per seed

that measures some repetitions together, because many small models in one call are cheaper than one by one.
or several such functions by name, each of which measures some of the methods, so that quick ones come first
(`--only NAME`). Every repetition is written down as soon as it is there, in `<name>.jsonl`, so a run that was
stopped goes on where it was; with `--fresh` it begins anew. A repetition that a cell does not have is an
empty {}. The result is printed as `published | measured ± sd`, with a mark at published numbers that no
correct implementation reaches (`Published.doubt` says why), and saved as JSON, CSV and a picture.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _common import bar, parser, save, show

__all__ = ["Cell", "Published", "Table", "record_of", "remembered"]

Measured = Mapping[str, Mapping[str, float]]  # method -> metric -> number
Measure = Callable[["Cell", Sequence[int]], Sequence[Measured]]
CHUNK = 20  # repetitions measured in one call


class Published(NamedTuple):
    """A number of the source."""

    mean: float
    sd: float | None = None
    doubt: str = ""  # why a correct implementation cannot reach it; empty if it can


@dataclass(frozen=True)
class Cell:
    """One setting of a table, with what the source printed for it."""

    settings: Mapping[str, Any]  # what `measure` needs; also the key on disk
    published: Mapping[tuple[str, str], Published] = field(default_factory=dict)  # by (method, metric)

    @property
    def key(self) -> str:
        return json.dumps(self.settings, sort_keys=True)

    @property
    def label(self) -> str:
        return ", ".join(f"{k} {v}" for k, v in self.settings.items())


@dataclass(frozen=True)
class Table:
    """A published table, or several that are measured alike."""

    name: str  # of the files
    title: str
    cells: Sequence[Cell]
    measure: Measure | Mapping[str, Measure]  # one function, or one per part of the methods
    repeats: int = 20  # as in the source
    quick: Sequence[int | Cell] = (0,)  # cells of a quick run: their positions, or smaller ones of its own
    quick_repeats: int = 2
    metrics: Sequence[str] = ()  # order of the metrics; empty: as they come
    form: str = ".3f"
    chunk: int = CHUNK  # repetitions measured in one call at most; what a call measures is written after it

    def main(self, arguments: list[str] | None = None) -> None:
        """Run from the command line."""
        given = self._options().parse_args(arguments)
        small = [c if isinstance(c, Cell) else self.cells[c] for c in self.quick]
        cells = small if given.quick else [_sized(c, given.set) for c in self.cells]
        cells = [c for c in cells if all(w in _words(c) for w in given.rows)]
        repeats = given.repeats or (self.quick_repeats if given.quick else self.repeats)
        file = given.out / f"{self.name}.jsonl"
        if given.fresh:
            file.unlink(missing_ok=True)
        found = self.run(cells, range(given.seed, given.seed + repeats), file, getattr(given, "only", None))
        records = self.records(cells, found)
        if records:
            self.report(records)
            save(given.out, self.name, records, self.picture(records))

    def _options(self) -> argparse.ArgumentParser:
        options = parser(self.title)
        options.add_argument("--repeats", type=int, default=None, help=f"per cell ({self.repeats})")
        options.add_argument("--fresh", action="store_true", help="forget what an earlier run has measured")
        options.add_argument(
            "--set", nargs="*", default=[], metavar="NAME=VALUE", help="other sizes, such as images=10000"
        )
        options.add_argument(
            "--rows", nargs="*", default=[], metavar="WORD", help="only rows with these words, such as K=3"
        )
        if isinstance(self.measure, Mapping):
            options.add_argument("--only", choices=list(self.measure), help="measure some of the methods")
        return options

    def run(
        self, cells: Sequence[Cell], seeds: Sequence[int], file: Path, only: str | None = None
    ) -> dict[str, dict[int, Measured]]:
        """Measure what is not on disk yet; Ctrl-C keeps what is."""
        parts = self.measure if isinstance(self.measure, Mapping) else {"": self.measure}
        done = {(e["cell"], e["seed"], e.get("part", "")) for e in _entries(file)}
        todo = [
            (c, part, [s for s in seeds if (c.key, s, part) not in done])
            for part in parts
            if only in (None, part)
            for c in cells
        ]
        with bar(sum(len(missing) for *_, missing in todo)) as progress:
            for cell, part, missing in todo:
                for some in _parts(missing, self.chunk):
                    for seed, values in zip(some, parts[part](cell, some), strict=True):
                        _remember(file, cell, seed, part, values)
                        progress.step(cell.label)
        found = remembered(file)
        return {
            c.key: {s: v for s, v in found.get(c.key, {}).items() if s in set(seeds)}
            for c in cells
        }  # fmt: skip

    def records(self, cells: Sequence[Cell], found: Mapping[str, Mapping[int, Measured]]) -> list[dict]:
        """One record per cell, method and metric: what was published and what was measured."""
        records = []
        for cell in cells:
            runs = list(found[cell.key].values())
            pairs = dict.fromkeys((m, k) for run in runs for m in run for k in run[m])
            for method, metric in pairs:
                values = np.array([run[method][metric] for run in runs if metric in run.get(method, {})])
                measured = float(values.mean()), float(values.std()), len(values)
                records.append(record_of(cell, method, metric, *measured))
        return records

    def report(self, records: Sequence[dict]) -> None:
        """Print the table, one row per cell and metric, one column per method."""
        methods = list(dict.fromkeys(r["method"] for r in records))
        known = list(dict.fromkeys(r["metric"] for r in records))
        metrics = [m for m in self.metrics if m in known] + [m for m in known if m not in self.metrics]
        by_place = {(r["cell"], r["metric"], r["method"]): r for r in records}
        cells = list(dict.fromkeys(r["cell"] for r in records))
        rows = [
            [f"{cell}, {metric}", *(_shown(by_place.get((cell, metric, m)), self.form) for m in methods)]
            for metric in metrics
            for cell in cells
        ]
        show(f"{self.title} (published | measured ± sd)", ["", *methods], rows)
        for doubt in dict.fromkeys(r["doubt"] for r in records if r["doubt"]):
            print(f"* published: {doubt}")
        self._verdict(records)

    def _verdict(self, records: Sequence[dict]) -> None:
        """How many measured means lie within two published standard deviations, by method."""
        for method in dict.fromkeys(r["method"] for r in records):
            mine = [r for r in records if r["method"] == method and r["published_sd"] and not r["doubt"]]
            if mine:
                near = sum(abs(r["mean"] - r["published"]) <= 2 * r["published_sd"] for r in mine)
                print(f"{method}: {near} of {len(mine)} means within two published standard deviations")

    def picture(self, records: Sequence[dict]) -> Any:
        """One panel per metric: measured means with their deviations, published means as crosses."""
        from credo.plotting.style import COLOURS, new_figure, tidy

        metrics = list(dict.fromkeys(r["metric"] for r in records))
        cells = list(dict.fromkeys(r["cell"] for r in records))
        methods = list(dict.fromkeys(r["method"] for r in records))
        figure = new_figure(1.5 + 0.9 * max(4, len(cells)), 2.4 * len(metrics))
        for k, metric in enumerate(metrics):
            axes = figure.add_subplot(len(metrics), 1, k + 1)
            for m, method in enumerate(methods):
                mine = [r for r in records if r["metric"] == metric and r["method"] == method]
                x = np.array([cells.index(r["cell"]) for r in mine]) + 0.8 * (m + 0.5) / len(methods) - 0.4
                colour = COLOURS[m % len(COLOURS)]
                means, spreads = [r["mean"] for r in mine], [r["sd"] for r in mine]
                axes.errorbar(x, means, spreads, fmt="o", ms=3, color=colour, lw=1, label=method)
                said = [
                    (p, r["published"]) for p, r in zip(x, mine, strict=True) if r["published"] is not None
                ]
                if said:
                    axes.plot(*zip(*said, strict=True), "x", color=colour, ms=5)
            axes.set_xticks(
                range(len(cells)), cells if k == len(metrics) - 1 else [], rotation=20, fontsize=7
            )
            axes.set_ylabel(metric, fontsize=8)
            tidy(axes)
        figure.axes[0].legend(fontsize=7, frameon=False, ncols=min(4, len(methods)))
        figure.axes[0].set_title(f"{self.title} (crosses: published)", fontsize=9)
        return figure


def record_of(cell: Cell, method: str, metric: str, mean: float, sd: float, repeats: int) -> dict:
    """A measured number beside what the source printed for it."""
    said = cell.published.get((method, metric))
    return {
        "cell": cell.label,
        **cell.settings,
        "method": method,
        "metric": metric,
        "mean": mean,
        "sd": sd,
        "repeats": repeats,
        "published": None if said is None else said.mean,
        "published_sd": None if said is None else said.sd,
        "doubt": "" if said is None else said.doubt,
    }


def _sized(cell: Cell, changes: Sequence[str]) -> Cell:
    """The cell with other settings, those that it has; they are other rows on disk."""
    settings = dict(cell.settings)
    for change in changes:
        name, _, value = change.partition("=")
        if name in settings:
            settings[name] = value if isinstance(settings[name], str) else type(settings[name])(float(value))
    return Cell(settings, cell.published)


def _words(cell: Cell) -> set[str]:
    """What `--rows` finds: values that are text, others with their names."""
    return {v if isinstance(v, str) else f"{k}={v:g}" for k, v in cell.settings.items()}


def _shown(record: dict | None, form: str) -> str:
    if record is None:
        return "-"
    left = "-" if record["published"] is None else format(record["published"], form)
    mark = "*" if record["doubt"] else ""
    return f"{left}{mark} | {record['mean']:{form}} ± {record['sd']:{form}}"


def _parts(items: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    return (items[k : k + size] for k in range(0, len(items), size))


def _remember(file: Path, cell: Cell, seed: int, part: str, values: Measured) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    clean = {m: {k: float(v) for k, v in of.items() if math.isfinite(v)} for m, of in values.items()}
    named = {"part": part} if part else {}
    line = json.dumps({"cell": cell.key, "seed": seed, **named, "values": clean}) + "\n"
    # After a line that a full disk or a kill has cut off, the next one begins anew.
    cut = file.is_file() and file.read_bytes()[-1:] not in (b"", b"\n")
    with file.open("a") as out:
        out.write("\n" + line if cut else line)


def remembered(file: Path) -> dict[str, dict[int, Measured]]:
    """What earlier runs have written down, by cell and seed."""
    found: dict[str, dict[int, Measured]] = {}
    for entry in _entries(file):
        runs = found.setdefault(entry["cell"], {})
        before = runs.get(entry["seed"], {}) if entry.get("part") else {}
        runs[entry["seed"]] = {**before, **entry["values"]}
    return found


def _entries(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text().splitlines() if file.is_file() else ():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:  # the last line of a run that was killed
            continue
