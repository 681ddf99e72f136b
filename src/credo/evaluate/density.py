r"""How well a model says data, per number: negative log-likelihood in nats or bits.

    nats per dimension   - sum_n log p(x_n) / (numbers observed)
    bits per dimension   nats / log 2 - log2 width

`width` is that of a cell where the data are whole numbers that noise has spread over cells, in the units the
model sees: 1 if these are 0, 1, 2, ..., 1/256 if grey values were divided by 256. The probability of a cell
is at most its width times the highest density in it, so that bits per dimension of data with uniform noise
are an upper bound on the bits that a lossless code of the whole numbers needs. A missing cell is no number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import check
from ..core.errors import DataError, ModelError, OptionError
from ..data.dataset import Dataset
from ..families.independent import rows_model
from ..families.learnable import Learnable
from ..learning.likelihood import log_likelihood

__all__ = ["bits_per_dimension", "nats_per_dimension"]


def nats_per_dimension(model: Any, data: Any, **reading: Any) -> float:
    """Negative log-likelihood per observed number, in natural logarithms; lower is better.

    Parameters
    ----------
    model
        A model of rows or of sequences of them: a family with one member, a mixture, `HMM`, any `Learnable`.
    data, reading
        As in `credo.log_likelihood`: lengths, groups, columns, mask.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.evaluate import bits_per_dimension, nats_per_dimension
    >>> from credo.families import DiagonalGaussian
    >>> normal = DiagonalGaussian([[0.0, 0.0]], [[1.0, 1.0]])
    >>> round(nats_per_dimension(normal, np.zeros((3, 2))), 4)
    0.9189
    >>> round(bits_per_dimension(normal, np.zeros((3, 2)), width=1 / 256), 4)
    9.3257
    """
    found = rows_model(model)
    if not isinstance(found, Learnable):
        raise ModelError(
            "model: expected one of rows, such as a family with one member, a mixture or an HMM, got "
            f"{type(model).__name__}; of a network, divide credo.log_likelihood by what was observed"
        )
    table = found.sequences(data, **reading)
    count = _observed(table)
    if not count:
        raise DataError("data: expected at least one observed number, got none")
    return -float(log_likelihood(found, table).value) / count


def bits_per_dimension(model: Any, data: Any, *, width: float = 1.0, **reading: Any) -> float:
    """Negative log-likelihood per observed number, in binary logarithms; lower is better.

    Parameters
    ----------
    model, data, reading
        As in `nats_per_dimension`.
    width
        Of the cell over which noise has spread a whole number.
    """
    check.finite("width", width)
    if width <= 0:
        raise OptionError(f"width must be a positive number, got {width!r}")
    return nats_per_dimension(model, data, **reading) / math.log(2) - math.log2(width)


def _observed(data: Dataset) -> float:
    """Cells that say something, with the weights of their units."""
    weights = np.repeat(data.weights, data.lengths)
    total = 0.0
    for column in data.columns:
        values = column.values.reshape(data.n_rows, -1)
        seen = ~column.missing[:, None] if column.is_discrete else ~np.isnan(values)
        total += float(weights @ seen.sum(axis=1))
    return total
