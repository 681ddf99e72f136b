"""Writes the measured tables into docs/experiments.md.

    python experiments/_page.py [--out FOLDER] [--page FILE]

Between the lines `<!-- table NAME -->` and `<!-- end -->` of the page stands what a run of NAME has left in
the folder: published and measured numbers, and how many rows are within two published deviations. Rows that
the folder knows nothing of stay as the page has them, so a table can be measured in parts. Nothing is
measured here; a row that was never measured says so.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _common import OUT
from _tables import Table, record_of, remembered

from credo.core.files import replacing

PAGE = Path(__file__).resolve().parents[1] / "docs" / "experiments.md"
BLOCK = re.compile(r"(<!-- table (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
ENTRY = re.compile(r"(?:\S+ / )?(\S+) ± (\S+)")  # published / mean ± deviation


def main(arguments: list[str] | None = None) -> None:
    """Fill in all blocks of the page."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", type=Path, default=OUT, help="folder of the numbers")
    options.add_argument("--page", type=Path, default=PAGE, help="page to fill in")
    given = options.parse_args(arguments)
    text = given.page.read_text(encoding="utf-8")
    filled = BLOCK.sub(lambda m: m[1] + block(m[2], given.out, m[3]) + m[4], text)
    with replacing(given.page, text=True) as page:
        page.write(filled)


def block(name: str, folder: Path, old: str = "") -> str:
    """The tables of one experiment in Markdown; `old` is what the page has so far."""
    table: Table = importlib.import_module(name.replace("-", "_")).TABLE
    found = remembered(folder / f"{name}.jsonl")
    fresh = table.records([c for c in table.cells if c.key in found], found)
    known = {r["cell"] for r in fresh}
    kept = [r for r in _on_page(table, old) if r["cell"] not in known]
    place = {c.label: k for k, c in enumerate(table.cells)}
    records = sorted(fresh + kept, key=lambda r: place[r["cell"]])
    if not records:
        return "\nNot measured yet.\n\n"
    lines = []
    for metric in table.metrics or dict.fromkeys(r["metric"] for r in records):
        mine = [r for r in records if r["metric"] == metric]
        if mine:
            lines += ["", f"**{metric}**", "", *_rows(table, mine)]
    measured = {r["cell"] for r in records}
    missing = [_label(c.settings) for c in table.cells if c.label not in measured]
    if missing:
        lines += ["", f"Not measured yet: {'; '.join(missing)}."]
    said = _sentences(table, records)
    return "\n".join([*lines, "", *(f"- {line}" for line in said), ""]) + "\n"


def _on_page(table: Table, text: str) -> list[dict[str, Any]]:
    """The records that the tables of a page show."""
    cells = {_label(c.settings): c for c in table.cells}
    records: list[dict[str, Any]] = []
    metric, methods = "", []
    for line in text.split("\n"):
        if line.startswith("**"):
            metric = line.strip("*")
        entries = [e.strip() for e in line.strip("|").split(" | ")]
        if line.startswith("| | n |"):
            methods = entries[2:]
        elif entries[0] in cells:
            shown = zip(methods, map(ENTRY.fullmatch, entries[2:]), strict=True)
            records += [
                record_of(cells[entries[0]], method, metric, float(m[1]), float(m[2]), int(entries[1]))
                for method, m in shown
                if m is not None
            ]
    return records


def _rows(table: Table, records: Sequence[dict[str, Any]]) -> list[str]:
    methods = list(dict.fromkeys(r["method"] for r in records))
    by_place = {(r["cell"], r["method"]): r for r in records}
    lines = ["| | n | " + " | ".join(methods) + " |", "|---|---|" + "---|" * len(methods)]
    for cell in table.cells:
        mine = [by_place.get((cell.label, m)) for m in methods]
        if any(mine):
            count = max(r["repeats"] for r in mine if r is not None)
            shown = " | ".join(_shown(r, table.form) for r in mine)
            lines.append(f"| {_label(cell.settings)} | {count} | {shown} |")
    return lines


def _shown(record: dict[str, Any] | None, form: str) -> str:
    if record is None:
        return "-"
    measured = f"{record['mean']:{form}} ± {record['sd']:{form}}"
    if record["published"] is None:
        return measured
    mark = r"\*" if record["doubt"] else ""
    return f"{record['published']:{form}}{mark} / {measured}"


def _label(settings: Any) -> str:
    named = [v if isinstance(v, str) else f"{k} = {v:g}" for k, v in settings.items()]
    return ", ".join(named)


def _sentences(table: Table, records: Sequence[dict[str, Any]]) -> list[str]:
    """What the experiment prints below its table."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        table.report(records)
    marks = ("* published", "means within", "  not in")
    lines = [
        line for line in out.getvalue().split("\n") if line.endswith(" rows") or any(m in line for m in marks)
    ]
    return [
        line.strip().replace("* published", "\\* published") for line in lines if "(published |" not in line
    ]


if __name__ == "__main__":
    main()
