"""What the options of a dataclass mean, read from the comments on their lines.

The comment is the one place where an option is explained: documentation and shell show it from there.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from typing import Any

__all__ = ["option_notes", "options_with_notes"]


def option_notes(cls: type) -> dict[str, str]:
    """Field -> the comment on its line, for a dataclass and its bases; nothing where there is no source."""
    notes: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        try:
            source = textwrap.dedent(inspect.getsource(base))
        except (OSError, TypeError):
            continue
        lines = source.splitlines()
        for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                notes[node.target.id] = _comment(lines, node.lineno, node.end_lineno or node.lineno)
    return notes


def _comment(lines: list[str], first: int, last: int) -> str:
    """The comment after a statement, or the comment lines right above it."""
    _, mark, after = lines[last - 1].partition("  # ")
    if mark:
        return after.strip()
    above: list[str] = []
    for line in reversed(lines[: first - 1]):
        if not line.strip().startswith("#"):
            break
        above.insert(0, line.strip().lstrip("# "))
    return " ".join(above)


def options_with_notes(cls: type) -> list[dict[str, Any]]:
    """Name, default, type and meaning of each option; a default that is no plain value as text."""
    notes = option_notes(cls)
    return [
        {"name": f.name, "default": _default(f), "type": str(f.type), "meaning": notes.get(f.name, "")}
        for f in dataclasses.fields(cls)
        if f.init
    ]


def _default(option: dataclasses.Field[Any]) -> Any:
    if option.default is dataclasses.MISSING:
        return None
    plain = isinstance(option.default, (bool, int, float, str, type(None)))
    return option.default if plain else str(option.default)
