"""What the experiments share: arguments, a progress bar, records on disk, and tables side by side.

Every experiment prints published or reference numbers beside measured ones, and saves its
numbers as JSON and CSV and its picture as PNG. Ctrl-C ends it early; what was found is kept.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from credo.core.display import align
from credo.core.files import replacing

OUT = Path(__file__).resolve().parents[1] / "out" / "experiments"


def parser(description: str) -> argparse.ArgumentParser:
    """The options every experiment has."""
    made = argparse.ArgumentParser(description=description.splitlines()[0])
    made.add_argument("--quick", action="store_true", help="a small version that takes seconds")
    made.add_argument("--seed", type=int, default=0, help="seed of the random numbers")
    made.add_argument("--out", type=Path, default=OUT, help="folder for numbers and pictures")
    return made


class Bar:
    """A progress bar on a terminal, nothing elsewhere."""

    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task = progress, task

    def step(self, what: str = "") -> None:
        """One piece of work is done."""
        if self._progress is not None:
            self._progress.update(self._task, advance=1, description=what)


@contextmanager
def bar(total: int) -> Iterator[Bar]:
    """Show progress over `total` steps while the block runs; Ctrl-C leaves the block quietly."""
    progress = None
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        progress = Progress(console=Console(stderr=True), transient=True)
        progress.start()
    try:
        yield Bar(progress, progress.add_task("", total=total) if progress is not None else None)
    except KeyboardInterrupt:
        print("stopped by hand; what was found so far is kept", file=sys.stderr)
    finally:
        if progress is not None:
            progress.stop()


def save(folder: Path, name: str, records: Sequence[dict[str, Any]], figure: Any) -> None:
    """Write `name`.json, `name`.csv and `name`.png; the records need not have the same fields."""
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / f"{name}.json", text=True) as file:
        file.write(json.dumps(list(records), indent=1) + "\n")
    fields = list(dict.fromkeys(key for record in records for key in record))
    with replacing(folder / f"{name}.csv", text=True) as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        writer.writerows(records)
    with replacing(folder / f"{name}.png") as picture:
        figure.savefig(picture, format="png")
    print(f"saved {folder / name}.json, .csv and .png")


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; all columns but the first are numbers."""
    print(f"\n{title}")
    print(align(header, rows, [False] + [True] * (len(header) - 1)))


def beside(reference: float | None, measured: float, error: float, form: str = ".3f") -> str:
    """Reference | measured ± its standard error."""
    left = "-" if reference is None else format(reference, form)
    return f"{left} | {measured:{form}} ± {error:{form}}"
