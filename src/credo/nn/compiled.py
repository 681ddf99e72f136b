"""A function compiled once per combination of shapes, with the seconds it took kept apart.

`jax.jit` compiles inside the first call, so the first of many runs looks slow. Here compiling is a step
of its own: what a user waits for once is told apart from what every run costs.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from . import compile_clock  # noqa: F401

__all__ = ["Compiled"]

_CAPACITY = 256  # programs kept per function
_SMALL = 2**17  # bytes of arguments that most programs deal with quickly in any case


def _options(small: bool, loops: bool, quick: bool) -> dict[str, Any] | None:
    """How hard to optimise on a CPU: not at all if arrays are small, and never more than the first level.

    The second level takes a third longer to compile than the first and its programs are no faster here.
    """
    if jax.default_backend() != "cpu":
        return None
    options: dict[str, Any] = {"xla_backend_optimization_level": 0 if small else 1}
    return options | (_known("quick") if quick else {}) | (_known("loops") if loops else {})


_EXTRA: dict[str, dict[str, Any]] = {
    "quick": {"xla_cpu_use_fusion_emitters": False},  # compiles in half the time; most programs run as fast
    "loops": {"xla_cpu_experimental_ynn_fusion_type": ""},  # no kernels of a library
}


@lru_cache(maxsize=len(_EXTRA))
def _known(name: str) -> dict[str, Any]:
    """Options of that name; nothing if this version of the compiler does not know them."""
    try:
        jax.jit(lambda x: x + 1).lower(np.float32(0)).compile(_EXTRA[name])
    except (RuntimeError, ValueError):
        return {}
    return _EXTRA[name]


def _array(x: Any) -> Any:
    return x if isinstance(x, jax.Array) else jax.numpy.asarray(x)


class Compiled:
    """`function(*arguments, **static)`; the keyword arguments are constants of the program.

    Parameters
    ----------
    function
        What is compiled.
    loops
        Whether the program consists of short sums over long arrays rather than of matrix products: plain
        loops are then several times as fast as the library that otherwise does reductions on a CPU.
    small
        Bytes of arguments below which a program is not optimised, because compiling takes longer.
    quick
        Whether operations are fused in the simple way: compiling takes half the time. Loops over many small
        operations that keep many arrays run a third longer then.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.nn.compiled import Compiled
    >>> power = Compiled(lambda x, exponent: x**exponent)
    >>> float(power(np.float32(3.0), exponent=2)), power.programs
    (9.0, 1)
    """

    def __init__(
        self, function: Callable[..., Any], *, loops: bool = False, small: int = _SMALL, quick: bool = True
    ) -> None:
        self._function, self._loops, self._small, self._quick = function, loops, small, quick
        self._programs: OrderedDict[Hashable, Any] = OrderedDict()
        self.seconds = 0.0  # spent compiling so far

    @property
    def programs(self) -> int:
        """How many compiled programs are kept."""
        return len(self._programs)

    def __call__(self, *arguments: Any, **static: Any) -> Any:
        """Run, compiling first if these shapes are new."""
        arguments = jax.tree.map(_array, arguments)
        return self._ready(arguments, static)(*arguments)

    def ready(self, *arguments: Any, **static: Any) -> Any:
        """The program for these shapes, compiled if they are new."""
        return self._ready(jax.tree.map(_array, arguments), static)

    def _ready(self, arguments: Any, static: dict[str, Any]) -> Any:
        leaves, tree = jax.tree.flatten(arguments)
        shapes = tuple((x.shape, np.dtype(x.dtype).str) for x in leaves)
        key = (tree, shapes, tuple(sorted(static.items())))
        program = self._programs.get(key)
        if program is None:
            clock = time.perf_counter()
            jitted = jax.jit(self._function, static_argnames=tuple(static))
            small = sum(leaf.nbytes for leaf in leaves) < self._small
            program = jitted.lower(*arguments, **static).compile(_options(small, self._loops, self._quick))
            self.seconds += time.perf_counter() - clock
            self._programs[key] = program
            while len(self._programs) > _CAPACITY:
                self._programs.popitem(last=False)
        return program
