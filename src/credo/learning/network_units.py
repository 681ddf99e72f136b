"""Centre and unit of the real columns of a network: mean and deviation of what rows observe of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from ..core.errors import DataError
from ..data.stream import Stream
from ..models.bayes_net import BayesNet
from ..optimise.run import watched
from .network_data import read_network
from .network_rows import NetworkRows

__all__ = ["column_units"]

_ALIKE = 1e-12  # deviation, relative to the mean, below which numbers do not vary

_Moments = tuple[float, float, float]  # weight, mean and deviation


def column_units(
    model: BayesNet, reals: Iterable[int], data: NetworkRows, stream: Stream | None
) -> tuple[np.ndarray, np.ndarray]:
    """Centre and unit of every variable, 0 and 1 of those without numbers.

    Parameters
    ----------
    model
        The network.
    reals
        Positions of its real variables.
    data, stream
        All rows, or where they come from: then it takes a pass.
    """
    centre, unit = np.zeros(len(model.variables)), np.ones(len(model.variables))
    found = dict.fromkeys(reals, (0.0, 0.0, 0.0))
    parts = [data] if stream is None else watched(stream.map(partial(read_network, model)))
    for part in parts:
        found = {i: _joined(before, _moments(part, i)) for i, before in found.items()}
    for i, (count, mean, spread) in found.items():
        if not count:
            continue
        if not spread > _ALIKE * max(abs(mean), 1e-290):
            raise DataError(
                f"column '{model.variables.names[i]}': expected numbers that vary, got {mean:g} in every "
                "row; leave the column out, or make its variable discrete"
            )
        centre[i], unit[i] = mean, spread
    return centre, unit


def _moments(data: NetworkRows, i: int) -> _Moments:
    x = data.values[:, i]
    seen = ~np.isnan(x) & (data.weights > 0)
    if not seen.any():
        return 0.0, 0.0, 0.0
    weights = data.weights[seen]
    mean = float(np.average(x[seen], weights=weights))
    return float(weights.sum()), mean, float(np.sqrt(np.average((x[seen] - mean) ** 2, weights=weights)))


def _joined(one: _Moments, two: _Moments) -> _Moments:
    """Of both parts together."""
    if not (one[0] and two[0]):
        return one if one[0] else two
    share, gap = two[0] / (one[0] + two[0]), two[1] - one[1]
    square = (1 - share) * one[2] ** 2 + share * two[2] ** 2 + share * (1 - share) * gap**2
    return one[0] + two[0], one[1] + share * gap, float(np.sqrt(square))
