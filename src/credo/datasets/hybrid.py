"""Fish on a belt: discrete causes, and what a camera measures of them in real numbers."""

from __future__ import annotations

from ..core.domain import Real
from ..core.factor import TableFactor
from ..core.variable import Variable
from ..models.continuous import HybridNet
from ..models.potentials import emission

__all__ = ["fish"]


def fish() -> HybridNet:
    """Salmon or sea bass, told by length and brightness: a hybrid model (3 discrete, 2 real variables).

    Season and fishing ground say which fish is likely; its length in centimetres and its brightness, from 0
    for black to 10 for white, are Gaussian given the kind of fish. The numbers are made up.

    Examples
    --------
    >>> import credo
    >>> model = credo.datasets.fish()
    >>> seen = credo.infer(model, "ep", evidence={"length": 70.0, "brightness": 4.5})
    >>> print(round(seen.marginals["fish"]["salmon"], 3))
    0.902
    """
    season = Variable("season", ["winter", "summer"])
    ground = Variable("ground", ["north", "south"])
    kind = Variable("fish", ["salmon", "sea bass"])
    length, brightness = Variable("length", Real()), Variable("brightness", Real())
    return HybridNet(
        [season, ground, kind, length, brightness],
        [
            TableFactor([season], [0.5, 0.5]),
            TableFactor([ground], [0.6, 0.4]),
            TableFactor([season, ground, kind], [[[0.9, 0.1], [0.5, 0.5]], [[0.6, 0.4], [0.2, 0.8]]]),
            emission(length, kind, [75.0, 60.0], [100.0, 144.0]),
            emission(brightness, kind, [4.0, 6.5], [1.0, 1.44]),
        ],
    )
