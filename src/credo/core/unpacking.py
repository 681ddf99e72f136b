"""The way back from a tree of JSON and arrays to what was packed (see `packing`).

The tree may come from anywhere: what is not as `pack` writes it is refused with a sentence.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from .errors import CredoError, FormatError
from .packing import GENERATORS
from .records import Known, known_record
from .result import Status

__all__ = ["unpack"]

_SPECIAL = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}


def unpack(tree: Any, arrays: list[np.ndarray], like: Any = None) -> Any:
    """What was packed; parts that were not packed are taken from `like`."""
    return _Unpacker(arrays).unpacked(tree, like)


class _Unpacker:
    def __init__(self, arrays: list[np.ndarray]) -> None:
        self._arrays = arrays

    def unpacked(self, tree: Any, like: Any) -> Any:
        if tree is None or type(tree) in (bool, int, float, str):
            return tree
        if not isinstance(tree, dict) or not tree:
            raise _damage_error(f"expected a value, got {tree!r:.40}")
        for tag, read in _READERS.items():
            if tag in tree:
                return read(self, tree, like)
        raise _damage_error(f"the kind of value {sorted(tree)!r:.60} is unknown to this version")

    def array(self, number: Any) -> np.ndarray:
        if type(number) is not int or not 0 <= number < len(self._arrays):
            raise _damage_error(f"there is no array {number!r:.20}")
        return self._arrays[number]

    def shaped(self, tree: Any, like: Any) -> np.ndarray:
        found, axes = self.array(tree["array"]), tree.get("axes")
        if axes is None:
            return found
        if not isinstance(axes, list) or sorted(axes, key=str) != sorted(range(found.ndim), key=str):
            raise _damage_error(f"the axes {axes!r:.40} are not those of an array")
        return found.transpose(np.argsort(axes))

    def sequence(self, tree: Any, like: Any) -> Any:
        kind = "tuple" if "tuple" in tree else "list"
        parts = self._list(tree[kind])
        likes = like if isinstance(like, (tuple, list)) and len(like) == len(parts) else [None] * len(parts)
        made = [self.unpacked(t, one) for t, one in zip(parts, likes, strict=True)]
        return tuple(made) if kind == "tuple" else made

    def numbers(self, tree: Any, like: Any) -> Any:
        name = next(n for n in ("floats", "scalars", "rows") if n in tree)
        found = self.array(tree[name])
        if found.ndim == 0:
            raise _damage_error("a list of numbers has none")
        made = found.tolist() if name == "floats" else list(found)
        return tuple(made) if tree.get("as") == "tuple" else made

    def pairs(self, tree: Any, like: Any) -> dict[Any, Any]:
        likes = like if isinstance(like, dict) else {}
        found = {}
        for pair in self._list(tree["dict"]):
            if len(self._list(pair)) != 2:
                raise _damage_error("a table has an entry that is no pair")
            key = self.unpacked(pair[0], None)
            try:
                found[key] = self.unpacked(pair[1], likes.get(key))
            except TypeError:
                raise _damage_error("a table has a key that cannot be one") from None
        return found

    def some(self, tree: Any, like: Any) -> Any:
        name = "set" if "set" in tree else "frozenset"
        parts = [self.unpacked(t, None) for t in self._list(tree[name])]
        try:
            return set(parts) if name == "set" else frozenset(parts)
        except TypeError:
            raise _damage_error("a set has a member that cannot be one") from None

    def foreign(self, tree: Any, like: Any) -> Any:
        parts = self._list(tree["like"])
        if not hasattr(like, "_fields") or len(like) != len(parts):
            raise _damage_error("a part belongs to something that was not started")
        return type(like)(*map(self.unpacked, parts, like))

    def status(self, tree: Any, like: Any) -> Status:
        try:
            return Status(tree["status"])
        except ValueError:
            raise _damage_error(f"the status {tree['status']!r:.40} is unknown to this version") from None

    def special(self, tree: Any, like: Any) -> float:
        if type(tree["float"]) is not str or tree["float"] not in _SPECIAL:
            raise _damage_error(f"expected a number, got {tree['float']!r:.40}")
        return _SPECIAL[tree["float"]]

    def jax(self, tree: Any, like: Any) -> Any:
        import jax

        if "key" in tree:
            return jax.random.wrap_key_data(jax.numpy.asarray(self.array(tree["key"])), impl=tree.get("kind"))
        with jax.enable_x64(True):  # the array says how long its numbers are
            return jax.numpy.asarray(self.array(tree["jax"]))

    def sparse(self, tree: Any, like: Any) -> Any:
        from scipy import sparse

        parts, shape = [self.array(n) for n in self._list(tree["sparse"])], tree.get("shape")
        kind = sparse.csr_array if tree.get("is_array") is True else sparse.csr_matrix
        try:
            made = kind(tuple(parts), shape=tuple(self._list(shape)))
            made.check_format(full_check=True)
        except (ValueError, TypeError, OverflowError) as error:
            raise _damage_error(f"a sparse matrix is none ({error})") from None
        return made

    def generator(self, tree: Any, like: Any) -> np.random.Generator:
        found = self.unpacked(tree["generator"], None)
        try:
            state, (entropy, spawned, size, children) = found["state"], found["seeds"]
            name = state["bit_generator"]
            if name not in GENERATORS:
                raise _damage_error(f"the generator {name!r:.40} is unknown to this version")
            seeds = np.random.SeedSequence(
                entropy, spawn_key=spawned, pool_size=size, n_children_spawned=children
            )
            rng = np.random.Generator(getattr(np.random, name)(seeds))
            rng.bit_generator.state = state
        except (KeyError, TypeError, ValueError):
            raise _damage_error("a generator lacks its state") from None
        return _move(like, rng) if isinstance(like, np.random.Generator) else rng

    def record(self, tree: Any, like: Any) -> Any:
        known = known_record(tree["record"])
        if known is None:
            raise _damage_error(
                f"the record {tree['record']!r:.40} is unknown to this version; import the module that "
                "registers it, if it is yours"
            )
        fields = tree.get("fields")
        if not isinstance(known.made, type) or not isinstance(fields, dict) or not _fits(known, fields):
            raise _damage_error(f"the record '{known.tag}' has other fields than in this version")
        if not known.changes:
            return self._make(known, fields, like)
        if type(like) is not known.made:
            raise _damage_error(f"the record '{known.tag}' belongs to something that was not started")
        for name in known.fields or ():
            if fields[name] is not None and getattr(like, name) is None and hasattr(like, "revive"):
                like.revive(name)
            setattr(like, name, self.unpacked(fields[name], getattr(like, name)))
        return like

    def _make(self, known: Known, fields: dict[str, Any], like: Any) -> Any:
        if not fields and type(like) is known.made:
            return like  # with all it has computed
        values = {n: self.unpacked(t, getattr(like, n, None)) for n, t in fields.items()}
        for name in known.rebuilt:
            if not hasattr(like, name):
                raise _damage_error(f"the record '{known.tag}' belongs to something that was not started")
            values[name] = getattr(like, name)
        if not known.stands_alone:
            return known.made(**values)
        try:
            return known.made(**values) if known.fields is not None else known.made.from_parts(**values)
        except CredoError as error:
            raise _damage_error(str(error)) from None
        except Exception as error:  # parts of a wrong kind make constructors fail in any way
            told = f"{type(error).__name__}: {error}"
            raise _damage_error(f"the parts of '{known.tag}' do not make one ({told:.200})") from None

    def function(self, tree: Any, like: Any) -> Any:
        known = known_record(tree["function"])
        if known is None or isinstance(known.made, type):
            raise _damage_error(
                f"the function {tree['function']!r:.40} is unknown; import the module that registers it"
            )
        return known.made

    def _list(self, tree: Any) -> list[Any]:
        if not isinstance(tree, list):
            raise _damage_error(f"expected several values, got {tree!r:.40}")
        return tree


_READERS: dict[str, Callable[[_Unpacker, Any, Any], Any]] = {
    "record": _Unpacker.record,
    "array": _Unpacker.shaped,
    "tuple": _Unpacker.sequence,
    "list": _Unpacker.sequence,
    "float": _Unpacker.special,
    "floats": _Unpacker.numbers,
    "scalars": _Unpacker.numbers,
    "rows": _Unpacker.numbers,
    "scalar": lambda u, tree, like: u.array(tree["scalar"])[()],
    "dict": _Unpacker.pairs,
    "set": _Unpacker.some,
    "frozenset": _Unpacker.some,
    "status": _Unpacker.status,
    "generator": _Unpacker.generator,
    "jax": _Unpacker.jax,
    "key": _Unpacker.jax,
    "like": _Unpacker.foreign,
    "function": _Unpacker.function,
    "sparse": _Unpacker.sparse,
}


def _fits(known: Known, fields: dict[str, Any]) -> bool:
    """Whether these are the names of the parts of a record."""
    if known.fields is not None:
        return set(fields) == set(known.fields)
    try:
        inspect.signature(known.made.from_parts).bind(**fields)
    except TypeError:
        return False
    return True


def _move(rng: np.random.Generator, to: np.random.Generator) -> np.random.Generator:
    """The generator itself where another one stands, if it came from the same seed."""
    mine, other = cast(list[np.random.SeedSequence], [g.bit_generator.seed_seq for g in (rng, to)])
    ahead = other.n_children_spawned - mine.n_children_spawned
    same = [repr((seeds.entropy, seeds.spawn_key)) for seeds in (mine, other)]
    if same[0] != same[1] or ahead < 0 or type(rng.bit_generator) is not type(to.bit_generator):
        return to
    if ahead:
        mine.spawn(ahead)
    rng.bit_generator.state = to.bit_generator.state
    return rng


def _damage_error(why: str) -> FormatError:
    return FormatError(why)
