r"""Families as models: rows that are independent of each other.

A family with one member is a model of rows; of a mixture it is hidden which component each row is from:

    p(x) = prod_t sum_c weights[c] p(x_t | c)

`rows_model` lets every public call take the family itself, and answer with one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..core import check
from ..core.domain import Real
from ..core.errors import DataError, ModelError
from ..core.instance import Instance
from ..core.records import register
from ..data.dataset import Dataset, unit_weights
from ..data.read import read
from ..data.sequences import emitted_columns
from ..data.sources import named_columns
from .base import Family, Statistics
from .conjugate import Conjugate
from .learnable import Learnable
from .mixture import Mixture, MixturePrior
from .product import Product

if TYPE_CHECKING:
    from .posteriors import MixturePosterior

__all__ = ["IndependentRows", "rows_model"]


@register("IndependentRows", fields=["family"])
class IndependentRows(Learnable):
    """Rows from a family with one member; a row is a unit.

    Examples
    --------
    >>> import credo
    >>> from credo.families import DiagonalGaussian
    >>> mixture = credo.Mixture([[0.5, 0.5]], DiagonalGaussian([[0.0], [4.0]], [[1.0], [1.0]]))
    >>> credo.infer(mixture, data=[[0.0], [2.0]]).marginals["component"].round(2)
    array([[1. , 0. ],
           [0.5, 0.5]])
    """

    parts: ClassVar[tuple[str, ...]] = ("weights", "emission")

    def __init__(self, family: Family) -> None:
        if not isinstance(family, Family) or len(family) != 1:
            got = f"{len(family)} members" if isinstance(family, Family) else type(family).__name__
            raise ModelError(
                f"model: expected a family with one member, which is a model of rows, got {got}; "
                "family.take([0]) is one of them, Mixture([weights], family) all of them"
            )
        self.family = family

    @property
    def emission(self) -> Any:  # type: ignore[override]
        """The components, or the family itself."""
        return self.family.components if isinstance(self.family, Mixture) else self.family

    @property
    def prior_kinds(self) -> tuple[type, ...]:  # type: ignore[override]
        """What the family takes."""
        if isinstance(self.family, Mixture):
            return (MixturePrior,)
        return (tuple, list) if isinstance(self.family, Product) else (Conjugate,)

    @property
    def n_parameters(self) -> int:
        """Of the family."""
        return self.family.n_parameters

    def hidden(self, scores: np.ndarray, begin: np.ndarray, first: int = 0) -> Instance:
        """Which component each row is from."""
        weights = self.family.weights[0] if isinstance(self.family, Mixture) else np.ones(1)
        return Instance("independent", scores, begin, {"weights": weights}, first=first, name="component")

    def sequences(self, x: Any, lengths: Any = None, mask: Any = None, **reading: Any) -> Dataset:
        """Data as the family works on them, every row a unit."""
        if lengths is not None or reading.get("groups") is not None:
            raise DataError(
                f"lengths, groups: a {type(self.family).__name__} has independent rows, no sequences; leave "
                "both out"
            )
        weights = reading.pop("weights", None)
        if isinstance(weights, str):
            x = named_columns(x)
            chosen = emitted_columns(x, None, reading.pop("columns", None), weights)
            reading["columns"] = None if getattr(self.family, "names", ()) else chosen
            weights = read(x, schema={weights: Real()}, columns=[weights]).rows()[:, 0]
        if isinstance(x, Dataset) and not x.is_sequences:
            weights = x.weights if weights is None else weights
            x = replace(x, weights=np.ones(x.n_rows))
        found = super().sequences(x, None, mask, **reading)
        counted = unit_weights(weights, found.n_rows)
        return replace(found, begin=np.arange(found.n_rows + 1), weights=counted, is_sequences=False)

    def initialise(
        self, data: Dataset, rng: np.random.Generator, *, fixed: tuple[str, ...] = ()
    ) -> IndependentRows:
        """Random members at the scale of the data, equal weights."""
        given, found = self.family, self.family.initialise(data.rows(), rng)
        if isinstance(given, Mixture) and isinstance(found, Mixture):
            weights = given.weights if "weights" in fixed else found.weights
            parts = given.components if "emission" in fixed else found.components
            return IndependentRows(Mixture(weights, parts))
        return self if "emission" in fixed else IndependentRows(found)

    def update(
        self, expected: Any, prior: Any = None, *, fixed: tuple[str, ...] = (), floor: float = 0.0
    ) -> IndependentRows:
        """New weights and components."""
        for part in fixed:
            check.one_of("fixed", part, self.parts)
        family = self.family
        if not isinstance(family, Mixture):
            found = family if "emission" in fixed else expected.emission.update(family, prior, floor=floor)
            return IndependentRows(found)
        prior = MixturePrior() if prior is None else prior
        weights, parts = family.weights, family.components
        if "weights" not in fixed:
            counts = expected.counts["weights"]
            chosen = Statistics(np.array([counts.sum()]), counts[None])
            weights = family.choice.update(None, chosen, prior.dirichlet).probabilities
        if "emission" not in fixed:
            parts = expected.emission.update(parts, prior.components, floor=floor)
        return IndependentRows(Mixture(weights, parts))

    def log_prior(self, prior: Any) -> float:
        """Of the family."""
        return self.family.log_prior(prior)

    def posterior(self, prior: Any = None, data: Dataset | None = None) -> MixturePosterior:
        """The distribution over the parameters before any data: what variational Bayes learns.

        Parameters
        ----------
        prior
            `MixturePrior`, or the conjugate prior of a single family.
        data
            Whose scale says how wide the prior of the components is, where there is none.
        """
        from .posteriors import MixturePosterior

        return MixturePosterior.of(self, prior, data)

    def __repr__(self) -> str:
        return f"IndependentRows({self.family!r})"


def rows_model(model: Any) -> Any:
    """A family as the model of rows that it is; anything else as it comes."""
    return IndependentRows(model) if isinstance(model, Family) else model
