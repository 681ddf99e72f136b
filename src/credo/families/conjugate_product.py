r"""Conjugate distributions of products over columns: one for each part.

    q(theta_k) = prod_j q(theta_kj),      E[log p_k(x)] = sum_j E[log p_kj(x_j)]

As a row of a product, a row may lack some parts and keep the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..core.errors import ModelError
from ..core.records import register
from .base import ExpectedSums, Members
from .conjugate import Conjugate
from .product import Product
from .trees import Tree

__all__ = ["ConjugateProduct"]


@register("ConjugateProduct", fields=["family", "parts"])
class ConjugateProduct(Members):
    """Priors or posteriors of the parts of a product; immutable.

    Parameters
    ----------
    family
        A product whose members have such parameters: it knows the columns.
    parts
        For each of its parts the conjugate distribution, with equally many members.

    Examples
    --------
    >>> from credo.families import Dirichlet, Gamma, Poisson, Categorical, Product
    >>> from credo.families.conjugate_product import ConjugateProduct
    >>> family = Product([Categorical([[0.5, 0.5]]), Poisson([1.0])], [0, 1])
    >>> prior = ConjugateProduct(family, [Dirichlet([[1.0, 1.0]]), Gamma([1.0], [1.0])])
    >>> after = prior.posterior(prior.expect([[0, 3.0], [1, 5.0]]).sums)
    >>> after.parts[0].concentration, after.parts[1].shape
    (array([[2., 2.]]), array([9.]))
    """

    def __init__(self, family: Product, parts: Sequence[Conjugate]) -> None:
        self._family, self._parts = family, tuple(parts)
        if len(self._parts) != len(family.parts) or len({len(part) for part in self._parts}) != 1:
            raise ModelError(
                f"parts: expected {len(family.parts)} conjugate distributions with equally many members, one "
                f"per part of the product, got {[f'{type(p).__name__}: {len(p)}' for p in self._parts]}"
            )

    @property
    def family(self) -> Product:
        """A product of this kind."""
        return self._family

    @property
    def parts(self) -> tuple[Conjugate, ...]:
        """The distribution of each part."""
        return self._parts

    @property
    def is_closed(self) -> bool:
        """As the parts say."""
        return all(part.is_closed for part in self._parts)

    def __len__(self) -> int:
        return len(self._parts[0])

    def _with(self, parts: Sequence[Any]) -> ConjugateProduct:
        return ConjugateProduct(self._family, parts)

    def take(self, members: Any) -> ConjugateProduct:
        """Some of the members."""
        return self._with([part.take(members) for part in self._parts])

    def repeat(self, count: int) -> ConjugateProduct:
        """So many members: these if there are as many, or the only one repeated."""
        return self._with([part.repeat(count) for part in self._parts])

    def expected_log_density(self, x: Any) -> np.ndarray:
        """E[log p(x | parameters)], (rows, members), what is missing summed out."""
        each = zip(self._parts, self._family.split(self._family.rows(x)), strict=True)
        return np.add.reduce([part.expected_log_density(own) for part, own in each])

    def expect(self, x: Any, weights: Any = None) -> ExpectedSums:
        """What rows with weights (rows, members) say to every part."""
        return self._joined(x, weights, [part.expect for part in self._parts])

    def expect_under(self, members: Product, x: Any, weights: Any = None) -> ExpectedSums:
        """The same, every part under the part of these members; see `Conjugate.expect_under`."""
        each = zip(self._parts, members.parts, strict=True)
        return self._joined(x, weights, [partial(part.expect_under, own) for part, own in each])

    def _joined(self, x: Any, weights: Any, parts: Sequence[Callable[..., ExpectedSums]]) -> ExpectedSums:
        rows = self._family.rows(x)
        share = np.ones((len(rows), len(self))) if weights is None else weights
        each = zip(parts, self._family.split(rows), strict=True)
        sums = tuple(expect(own, share).sums for expect, own in each)
        return ExpectedSums(share[~self._family.missing(rows)].sum(axis=0), None, sums)

    def posterior(self, statistics: Tree) -> ConjugateProduct:
        """Every part by itself."""
        return self._with([p.posterior(own) for p, own in zip(self._parts, statistics, strict=True)])

    def match(self, members: ConjugateProduct) -> ConjugateProduct:
        """Every part by itself; see `Conjugate.match`."""
        return self._with([p.match(q) for p, q in zip(self._parts, members._parts, strict=True)])

    def kl(self, other: ConjugateProduct) -> np.ndarray:
        """The sum over parts, (members,)."""
        each = zip(self._parts, other._parts, strict=True)
        return np.add.reduce([part.kl(own) for part, own in each])

    def predictive(self, x: Any) -> np.ndarray:
        """Logarithm of E[p(x | parameters)], (rows, members)."""
        each = zip(self._parts, self._family.split(self._family.rows(x)), strict=True)
        return np.add.reduce([part.predictive(own) for part, own in each])

    def mean(self) -> Product:
        """Members with expected parameters."""
        return self._family.with_parts([part.mean() for part in self._parts])

    def sample(self, rng: np.random.Generator) -> Product:
        """Members with parameters drawn at random."""
        return self._family.with_parts([part.sample(rng) for part in self._parts])

    def __repr__(self) -> str:
        return f"ConjugateProduct({', '.join(repr(part) for part in self._parts)})"
