"""Sentences for calls that are nearly right.

A keyword that a public call does not know is often an option of the method, or spelt another way; evidence is
often given where the method is expected. Each gets the call to write instead.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from ...core.errors import OptionError, QueryError
from ...core.registry import near_misses, options_of, or_else, read_spec
from .base import Algorithm, algorithms

__all__ = ["hinted"]

P = ParamSpec("P")
R = TypeVar("R")


def hinted(call: Callable[P, R]) -> Callable[P, R]:
    """Decorator of a public call: wrong arguments are refused with the right way to write them."""
    parameters = inspect.signature(call).parameters
    by_position = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]

    @functools.wraps(call)
    def checked(*args: P.args, **named: P.kwargs) -> R:
        if len(args) > len(by_position):
            raise QueryError(_too_many(call.__name__, by_position, args))
        method = dict(zip(by_position, args, strict=False)).get("method", named.get("method"))
        if isinstance(method, Mapping):
            raise QueryError(
                f"method: expected a name or an Algorithm, got {method!r:.80}; "
                f"if this is evidence, write {call.__name__}(..., evidence={method!r:.80})"
            )
        unknown = {name: value for name, value in named.items() if name not in parameters}
        if unknown:
            raise OptionError(_unknown(call.__name__, list(parameters), method, unknown))
        return call(*args, **named)

    return checked


def _too_many(call: str, by_position: list[str], args: tuple[Any, ...]) -> str:
    extra = args[len(by_position)]
    is_method = isinstance(extra, str) and extra.partition("(")[0] in algorithms.names()
    name = "evidence" if isinstance(extra, Mapping) else "method" if is_method else ""
    return (
        f"{call} takes {' and '.join(by_position)} by position and all else by name, got {len(args)} "
        f"by position; write {f'{name}={extra!r:.80}' if name else f'the name of what {extra!r:.80} is'}"
    )


def _unknown(call: str, known: list[str], method: Any, given: dict[str, Any]) -> str:
    """The sentence for keywords that the call does not have."""
    name = next(iter(given))
    options = [] if method is None else _options(method)
    if name in options:
        mine = {option: value for option, value in given.items() if option in options}
        return f"{name} is an option of the method and no argument of {call}: write {_with(method, mine)}"
    near = near_misses(name, known)
    if near:
        return f"{call} has no argument '{name}'; did you mean {or_else(near)}?"
    others = [n for n in known if n != "model"]
    return (
        f"{call} has no argument '{name}'; it has {others}, and options of a method are written "
        "with its name, as in 'bp(damping=0.5)'"
    )


def _options(method: Any) -> list[str]:
    """The options of a method given by name, specification or object."""
    algorithm = algorithms.resolve(method)
    return options_of(type(algorithm)) if isinstance(algorithm, Algorithm) else []


def _with(method: Any, options: dict[str, Any]) -> str:
    """How to write the method with these options."""
    if not isinstance(method, str):
        return f"{type(method).__name__}({', '.join(f'{k}={v!r}' for k, v in options.items())})"
    name, parts = read_spec("algorithm", method)
    return f"'{name}({', '.join([*parts, *(f'{k}={v}' for k, v in options.items())])})'"
