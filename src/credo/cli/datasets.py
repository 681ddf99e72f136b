"""`credo datasets`: the sample models that every command takes by name."""

from __future__ import annotations

import inspect
from typing import Any

from .arguments import JsonOption
from .output import print_json, print_table

__all__ = ["run"]


def run(as_json: JsonOption = False) -> None:
    """List the sample models: any of them can be given in the place of a model file."""
    from ..datasets.catalogue import CONTENTS, names

    entries = [{"name": name, **_call(name), "description": CONTENTS[name].summary} for name in names()]
    if as_json:
        print_json(entries)
        return
    rows = [[entry["call"], ", ".join(entry["options"]) or "-", entry["description"]] for entry in entries]
    print_table(["model", "options", "what it is"], rows, [False] * 3)


def _call(name: str) -> dict[str, Any]:
    """How to write a sample model: with the arguments it needs, and what else it takes."""
    from ..datasets.catalogue import find

    parameters = inspect.signature(find(name)).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty]
    return {
        "call": f"{name}({', '.join(needed)})" if needed else name,
        "options": [p.name for p in parameters if p.default is not p.empty],
    }
