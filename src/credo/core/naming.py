"""Reading by name: values of variables in an answer, and what a model says about each of its variables."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Protocol, TypeVar

from .display import LIMIT, Listing, Shown, beyond
from .variable import Variable, Variables

__all__ = ["OFFERED", "ByName", "Lookup", "NamedModel"]

V = TypeVar("V")

OFFERED = 2000  # names offered when a notebook completes a key
_LABELS = 60  # characters of the states of one variable


class ByName(Mapping[str, V]):
    """Name -> value, made from the position of the variable; another name is a `QueryError`."""

    _variables: Variables

    @abc.abstractmethod
    def _at(self, i: int) -> V:
        """The value of the variable at a position."""

    def __getitem__(self, name: str) -> V:
        return self._at(self._variables.position(name))

    def __contains__(self, name: object) -> bool:
        return name in self._variables

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a variable, or `default` if there is none."""
        return self[name] if name in self else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables.names)

    def __len__(self) -> int:
        return len(self._variables)

    def _ipython_key_completions_(self) -> list[str]:
        return list(islice(self, OFFERED))


class Lookup(ByName[V]):
    """Name -> what a function says about the position."""

    def __init__(self, variables: Variables, read: Callable[[int], V]) -> None:
        self._variables, self._read = variables, read

    def _at(self, i: int) -> V:
        return self._read(i)

    def __repr__(self) -> str:
        return repr(dict(self))


class _HasVariables(Protocol):
    @property
    def variables(self) -> Variables: ...


class NamedModel(Shown):
    """A model over named variables: `states`, `len(model)`, `name in model`, and a table in notebooks."""

    @abc.abstractmethod
    def __repr__(self) -> str:
        """One line: the kind of model and its size."""

    @property
    def states(self: _HasVariables) -> Mapping[str, tuple[str, ...]]:
        """Name -> state labels, in the order of the table axis."""
        return Lookup(self.variables, lambda i: self.variables[i].states)

    def __len__(self: _HasVariables) -> int:
        """Number of variables."""
        return len(self.variables)

    def __bool__(self) -> bool:
        """True: a model without variables is a model."""
        return True

    def __contains__(self: _HasVariables, name: object) -> bool:
        """Whether there is a variable of this name."""
        return name in self.variables

    def _columns(self) -> Mapping[str, Callable[[int], str]]:
        """Title -> what it says about the variable at a position, beside its states."""
        return {}

    def _shown(self) -> Iterable[str | Listing]:
        yield repr(self)
        variables: Variables = self.variables  # type: ignore[attr-defined]
        told = self._columns()
        rows = [
            [v.name, _values(v), *(say(i) for say in told.values())]
            for i, v in enumerate(islice(variables, LIMIT))
        ]
        header = ["variable", "states", *told]
        yield Listing(rows, [False] * len(header), header, more=beyond(len(variables), "variables"))


def _values(variable: Variable) -> str:
    """The states of a discrete variable, the domain of another."""
    if not variable.is_discrete:
        return repr(variable.domain)
    text = ", ".join(variable.label(i) for i in range(min(variable.size, _LABELS)))
    return text if len(text) <= _LABELS else f"{text[:_LABELS]}... ({variable.size} in all)"
