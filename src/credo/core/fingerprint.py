"""Short names of what a run is about, so that two problems can be told apart later.

A fingerprint covers values: arrays, numbers, text, the fields of dataclasses, graphs, and functions by their
code, defaults and what they close over. It tells accidents, not attacks.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from .factor_graph import FactorGraph
from .variable import Variable, Variables

__all__ = ["fingerprint"]

_Parts = bytes | Iterable[Any]


def fingerprint(*values: Any) -> str:
    """The same text for equal values, another one for others.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.core.fingerprint import fingerprint
    >>> fingerprint(np.arange(3), "a") == fingerprint(np.arange(3), "a") != fingerprint(np.arange(3), "b")
    True
    """
    found = _Digest()
    for value in values:
        found.add(value)
    return found.digest.hexdigest()


class _Digest:
    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=16)
        self._open: set[int] = set()  # what is being added: a function may close over itself

    def add(self, value: Any) -> None:
        """Feed a value: its kind, then its parts."""
        name, parts = _plain(value) or _model(value) or _other(value)
        self.digest.update(f"{name};".encode())
        if isinstance(parts, bytes):
            self.digest.update(parts)
        elif id(value) not in self._open:
            self._open.add(id(value))
            for part in parts:
                self.add(part)
            self._open.discard(id(value))
        self.digest.update(b")")


def _plain(value: Any) -> tuple[str, _Parts] | None:
    """Numbers, text and containers of them."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"{value.dtype.str}{value.shape}", np.ascontiguousarray(value).tobytes()
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        text = repr(value).encode()
        return f"{type(value).__name__}{len(text)}", text
    if isinstance(value, Mapping):
        return f"map{len(value)}", [part for item in value.items() for part in item]
    if isinstance(value, (set, frozenset)):
        return f"set{len(value)}", sorted(value, key=repr)
    if isinstance(value, (tuple, list)):
        return f"list{len(value)}", value
    return None


def _model(value: Any) -> tuple[str, _Parts] | None:
    """Graphs and variables."""
    if isinstance(value, FactorGraph):
        arrays = (value.scope_start, value.scope, value.table_start, value.log_tables)
        return "graph", (value.variables, *arrays, value.others)
    if isinstance(value, Variables):
        domains = [d for d, size in zip(value.domains, value.sizes, strict=True) if not size]
        return "variables", ("\0".join(value.names), value.sizes, domains)
    if isinstance(value, Variable):
        return "variable", (value.name, value.domain)
    return None


def _other(value: Any) -> tuple[str, _Parts]:
    """Functions, and objects by what they are made of."""
    if isinstance(value, FunctionType):
        cells = [getattr(cell, "cell_contents", None) for cell in value.__closure__ or ()]
        return value.__qualname__, (value.__code__, value.__defaults__, value.__kwdefaults__, cells)
    if isinstance(value, CodeType):
        return value.co_name, (value.co_code, value.co_names, value.co_consts)
    if isinstance(value, functools.partial):
        return "partial", (value.func, value.args, value.keywords)
    if isinstance(value, MethodType):
        return "method", (value.__func__, value.__self__)
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return name, [getattr(value, f.name) for f in dataclasses.fields(value)]
    return name, (getattr(value, "__qualname__", ""), getattr(value, "__wrapped__", None))
