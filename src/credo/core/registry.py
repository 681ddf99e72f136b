"""Names for algorithms, learners and formats, and the text form `"name(option=value)"`.

The text means the same in Python and in the shell. Values are Python literals; a bare word
is a string: `"junction-tree(propagation=hugin)"`. What is known of a name before the module that
defines it is imported is its `Entry`: a registry lists entries, and imports the one module asked for.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .errors import OptionError

__all__ = [
    "Entry",
    "Registry",
    "describe",
    "near_misses",
    "options_of",
    "or_else",
    "read_spec",
    "read_value",
    "summary_of",
]

T = TypeVar("T")
_SPEC = re.compile(r"\s*([A-Za-z][\w -]*?)\s*(?:\((.*)\))?\s*", re.DOTALL)
_PACKAGE = __name__.partition(".")[0]
_SUGGESTED = 3  # most names a hint offers
_NEARLY = 0.15  # by how much less alike than the best a suggestion may be


@dataclass(frozen=True)
class Entry:
    """What is known of a registered class before its module is imported."""

    module: str  # dotted name of the module that defines it
    summary: str  # the first line of its docstring


class Registry(Generic[T]):
    """A table of final classes by name.

    Parameters
    ----------
    kind
        The word used in messages.
    contents
        Returns name -> entry of the classes whose modules are imported when they are asked for.
    listing
        A command that shows all names, for registries too long for a message.
    aliases
        Other words for names; they are understood, and not listed.
    """

    def __init__(
        self,
        kind: str,
        contents: Callable[[], Mapping[str, Entry]] = dict,
        listing: str = "",
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self._kind = kind
        self._contents = contents
        self._listing = listing
        self._aliases = dict(aliases or {})
        self._classes: dict[str, type[T]] = {}  # those whose modules have been imported

    def register(self, cls: type[T]) -> type[T]:
        """Class decorator: make `cls` known under `cls.name`."""
        name: str = cls.name  # type: ignore[attr-defined]
        known = self._classes.get(name)
        if (
            name in self._aliases
            or self._is_listed(name, cls)
            or (known is not None and known.__qualname__ != cls.__qualname__)
        ):
            raise OptionError(f"{self._kind} '{name}' is registered twice; names must differ")
        self._classes[name] = cls
        return cls

    def _is_listed(self, name: str, cls: type[T]) -> bool:
        """Whether the name is that of a class of another module, imported or not."""
        if cls.__module__.partition(".")[0] == _PACKAGE:
            return False  # one of those in the table of contents, which need not be read for it
        entry = self._contents().get(name)
        return entry is not None and entry.module != cls.__module__

    def names(self) -> list[str]:
        """All names, sorted; imports nothing."""
        return sorted({*self._contents(), *self._classes})

    def entries(self) -> Mapping[str, Entry]:
        """Name -> what is known of each class; imports nothing."""
        known = self._contents()
        others = {n: cls for n, cls in self._classes.items() if n not in known}
        return {**known, **{n: Entry(cls.__module__, summary_of(cls)) for n, cls in others.items()}}

    def get(self, name: str) -> type[T]:
        """The class of this name; its module is imported if it was not yet."""
        name = self._aliases.get(name, name)
        entry = self._contents().get(name)
        if name not in self._classes and entry is not None:
            importlib.import_module(entry.module)
        if name not in self._classes:
            raise OptionError(f"no {self._kind} named '{name}'{self._hint(name)}")
        return self._classes[name]

    def _hint(self, name: str) -> str:
        known = self.names()
        near = near_misses(name, known)
        hint = f"; did you mean {or_else(near)}?" if near else ""
        if self._listing:
            return f"{hint or ';'} `{self._listing}` lists all {len(known)}"
        return hint or f"; there are {known}"

    def resolve(self, spec: str | T) -> T:
        """Make an object from `"name(option=value)"`; an object passes through."""
        if not isinstance(spec, str):
            return spec
        name, parts = read_spec(self._kind, spec)
        cls = self.get(name)
        options = dict(_option(name, part) for part in parts)
        known = options_of(cls)
        for option in options:
            if option not in known:
                near = near_misses(option, known)
                hint = f"did you mean {or_else(near)}? " if near else ""
                raise OptionError(f"{name} has no option '{option}'; {hint}its options are {known}")
        return cls(**options)


def options_of(cls: type) -> list[str]:
    """The names of the options of a registered class."""
    return [f.name for f in dataclasses.fields(cls) if f.init]


def summary_of(item: object) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(item) or "").partition("\n")[0]


def near_misses(name: str, known: Iterable[str]) -> list[str]:
    """Names that may have been meant: spelt alike, or sharing all the words of the shorter one."""
    known = list(known)
    plain = re.sub(r"[\s_-]+", "-", name.strip().lower())
    spelt = {re.sub(r"[\s_-]+", "-", k.lower()): k for k in known}
    if plain in spelt:
        return [spelt[plain]]
    words = set(plain.split("-"))
    alike = _alike(plain, spelt)
    sharing = [k for k in spelt if words <= set(k.split("-")) or set(k.split("-")) <= words]
    found = dict.fromkeys([*alike, *sorted(sharing, key=len)])
    return [spelt[k] for k in found][:_SUGGESTED]


def _alike(word: str, known: Iterable[str]) -> list[str]:
    """The words most like this one, and those nearly as much like it."""
    found = difflib.get_close_matches(word, known, n=_SUGGESTED)
    likeness = [difflib.SequenceMatcher(a=k, b=word).ratio() for k in found]
    return [k for k, ratio in zip(found, likeness, strict=True) if ratio > likeness[0] - _NEARLY]


def or_else(names: Iterable[str]) -> str:
    """Names in quotes, for a sentence: 'a', 'b' or 'c'."""
    *others, last = [f"'{name}'" for name in names]
    return f"{', '.join(others)} or {last}" if others else last


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
