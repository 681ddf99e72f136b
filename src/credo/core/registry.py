"""Names for algorithms, learners and formats, and the text form `"name(option=value)"`.

The text means the same in Python and in the shell. Values are Python literals; a bare word
is a string: `"junction-tree(propagation=hugin)"`.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import re
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from .errors import OptionError

__all__ = ["Registry", "describe", "read_spec", "read_value"]

T = TypeVar("T")
_SPEC = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)


class Registry(Generic[T]):
    """A table of final classes by name. `kind` is the word used in messages."""

    def __init__(self, kind: str, load: Callable[[], Any] = lambda: None) -> None:
        self._kind = kind
        self._load = load  # imports the modules that register themselves
        self._classes: dict[str, type[T]] = {}

    def register(self, cls: type[T]) -> type[T]:
        """Class decorator: make `cls` known under `cls.name`."""
        name: str = cls.name  # type: ignore[attr-defined]
        if name in self._classes and self._classes[name].__qualname__ != cls.__qualname__:
            raise OptionError(f"{self._kind} '{name}' is registered twice; names must differ")
        self._classes[name] = cls
        return cls

    def names(self) -> list[str]:
        """All names, sorted."""
        self._load()
        return sorted(self._classes)

    def get(self, name: str) -> type[T]:
        """The class of this name."""
        self._load()
        if name not in self._classes:
            near = difflib.get_close_matches(name, self._classes, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise OptionError(f"no {self._kind} named '{name}'; there are {self.names()}{hint}")
        return self._classes[name]

    def resolve(self, spec: str | T) -> T:
        """Make an object from `"name(option=value)"`; an object passes through."""
        if not isinstance(spec, str):
            return spec
        name, parts = read_spec(self._kind, spec)
        cls = self.get(name)
        options = dict(_option(name, part) for part in parts)
        known = [f.name for f in dataclasses.fields(cls) if f.init]  # type: ignore[arg-type]
        for option in options:
            if option not in known:
                raise OptionError(f"{name} has no option '{option}'; its options are {known}")
        return cls(**options)


def describe(item: Any) -> str:
    """The text form of a registered object: its name and the options that are not at default."""
    parts = [
        f"{f.name}={getattr(item, f.name)}"
        for f in dataclasses.fields(item)
        if f.init and getattr(item, f.name) != f.default
    ]
    return f"{item.name}({', '.join(parts)})" if parts else str(item.name)


def read_spec(kind: str, spec: str) -> tuple[str, list[str]]:
    """The name in `"name(option=value)"`, and what stands between the commas of its brackets."""
    match = _SPEC.fullmatch(spec)
    if not match:
        raise OptionError(f"{kind}: expected 'name' or 'name(option=value)', got {spec!r}")
    return match.group(1), _split(match.group(2) or "")


def read_value(text: str) -> Any:
    """A Python literal, or the text itself if it is none."""
    literal = {"true": True, "false": False, "none": None}
    if text.lower() in literal:
        return literal[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _split(text: str) -> list[str]:
    """Split at commas outside brackets and quotes."""
    parts, depth, quote, current = [], 0, "", ""
    for c in text:
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        if c == "," and depth == 0 and not quote:
            parts.append(current)
            current = ""
        else:
            current += c
    parts.append(current)
    return [p.strip() for p in parts if p.strip()]


def _option(name: str, part: str) -> tuple[str, Any]:
    key, sep, value = part.partition("=")
    if not sep or not key.strip().isidentifier() or not value.strip():
        raise OptionError(f"{name}: expected option=value, got {part!r}")
    return key.strip(), read_value(value.strip())
