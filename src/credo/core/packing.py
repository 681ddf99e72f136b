"""Values as trees of JSON and lists of arrays.

What may be a value is told in `records`; `unpacking` is the way back, to the last bit. Anything else is
refused with its type and where it was found.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from .errors import UnsupportedError
from .records import Known, known_class, known_function, known_record
from .result import Status

__all__ = ["GENERATORS", "changing_parts", "needs_like", "pack"]

_OURS = tuple(f"credo.{room}." for room in ("core", "inference", "learning", "models", "nn", "optimise"))
GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_SHORT = 4  # numbers up to which a sequence is written as text


def pack(value: Any, frozen: dict[int, Any] | None = None, name: str = "run") -> tuple[Any, list[np.ndarray]]:
    """A tree of JSON and the arrays it refers to by number.

    Parameters
    ----------
    value
        What is kept.
    frozen
        Earlier packed forms of objects that are changed in place, by `id`, to use instead of their present.
    name
        What messages call it.
    """
    packer = _Packer(frozen or {})
    return packer.packed(value, name), packer.arrays


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
            return self._thaw(*self._frozen[id(value)])
        if (known := known_class(kind)) is not None:
            return self._record(known, value, path)
        if hasattr(kind, "_fields") and not kind.__module__.startswith(_OURS):
            return {
                "like": [self.packed(v, f"{path}.{n}") for n, v in zip(value._fields, value, strict=True)]
            }
        return self._rare(value, path)

    def _record(self, known: Known, value: Any, path: str) -> Any:
        if known.fields is None:
            parts = value.to_parts()
        else:
            parts = {name: getattr(value, attribute) for name, attribute in known.fields.items()}
        packed = {name: self.packed(part, f"{path}.{name}") for name, part in parts.items()}
        return {"record": known.tag, "fields": packed}

    def _rare(self, value: Any, path: str) -> Any:
        if (function := known_function(value)) is not None:
            return {"function": function.tag}
        if isinstance(value, np.generic):
            return {"scalar": self._add(np.asarray(value), path)}
        if (sparse := sys.modules.get("scipy.sparse")) is not None and sparse.issparse(value):
            return self._sparse(value.tocsr(), isinstance(value, sparse.sparray), path)
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
            return self._jax(jax, value, path)
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        raise UnsupportedError(
            f"{path}: expected arrays, numbers and what is known by `@credo.register(tag)`, got a {name}"
        )

    def _jax(self, jax: Any, value: Any, path: str) -> Any:
        if not jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            return {"jax": self._add(np.asarray(value), path)}
        data = np.asarray(jax.random.key_data(value))
        return {"key": self._add(data, path), "kind": str(jax.random.key_impl(value))}

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

    def _sparse(self, matrix: Any, is_array: bool, path: str) -> Any:
        parts = [self._add(np.asarray(part), path) for part in (matrix.data, matrix.indices, matrix.indptr)]
        return {"sparse": parts, "shape": list(map(int, matrix.shape)), "is_array": is_array}

    def _generator(self, rng: np.random.Generator, path: str) -> Any:
        bits = rng.bit_generator
        name, seeds = type(bits).__name__, bits.seed_seq
        if name not in GENERATORS or type(seeds) is not np.random.SeedSequence:
            raise UnsupportedError(f"{path}: expected a generator of NumPy ({GENERATORS}), got {name}")
        made = (seeds.entropy, tuple(seeds.spawn_key), seeds.pool_size, seeds.n_children_spawned)
        return self.packed({"state": dict(bits.state), "seeds": made}, path)

    def _thaw(self, tree: Any, arrays: list[np.ndarray]) -> Any:
        """An earlier packed form, its arrays among these."""
        first = len(self.arrays)
        self.arrays += arrays
        return _renumber(tree, first)


_ARRAYS = ("array", "scalar", "jax", "key", "floats", "scalars", "rows", "sparse")


def _renumber(tree: Any, by: int) -> Any:
    if isinstance(tree, list):
        return [_renumber(t, by) for t in tree]
    if isinstance(tree, dict) and "record" in tree:  # names of fields may be spelt like the words for arrays
        return {**tree, "fields": {k: _renumber(v, by) for k, v in tree["fields"].items()}}
    if isinstance(tree, dict):
        return {k: _shift(v, by) if k in _ARRAYS else _renumber(v, by) for k, v in tree.items()}
    return tree


def _shift(numbers: Any, by: int) -> Any:
    """The numbers of arrays, one or several."""
    if type(numbers) is int:
        return numbers + by
    if isinstance(numbers, list) and all(type(n) is int for n in numbers):
        return [n + by for n in numbers]
    return _renumber(numbers, by)


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
    known = known_class(type(value))
    if isinstance(value, np.random.Generator) or (known is not None and known.changes):
        yield value
    elif known is not None:
        for name in (known.fields or {}).values():
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
