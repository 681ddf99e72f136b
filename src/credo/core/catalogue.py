"""Things made by functions with names: `"asia"`, `"ising-grid(20, coupling=0.3)"`, `"hmm(states=3)"`.

A name is that of the function that makes the thing; hyphens and underscores are the same. The module of a
function is imported when it is asked for. The text in brackets is that of `registry.py`; values may also be
given by position, as in a call.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import OptionError
from .registry import Entry, near_misses, or_else, read_spec, read_value, summary_of

__all__ = ["Catalogue", "entries_of"]


def entries_of(module: str, **summaries: str) -> dict[str, Entry]:
    """Name -> entry, of functions of one module."""
    return {spell(name): Entry(module, text) for name, text in summaries.items()}


def spell(name: str) -> str:
    """A name as catalogues list it."""
    return name.strip().lower().replace("_", "-")


@dataclass(frozen=True)
class Catalogue:
    """Functions by name, which make one kind of thing.

    Examples
    --------
    >>> from credo.core.catalogue import Catalogue, entries_of
    >>> fractions = Catalogue("number", entries_of("fractions", Fraction="A ratio."), "credo numbers")
    >>> fractions.is_name("fraction(1, 2)"), fractions.names()
    (True, ['fraction'])
    """

    kind: str  # the word used in messages
    contents: Mapping[str, Entry]  # name -> where its function is, and what it makes
    listing: str  # a command that shows all names

    def names(self) -> list[str]:
        """All names, sorted; imports nothing."""
        return sorted(self.contents)

    def is_name(self, spec: str) -> bool:
        """Whether a text begins with a name of this catalogue, whatever stands in brackets after it."""
        return spell(spec.partition("(")[0]) in self.contents

    def find(self, name: str) -> Callable[..., Any]:
        """The function of this name; its module is imported if it was not yet."""
        spelt = spell(name)
        if spelt not in self.contents:
            near = near_misses(name, self.contents)
            hint = f"did you mean {or_else(near)}? " if near else ""
            raise OptionError(
                f"no {self.kind} named '{name}'; {hint}`{self.listing}` lists all {len(self.contents)}"
            )
        module = importlib.import_module(self.contents[spelt].module)
        made: Callable[..., Any] = getattr(module, spelt.replace("-", "_"))
        return made

    def make(self, spec: str, **more: Any) -> Any:
        """What a text such as `"ising-grid(20, coupling=0.3)"` says; `more` are arguments beside it."""
        if not isinstance(spec, str):
            raise OptionError(f"{self.kind}: expected a name such as {self.names()[0]!r}, got {spec!r:.80}")
        name, parts = read_spec(self.kind, spec)
        make = self.find(name)
        pairs = [_argument(part) for part in parts]
        signature = inspect.signature(make)
        twice = [key for key, _ in pairs if key in more]
        if twice:
            raise OptionError(f"{name}: {twice[0]} is given twice, in brackets and beside them; give it once")
        try:
            named = {k: v for k, v in pairs if k} | more
            bound = signature.bind(*(v for k, v in pairs if not k), **named)
        except TypeError as error:
            known = list(signature.parameters)
            takes = f"its arguments are {known}" if known else "it takes no arguments"
            raise OptionError(f"{name}: {error}; {takes}") from None
        return make(*bound.args, **bound.kwargs)

    def describe(self, name: str) -> dict[str, Any]:
        """How to write an item with the arguments it needs, what it is, and all its arguments."""
        make = self.find(name)
        parameters = inspect.signature(make).parameters.values()
        needed = [p.name for p in parameters if p.default is p.empty]
        spelt = spell(make.__name__)
        return {
            "name": spelt,
            "call": f"{spelt}({', '.join(needed)})" if needed else spelt,
            "description": summary_of(make),
            "arguments": {p.name: "needed" if p.default is p.empty else str(p.default) for p in parameters},
        }


def _argument(part: str) -> tuple[str, Any]:
    """Name and value of `name=value`; a value alone has an empty name."""
    key, equals, value = part.partition("=")
    if equals and key.strip().isidentifier():
        return key.strip(), read_value(value.strip())
    return "", read_value(part)
