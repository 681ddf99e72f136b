"""What can be kept in a file: numbers, text, arrays, and classes that say so.

`pack` turns a value into a tree of JSON and a list of arrays; `unpacking` turns them back, to the last bit. A
class is made known by a decorator with a tag of its own, and a file names tags only: nothing is imported
because a file says so. Anything else is refused with its type and where it was found.

A class may leave out what can be computed again (plans, compiled programs): those fields are `rebuilt`, taken
from a value `like` the packed one, which whoever unpacks has made in the meantime. An object that changes in
place has `kept` attributes; it is unpacked into the object that stands in its place in `like`. So are
generators, which several objects share.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .errors import UnsupportedError
from .result import Estimate, Status

__all__ = ["GENERATORS", "Known", "changing_parts", "known_record", "needs_like", "pack", "record"]

T = TypeVar("T", bound=type)
_OURS = tuple(f"credo.{room}." for room in ("core", "inference", "learning", "models", "nn", "optimise"))
GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_SHORT = 4  # numbers up to which a sequence is written as text


class Known(NamedTuple):
    """A class that can be kept."""

    tag: str
    cls: type
    fields: tuple[str, ...]  # packed
    rebuilt: tuple[str, ...]  # taken from `like`
    changes: bool  # whether it is changed in place


_BY_TAG: dict[str, Known] = {}
_BY_CLASS: dict[type, Known] = {}


def record(
    tag: str, *, rebuilt: tuple[str, ...] = (), kept: tuple[str, ...] | None = None
) -> Callable[[T], T]:
    """Class decorator: instances can be kept in files.

    Parameters
    ----------
    tag
        What files call the class; stays the same for ever.
    rebuilt
        Fields of a named tuple or dataclass that are not kept because a start makes them again.
    kept
        Attributes of an object that is changed in place; all others belong to the start. A method
        `revive(name)` makes a part that the start does not have yet.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> from credo.core.records import pack, record
    >>> from credo.core.unpacking import unpack
    >>> @record("example")
    ... class Example(NamedTuple):
    ...     number: float
    >>> unpack(*pack(Example(0.1)))
    Example(number=0.1)
    """

    def known(cls: T) -> T:
        names = kept if kept is not None else tuple(n for n in _fields(cls) if n not in rebuilt)
        if tag in _BY_TAG and _BY_TAG[tag].cls.__qualname__ != cls.__qualname__:
            raise ValueError(f"record '{tag}' is declared twice; tags must differ")
        _BY_TAG[tag] = _BY_CLASS[cls] = Known(tag, cls, names, rebuilt, kept is not None)
        return cls

    return known


def known_record(tag: Any) -> Known | None:
    """The class of a tag, if there is one."""
    return _BY_TAG.get(tag) if type(tag) is str else None


def _fields(cls: Any) -> tuple[str, ...]:
    return cls._fields if hasattr(cls, "_fields") else tuple(f.name for f in dataclasses.fields(cls))


record("estimate")(Estimate)


def pack(value: Any, frozen: dict[int, Any] | None = None) -> tuple[Any, list[np.ndarray]]:
    """A tree of JSON and the arrays it refers to by number.

    Parameters
    ----------
    value
        What is kept.
    frozen
        Earlier packed forms of objects that are changed in place, by `id`, to use instead of their present.
    """
    packer = _Packer(frozen or {})
    return packer.packed(value, "run"), packer.arrays


class _Packer:
    def __init__(self, frozen: dict[int, Any]) -> None:
        self.arrays: list[np.ndarray] = []
        self._numbers: dict[int, int] = {}  # id of an array -> its number
        self._frozen = frozen
        self._turned: dict[int, np.ndarray] = {}  # id of an array -> the same, its axes as they lie
        self._held: list[np.ndarray] = []

    def packed(self, value: Any, path: str) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if np.isfinite(value) else {"float": str(value)}
        if kind is np.ndarray:
            return self._array(value, path)
        if kind in (tuple, list):
            return self._sequence(value, path)
        if id(value) in self._frozen:
            return self._thawed(*self._frozen[id(value)])
        if (known := _BY_CLASS.get(kind)) is not None:
            fields = {n: self.packed(getattr(value, n), f"{path}.{n}") for n in known.fields}
            return {"record": known.tag, "fields": fields}
        if hasattr(kind, "_fields") and not kind.__module__.startswith(_OURS):
            return {
                "like": [self.packed(v, f"{path}.{n}") for n, v in zip(value._fields, value, strict=True)]
            }
        return self._rare(value, path)

    def _rare(self, value: Any, path: str) -> Any:
        if isinstance(value, np.generic):
            return {"scalar": self._add(np.asarray(value), path)}
        if type(value) is dict:
            pairs = ([self.packed(k, path), self.packed(v, f"{path}.{k}")] for k, v in value.items())
            return {"dict": list(pairs)}
        if type(value) in (set, frozenset):
            return {type(value).__name__: [self.packed(v, path) for v in sorted(value)]}
        if isinstance(value, Status):
            return {"status": value.value}
        if type(value) is np.random.Generator:
            return {"generator": self._generator(value, path)}
        if (jax := sys.modules.get("jax")) is not None and isinstance(value, jax.Array):
            if not jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
                return {"jax": self._add(np.asarray(value), path)}
            data = np.asarray(jax.random.key_data(value))
            return {"key": self._add(data, path), "kind": str(jax.random.key_impl(value))}
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        raise UnsupportedError(f"{path}: expected arrays, numbers and registered records, got a {name}")

    def _array(self, array: np.ndarray, path: str) -> Any:
        """An array and the order of its axes in memory, on which the order of later sums depends."""
        axes = sorted(range(array.ndim), key=lambda k: -abs(array.strides[k]))
        if array.flags.c_contiguous or axes == sorted(axes):
            return {"array": self._add(array, path)}
        self._held.append(array)  # so that nothing else gets its address
        turned = self._turned.setdefault(id(array), array.transpose(axes))
        return {"array": self._add(turned, path), "axes": axes}

    def _add(self, array: np.ndarray, path: str) -> int:
        if array.dtype.hasobject or (array.dtype.kind == "V" and array.dtype.names is None):
            raise UnsupportedError(f"{path}: expected an array of numbers, got one of {array.dtype}")
        if id(array) not in self._numbers:
            self._numbers[id(array)] = len(self.arrays)
            self.arrays.append(array)
        return self._numbers[id(array)]

    def _sequence(self, value: Any, path: str) -> Any:
        kind = type(value).__name__
        if len(value) > _SHORT:  # long ones of one kind are one array
            first = value[0]
            if all(type(v) is float for v in value):
                return {"floats": self._add(np.array(value), path), "as": kind}
            if isinstance(first, np.generic) and all(type(v) is type(first) for v in value):
                return {"scalars": self._add(np.array(value), path), "as": kind}
            if type(first) is np.ndarray and all(_is_like(v, first) for v in value):
                return {"rows": self._add(np.stack(value), path), "as": kind}
        return {kind: [self.packed(v, f"{path}[{k}]") for k, v in enumerate(value)]}

    def _generator(self, rng: np.random.Generator, path: str) -> Any:
        bits = rng.bit_generator
        name, seeds = type(bits).__name__, bits.seed_seq
        if name not in GENERATORS or type(seeds) is not np.random.SeedSequence:
            raise UnsupportedError(f"{path}: expected a generator of NumPy ({GENERATORS}), got {name}")
        made = (seeds.entropy, tuple(seeds.spawn_key), seeds.pool_size, seeds.n_children_spawned)
        return self.packed({"state": dict(bits.state), "seeds": made}, path)

    def _thawed(self, tree: Any, arrays: list[np.ndarray]) -> Any:
        """An earlier packed form, its arrays among these."""
        first = len(self.arrays)
        self.arrays += arrays
        return _renumbered(tree, first)


_ARRAYS = ("array", "scalar", "jax", "key", "floats", "scalars", "rows")


def _renumbered(tree: Any, by: int) -> Any:
    if isinstance(tree, list):
        return [_renumbered(t, by) for t in tree]
    if isinstance(tree, dict):
        return {k: v + by if k in _ARRAYS and type(v) is int else _renumbered(v, by) for k, v in tree.items()}
    return tree


def _is_like(value: Any, first: np.ndarray) -> bool:
    return (
        type(value) is np.ndarray
        and value.ndim > 0
        and value.shape == first.shape
        and value.dtype == first.dtype
        and value.flags.c_contiguous
        and not value.dtype.hasobject
    )


def changing_parts(value: Any) -> Iterator[Any]:
    """The objects in a value that are changed in place: generators, and records with `kept` attributes."""
    known = _BY_CLASS.get(type(value))
    if isinstance(value, np.random.Generator) or (known is not None and known.changes):
        yield value
    elif known is not None:
        for name in known.fields:
            yield from changing_parts(getattr(value, name))
    elif type(value) in (tuple, list):
        for v in value:
            yield from changing_parts(v)


def needs_like(tree: Any) -> bool:
    """Whether a packed value holds records that can be unpacked only into the place of others."""
    if isinstance(tree, list):
        return any(map(needs_like, tree))
    if not isinstance(tree, dict):
        return False
    known = known_record(tree.get("record"))
    return (
        "like" in tree
        or (known is not None and bool(known.rebuilt or known.changes))
        or any(map(needs_like, tree.values()))
    )
