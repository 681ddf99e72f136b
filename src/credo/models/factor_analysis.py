r"""Factor analysis: what rows of numbers share are a few hidden numbers, each with a loading on every column.

    z_n ~ N(0, I),   x_n ~ N(mu + Lambda z_n, diag psi)

The model of a fit is the Gaussian that this makes of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import numpy as np

from ..core import check
from ..core.domain import Domain, Real
from ..core.errors import DataError, ModelError
from ..core.records import register
from ..data.dataset import Dataset
from ..data.sequences import read_sequences
from ..families.number_rows import number_rows

__all__ = ["FactorAnalysis"]


@register("FactorAnalysis")
@dataclass(frozen=True)
class FactorAnalysis:
    """So many factors, everything else to come from data by `credo.fit(model, data, "vb")`.

    Examples
    --------
    >>> import numpy as np
    >>> import credo
    >>> from credo.models import FactorAnalysis
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 8)) + 0.5 * rng.normal(size=(300, 8))
    >>> found = credo.fit(FactorAnalysis(6), x, "vb(prune=unused)", seed=0)
    >>> found.posterior.factors, found.model
    (2, Gaussian(1 members, dimension 8))
    """

    factors: int | None = None  # how many at most; None: one less than the columns
    noise: Literal["diagonal", "isotropic"] = "diagonal"  # a variance per column, or one for all
    floor: float = 1e-6  # noise variances below this share of a column's variance are raised to it
    level: float = 1e3  # a factor matters if its precision is below this times that of one which explains all
    rotate: bool = True  # whether each sweep applies the best linear map too; thousands of sweeps without it

    def __post_init__(self) -> None:
        """Check the options."""
        if self.factors is not None:
            check.whole("factors", self.factors, 1)
        check.one_of("noise", self.noise, ["diagonal", "isotropic"])
        check.in_range("floor", self.floor, 0, 1)
        check.at_least("level", self.level, 1)
        check.one_of("rotate", self.rotate, [True, False])

    def rows(self, x: Any) -> np.ndarray:
        """A filled table of numbers, NaN where they are missing."""
        found = np.asarray(x)
        if found.ndim != 2 or not found.size:
            raise DataError(
                f"data: expected a filled table of shape (rows, columns), got shape {found.shape}"
            )
        return number_rows(found, found.shape[1])

    def schema(self, names: Sequence[str]) -> dict[str, Domain]:
        """All columns are numbers."""
        return {name: Real() for name in names}

    def hide(self, x: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        """A copy with NaN in the marked rows."""
        return np.where(hidden[:, None], np.nan, x)

    def sequences(self, x: Any, lengths: Any = None, mask: Any = None, **reading: Any) -> Dataset:
        """Columns of numbers, every row a unit."""
        if lengths is not None or reading.get("groups") is not None or reading.get("weights") is not None:
            raise DataError(
                "lengths, groups, weights: factor analysis has independent rows, each of which counts once; "
                "leave them out"
            )
        found = read_sequences(x, self, mask=mask, **reading)
        begin = np.arange(found.n_rows + 1)
        return replace(found, begin=begin, weights=np.ones(found.n_rows), is_sequences=False)

    def instantiate(self, x: Any, lengths: Any = None, mask: Any = None, **reading: Any) -> NoReturn:
        """Refused: there are no parameters."""
        self._refuse()

    @property
    def emission(self) -> NoReturn:
        """Refused: there are no parameters."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ModelError(
            f"model: this {type(self).__name__} is a blank, it has no parameters; fit it first: "
            'credo.fit(model, data, "vb").model'
        )
