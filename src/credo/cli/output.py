"""How commands print: Rich tables on a terminal, aligned text elsewhere, JSON when asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import typer

__all__ = ["bar", "is_terminal", "note", "print_json", "print_pairs", "print_table"]

BAR_WIDTH = 24
FOLDED = 12  # characters a column of text can be narrowed to


def is_terminal() -> bool:
    """Whether somebody is looking at standard output."""
    return sys.stdout.isatty()


def note(sentence: str) -> None:
    """A remark on standard error, out of the way of the answer."""
    typer.echo(f"credo: {sentence}", err=True)


def print_json(value: Any) -> None:
    """Valid JSON: infinite numbers are written as text."""
    typer.echo(json.dumps(_plain(value), indent=2, allow_nan=False))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
    """A table; `right[k]` puts column k flush right."""
    if not is_terminal():
        _print_aligned(header, rows, right)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    widths = [max(len(line[k]) for line in (header, *rows)) for k in range(len(header))]
    folds = [k > 0 and not flush for k, flush in enumerate(right)]
    least = sum(min(w, FOLDED) if fold else w for w, fold in zip(widths, folds, strict=True))
    if least + 3 * len(header) > console.width:
        _print_aligned(header, rows, right)  # folded numbers cannot be read; long lines can
        return
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    for title, flush, fold in zip(header, right, folds, strict=True):
        table.add_column(title, justify="right" if flush else "left", overflow="fold", no_wrap=not fold)
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def _print_aligned(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
    from ..core.display import align

    typer.echo(align(header, rows, right))


def print_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Lines of a name and a value."""
    width = max((len(name) for name, _ in pairs), default=0)
    if not is_terminal():
        typer.echo("\n".join(f"{name:<{width}}  {value}" for name, value in pairs))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for name, value in pairs:
        console.print(Text.assemble((f"{name:<{width}}", "cyan"), "  ", value))


def bar(share: float) -> str:
    """A bar of block characters for a probability, in eighths of a character."""
    eighths = round(max(0.0, min(1.0, share)) * BAR_WIDTH * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    from ..core.display import finite

    return finite(value)
