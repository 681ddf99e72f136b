"""How labels of a field are predicted; learners note in the field what suits how it was learned.

    max-marginals          the most probable label of each node by itself
    joint-map              the best labels of all nodes together, hidden ones maximised
    marginal-map           the best labels together, hidden nodes summed out
    annealed(eps_h=0.3)    the best labels together, hidden nodes eliminated at this temperature

Without hidden nodes the last three are one.
"""

from __future__ import annotations

from typing import Any, Final

from ..core import check
from ..core.errors import ModelError
from ..core.registry import read_spec, read_value

__all__ = ["EACH", "temperature_of"]

EACH: Final = "max-marginals"
_AT = {"joint-map": 0.0, "marginal-map": 1.0}


def temperature_of(decoding: Any) -> float | None:
    """The temperature at which hidden nodes are eliminated; None where each label is told by itself.

    Examples
    --------
    >>> from credo.models.decodings import temperature_of
    >>> temperature_of("annealed(eps_h=0.3)"), temperature_of("joint-map"), temperature_of("max-marginals")
    (0.3, 0.0, None)
    """
    if decoding == EACH:
        return None
    if decoding in _AT:
        return _AT[decoding]
    if isinstance(decoding, str) and decoding.startswith("annealed("):
        _, parts = read_spec("decoding", decoding)
        given = [part.partition("=") for part in parts]
        if [name.strip() for name, _, _ in given] == ["eps_h"]:
            eps = read_value(given[0][2].strip())
            check.at_least("decoding: eps_h", eps, 0)
            return float(eps)
    raise ModelError(
        f"decoding: expected '{EACH}', 'joint-map', 'marginal-map' or 'annealed(eps_h=...)', "
        f"got {decoding!r:.80}"
    )
