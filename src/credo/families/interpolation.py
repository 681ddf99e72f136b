r"""Rows between two rows, along the straight line between their latent numbers.

    z_w = (1 - w) f_a(x_1) + w f_b(x_2),     x_w = g(z_w),     0 <= w <= 1

a and b are the most probable components of the two rows. The generator is that of the nearer end, a up to
w = 1/2 and b beyond, so that both ends are reproduced; or a component drawn from the weights, which shows
what each of them has specialised in. Latent numbers that a split gave away are on the line too.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.errors import DataError, ModelError, OptionError
from .flow import Flow
from .mixture import Mixture

__all__ = ["interpolate"]


def interpolate(
    model: Any,
    first: Any,
    second: Any,
    weights: Any = 9,
    *,
    generator: Literal["nearest", "drawn"] = "nearest",
    seed: int | None = None,
) -> np.ndarray:
    """Rows (points, d) from one row to another.

    Parameters
    ----------
    model
        A flow with one member, over any base, or a mixture of flows with one member.
    first, second
        The two rows.
    weights
        How far each point is on the way, from 0 to 1; or how many, spread evenly, ends left out.
    generator
        Which component makes a point: that of the nearer end, or one drawn from the weights of the mixture.
    seed
        Of the draw.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families import Flow
    >>> from credo.families.interpolation import interpolate
    >>> interpolate(Flow.started("actnorm", 2), [0.0, 0.0], [1.0, 2.0], [0.0, 0.5, 1.0]).tolist()
    [[0.0, 0.0], [0.5, 1.0], [1.0, 2.0]]
    """
    flow, shares = (model.components, model.weights[0]) if isinstance(model, Mixture) else (model, np.ones(1))
    if not isinstance(flow, Flow) or len(model) != 1:
        raise ModelError(f"model: expected one flow or one mixture of flows, got {model!r:.80}")
    check.one_of("generator", generator, ["nearest", "drawn"])
    if isinstance(weights, (int, np.integer)):
        check.whole("weights", int(weights), 1)
        weights = np.arange(1, int(weights) + 1) / (int(weights) + 1)
    way = np.asarray(weights, np.float64)
    if way.ndim != 1 or not ((way >= 0) & (way <= 1)).all():
        raise OptionError(f"weights must be numbers from 0 to 1, got {weights!r:.80}")
    ends = flow.rows(np.stack([np.ravel(first), np.ravel(second)]).astype(np.float64))
    if flow.missing(ends).any():
        raise DataError("first, second: expected two observed rows, got a missing one")
    chosen = (
        model.responsibilities(ends)[:, 0].argmax(axis=1) if isinstance(model, Mixture) else np.zeros(2, int)
    )
    z = flow.encode(ends, chosen)
    line = (1 - way)[:, None] * z[0] + way[:, None] * z[1]
    makers = np.where(way <= 0.5, *chosen)
    if generator == "drawn":
        makers = check.generator(seed).choice(len(shares), size=len(way), p=shares)
    return flow.decode(line, makers)
