"""A guard underground who sees the rain only by umbrellas: a chain of days (Russell and Norvig, 1995)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core import check
from ..models.bayes_net import BayesNet

if TYPE_CHECKING:
    from ..models.hmm import HMM

__all__ = ["umbrella", "umbrella_hmm"]

_NO_YES = ["no", "yes"]
_START = [0.5, 0.5]
_TRANSITION = [[0.7, 0.3], [0.3, 0.7]]  # rain today, rain tomorrow
_EMISSION = [[0.8, 0.2], [0.1, 0.9]]  # rain, umbrella


def umbrella(days: int = 7) -> BayesNet:
    """Rain told from umbrellas, day by day: a hidden Markov model as a network (2 variables a day).

    Parameters
    ----------
    days
        How long the chain is: `rain1`, `umbrella1`, `rain2`, ...

    Examples
    --------
    >>> import credo
    >>> model = credo.datasets.umbrella(2)
    >>> seen = credo.infer(model, evidence={"umbrella1": "yes", "umbrella2": "yes"})
    >>> print(round(seen.marginals["rain2"]["yes"], 3))
    0.883
    """
    check.whole("days", days, 1)
    names = [name for t in range(1, days + 1) for name in (f"rain{t}", f"umbrella{t}")]
    parents = {f"umbrella{t}": [f"rain{t}"] for t in range(1, days + 1)}
    parents |= {f"rain{t}": [f"rain{t - 1}"] for t in range(2, days + 1)}
    tables = {name: _TRANSITION if name.startswith("rain") else _EMISSION for name in names}
    return BayesNet(dict.fromkeys(names, _NO_YES), parents, tables | {"rain1": _START})


def umbrella_hmm() -> HMM:
    """The same in Python as an `HMM`, for sequences of any length.

    State 1 is rain, symbol 1 an umbrella.

    Examples
    --------
    >>> import credo
    >>> found = credo.infer(credo.datasets.umbrella_hmm(), data=[1, 1, 0, 1, 1], maximise="all")
    >>> found.assignment["state"]
    array([1, 1, 0, 1, 1])
    """
    from ..families.categorical import Categorical
    from ..models.hmm import HMM

    return HMM(_START, _TRANSITION, Categorical(_EMISSION))
