r"""Factor analysis: what rows of numbers share are a few hidden numbers, each with a loading on every column.

    z_n ~ N(0, I),   x_n ~ N(mu + Lambda z_n, diag psi)

The blank of `families/factor_gaussian.py`, which is the model of a fit.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.records import register
from ..families.base import Family
from ..families.blank import BlankRows, family_of
from ..families.factor_gaussian import FactorGaussian
from ..families.independent import IndependentRows
from ..families.product import Product

__all__ = ["FactorAnalysis"]


@register("FactorAnalysis", fields=["factors", "noise"])
class FactorAnalysis(BlankRows):
    """So many factors, everything else to come from data: by `em` the most likely ones, or by `vb`.

    Parameters
    ----------
    factors
        How many, `vb(prune=unused)` keeps those that the data need; None: one less than the columns.
    noise
        `"diagonal"`, a variance per column, or `"isotropic"`, one for all, as in principal components.

    Examples
    --------
    >>> import numpy as np
    >>> import credo
    >>> from credo.models import FactorAnalysis
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 8)) + 0.5 * rng.normal(size=(300, 8))
    >>> credo.fit(FactorAnalysis(6), x, "vb(prune=unused)", seed=0).posterior.factors
    2
    >>> sizes = {str(k): FactorAnalysis(k) for k in (1, 2, 3)}
    >>> credo.compare_models(sizes, x, criteria=["bic"]).best
    '2'
    """

    _counted = "factors"

    def __init__(
        self, factors: int | None = None, noise: Literal["diagonal", "isotropic"] = "diagonal"
    ) -> None:
        check.one_of("noise", noise, ["diagonal", "isotropic"])
        if factors is not None:
            check.whole("factors", factors, 1)
        super().__init__(1, "gaussian")
        self.factors, self.noise = factors, noise

    def _members(self, source: Any, reading: Any) -> Family:
        """One member over all columns, which hold numbers."""
        found = family_of("gaussian", 1, source, **reading)
        part: Any = found.parts[0] if isinstance(found, Product) else found
        width = part.dimension
        count = max(width - 1, 1) if self.factors is None else self.factors
        own = FactorGaussian(
            np.zeros((1, width)), np.zeros((1, width, count)), np.ones((1, width)), self.noise == "isotropic"
        )
        return Product([own], found.columns, found.domains) if isinstance(found, Product) else own

    def _model(self, emission: Family) -> IndependentRows:
        return IndependentRows(emission)

    def __repr__(self) -> str:
        count = "factors" if self.factors is None else f"{self.factors} factors"
        return f"FactorAnalysis({count}, {self.noise} noise; no parameters yet: fit it first)"
