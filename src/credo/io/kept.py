"""What the two forms that keep everything share: the head of a file and the tree of what it holds.

    {"format": "credo", "version": 2, "model": {"record": tag, "fields": {...}}}

A record is an object by its tag and its parts (`core.records`), and arrays stand beside the tree: as members
of a `.credo` file, inline in a `.json` file.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import FormatError, ModelError
from ..core.packing import needs_like, pack
from ..core.records import known_class
from ..core.unpacking import unpack

__all__ = ["VERSION", "read_tree", "write_tree"]

VERSION = 2


def write_tree(model: Any) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Head and tree, and the arrays they refer to by number."""
    known = known_class(type(model))
    if known is None or not known.stands_alone:
        raise ModelError(
            "save: expected a model, a family, a fit or an object of a class known by "
            f"`@credo.register(tag)`, got {model!r:.80}"
        )
    tree, arrays = pack(model, name=type(model).__name__)
    return {"format": "credo", "version": VERSION, "model": tree}, arrays


def read_tree(content: Any, arrays: list[np.ndarray], file: str) -> Any:
    """The object of a head and a tree; every way in which they are wrong is one sentence."""
    if isinstance(content, dict) and content.get("kind") == "run of credo":
        raise FormatError(
            f"{file}: expected a model, got the checkpoint of a run; repeat the call with checkpoint={file!r}"
        )
    head = {name: content.get(name) for name in ("format", "version")} if isinstance(content, dict) else {}
    if head != {"format": "credo", "version": VERSION}:
        told = ", ".join(f"{name} {value!r:.40}" for name, value in head.items()) or f"{content!r:.40}"
        raise FormatError(f"{file}: expected the format 'credo', version {VERSION}, got {told}")
    tree = content.get("model")
    if set(content) - {"arrays"} != {"format", "version", "model"} or not isinstance(tree, dict):
        raise FormatError(f"{file}: expected one model, got {sorted(content)!r:.80}")
    try:
        if "record" not in tree or needs_like(tree):
            raise FormatError(f"expected the record of a model, got {tree!r:.60}")
        made = unpack(tree, arrays)
    except FormatError as error:
        raise FormatError(f"{file}: {error}") from None
    except RecursionError:
        raise FormatError(f"{file}: expected a model, got parts in parts without end") from None
    known = known_class(type(made))
    if known is None or not known.stands_alone:
        raise FormatError(f"{file}: expected a model, got a part of a run, {type(made).__name__}")
    return made
