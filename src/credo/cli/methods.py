"""`credo methods`: every algorithm with its options and promises."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from .arguments import JsonOption
from .output import print_json, print_table

__all__ = ["run"]


def run(as_json: JsonOption = False) -> None:
    """List the inference methods, their options and what they promise."""
    from ..inference.base import algorithms

    entries = [_entry(name, algorithms.get(name)) for name in algorithms.names()]
    if as_json:
        print_json(entries)
        return
    rows = [
        [
            entry["name"],
            ", ".join(entry["promises"]) or "-",
            ", ".join(f"{o['name']}={o['default']}" for o in entry["options"]) or "-",
            entry["description"],
        ]
        for entry in entries
    ]
    print_table(["method", "promises", "options", "what it does"], rows, [False] * 4)


def _entry(name: str, cls: Any) -> dict[str, Any]:
    options = [
        {"name": f.name, "default": _default(f), "type": str(f.type)}
        for f in dataclasses.fields(cls)
        if f.init
    ]
    words = (inspect.getdoc(cls) or "").strip().splitlines()
    return {
        "name": name,
        "description": words[0] if words else "",
        "promises": sorted(cls.promises),
        "options": options,
    }


def _default(option: Any) -> Any:
    if option.default is dataclasses.MISSING:
        return None
    plain = isinstance(option.default, (bool, int, float, str, type(None)))
    return option.default if plain else str(option.default)
