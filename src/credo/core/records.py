"""What can be kept in a file: numbers, text, arrays, and classes and functions that say so.

A class or a function is made known by a decorator with a tag of its own. A file names tags only, and tags of
this package are looked up in a table (`record_contents`): nothing is imported because a file says so. How
values become trees of JSON and arrays, and come back, is told in `packing` and `unpacking`.

There are three ways to say what an object is made of:

    fields     named tuples and dataclasses: all their fields; others: `fields` names the arguments of the
               constructor, which are attributes of the same names (or a mapping argument -> attribute)
    parts      a method `to_parts()` that returns name -> value, and a class method `from_parts(**parts)`
    function   its tag is all of it

A part of the state of a run (`record`) may leave out what can be computed again (plans, compiled programs):
those fields are `rebuilt`, taken from a value `like` the packed one, which whoever unpacks has made in the
meantime. An object that changes in place has `kept` attributes; it is unpacked into the object that stands in
its place in `like`. So are generators, which several objects share.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

from .errors import OptionError
from .record_contents import CONTENTS

__all__ = ["Known", "known_class", "known_function", "known_record", "record", "register", "registered"]

T = TypeVar("T", bound=type)
R = TypeVar("R", bound=Callable[..., Any])
_PACKAGE = __name__.partition(".")[0]


class Known(NamedTuple):
    """A class or a function that can be kept."""

    tag: str
    made: Any  # the class, or the function
    fields: Mapping[str, str] | None  # argument -> attribute that is packed; None: by its parts
    rebuilt: tuple[str, ...] = ()  # taken from `like`
    changes: bool = False  # whether it is changed in place
    stands_alone: bool = False  # whether a file may hold it and nothing else


_BY_TAG: dict[str, Known] = {}
_BY_CLASS: dict[type, Known] = {}
_BY_FUNCTION: dict[Any, Known] = {}


def register(tag: str, *, fields: Sequence[str] | Mapping[str, str] | None = None) -> Callable[[R], R]:
    """Decorator of a class or a function: `credo.save` can keep it, and `credo.load` finds it by its tag.

    Parameters
    ----------
    tag
        What files call it; stays the same for ever.
    fields
        Arguments of the constructor that are attributes too, or a mapping argument -> attribute. Without them
        a class has `to_parts()` and `from_parts(**parts)`, or is a named tuple or a dataclass.

    Examples
    --------
    >>> import credo, pathlib, tempfile
    >>> @credo.register("example.coin", fields=["heads"])
    ... class Coin:
    ...     def __init__(self, heads):
    ...         self.heads = heads
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "coin.credo"
    >>> credo.save(Coin(0.3), path)
    >>> credo.load(path).heads
    0.3
    """
    if not isinstance(tag, str) or not tag:
        raise OptionError(f"register: expected a tag, a short text, got {tag!r:.80}")

    def known(item: R) -> R:
        if isinstance(item, type):
            _file(Known(tag, item, _told_fields(tag, item, fields), stands_alone=True))
        elif isinstance(item, FunctionType) and fields is None:
            _file(Known(tag, item, {}))
        else:
            raise OptionError(f"register '{tag}': expected a class or a function, got {item!r:.80}")
        return item

    return known


def record(
    tag: str, *, rebuilt: tuple[str, ...] = (), kept: tuple[str, ...] | None = None
) -> Callable[[T], T]:
    """Class decorator: instances can be kept in checkpoints, as parts of the state of a run.

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
    >>> from credo.core.packing import pack
    >>> from credo.core.records import record
    >>> from credo.core.unpacking import unpack
    >>> @record("example")
    ... class Example(NamedTuple):
    ...     number: float
    >>> unpack(*pack(Example(0.1)))
    Example(number=0.1)
    """

    def known(cls: T) -> T:
        names = kept if kept is not None else tuple(n for n in _fields(cls) if n not in rebuilt)
        _file(Known(tag, cls, {n: n for n in names}, rebuilt, kept is not None))
        return cls

    return known


def _file(known: Known) -> None:
    """Put it under its tag, which belongs to one class or function for ever."""
    module, name = known.made.__module__, known.made.__qualname__
    before = _BY_TAG.get(known.tag)
    is_ours = module.partition(".")[0] == _PACKAGE
    if (before is not None and before.made.__qualname__ != name) or (known.tag in CONTENTS and not is_ours):
        raise OptionError(f"the tag '{known.tag}' is declared twice; tags must differ")
    _BY_TAG[known.tag] = known
    (_BY_CLASS if isinstance(known.made, type) else _BY_FUNCTION)[known.made] = known


def _told_fields(tag: str, cls: type, fields: Any) -> Mapping[str, str] | None:
    if fields is not None:
        return dict(fields) if isinstance(fields, Mapping) else {name: name for name in fields}
    if hasattr(cls, "to_parts") and hasattr(cls, "from_parts"):
        return None
    if hasattr(cls, "_fields") or dataclasses.is_dataclass(cls):
        return {name: name for name in _fields(cls)}
    raise OptionError(
        f"register '{tag}': expected a dataclass, a named tuple, or a class with to_parts() and "
        f"from_parts(**parts), got {cls.__name__}; or name the arguments of its constructor by fields=[...]"
    )


def _fields(cls: Any) -> tuple[str, ...]:
    if hasattr(cls, "_fields"):
        return tuple(cls._fields)
    return tuple(f.name for f in dataclasses.fields(cls) if f.init)


def known_record(tag: Any) -> Known | None:
    """What has this tag, if there is something; of this package the one module is imported."""
    if type(tag) is not str:
        return None
    if tag not in _BY_TAG and tag in CONTENTS:
        importlib.import_module(f"{_PACKAGE}.{CONTENTS[tag]}")
    return _BY_TAG.get(tag)


def known_class(cls: type) -> Known | None:
    """What is known of a class; a subclass must say so itself."""
    return _BY_CLASS.get(cls)


def known_function(function: Any) -> Known | None:
    """What is known of a function."""
    return _BY_FUNCTION.get(function) if isinstance(function, FunctionType) else None


def registered() -> tuple[Known, ...]:
    """All that stands alone, of the modules that have been imported."""
    return tuple(known for known in _BY_TAG.values() if known.stands_alone or inspect.isfunction(known.made))
