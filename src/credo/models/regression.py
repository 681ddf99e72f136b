r"""Real nodes of a Bayesian network: linear in their real parents, Gaussian, one regression per joint state.

    p(y | x, s) = N( y ;  bias_s + weights_s' x,  variance_s )

x are the real parents in the order they are named, s the joint state of the discrete ones. Arrays have one
axis per discrete parent, and the weights one more for the real parents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.density import finite_array
from ..core.display import Listing, Shown, data_frame, told
from ..core.errors import ModelError, QueryError
from ..core.joint import label_columns
from ..core.linear_gaussian import LinearGaussianFactor
from ..core.records import register
from ..core.variable import Variable

__all__ = ["Regression", "RegressionTable"]


@register("Regression")
@dataclass(frozen=True, eq=False)
class Regression:
    """The parameters of a real node, given in the place of a table.

    Examples
    --------
    >>> import credo
    >>> from credo.models import Regression
    >>> net = credo.BayesNet(
    ...     {"kind": ["cat", "dog"], "weight": credo.Real()},
    ...     parents={"weight": ["kind"]},
    ...     tables={"kind": [0.5, 0.5], "weight": Regression(bias=[4.0, 20.0], variance=[1.0, 25.0])},
    ... )
    >>> net.cpt("weight")
    weight | kind
    kind  constant  variance
    cat          4         1
    dog         20        25
    >>> credo.infer(net, evidence={"weight": 6.0}).marginals["kind"].round(3)
    kind   cat: 0.972   dog: 0.028
    """

    bias: Any  # (states...) the mean where all real parents are zero
    variance: Any  # (states...) above zero
    weights: Any = None  # (states..., real parents); None where there are no real parents

    @classmethod
    def of(cls, where: str, given: Any, sizes: tuple[int, ...], count: int) -> Regression:
        """Checked arrays of the right shapes, read-only; one number may stand for all joint states.

        Parameters
        ----------
        where
            Subject of the errors.
        given
            A `Regression`, or a mapping of its fields.
        sizes
            Of the discrete parents.
        count
            Of real parents.
        """
        if isinstance(given, Mapping):
            try:
                given = cls(**given)
            except TypeError:
                raise ModelError(
                    f"{where}: expected bias, variance and weights, got {sorted(map(str, given))}"
                ) from None
        if not isinstance(given, cls):
            raise ModelError(
                f"{where}: expected a Regression(bias, variance, weights), because it is real, "
                f"got {type(given).__name__}"
            )
        if given.weights is None and count:
            raise ModelError(f"{where}: expected weights of its {count} real parents, got none")
        weights = np.zeros((*sizes, 0)) if given.weights is None else given.weights
        made = cls(
            finite_array(f"{where}: bias", given.bias, sizes, spread=True),
            finite_array(f"{where}: variance", given.variance, sizes, spread=True),
            finite_array(f"{where}: weights", weights, (*sizes, count)),
        )
        if not (made.variance > 0).all():
            raise ModelError(f"{where}: variances must be positive, got {made.variance.min():g}")
        for array in (made.bias, made.variance, made.weights):
            array.flags.writeable = False
        return made

    def means(self, state: tuple[np.ndarray, ...], x: np.ndarray) -> np.ndarray:
        """Means of rows with these states of the discrete parents and values (rows, real parents)."""
        return np.asarray(self.bias[state] + (self.weights[state] * x).sum(axis=-1))

    def factor(
        self, child: Variable, parents: Iterable[Variable], states: Iterable[Variable]
    ) -> LinearGaussianFactor:
        """The conditional density as a factor."""
        return LinearGaussianFactor.conditional(
            child, parents, states, self.weights, self.variance, self.bias
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Regression) and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("bias", "variance", "weights")
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, repr=False)
class RegressionTable(Shown):
    """The coefficients of a real node by the names of its parents and their states."""

    child: Variable  # the real node
    reals: tuple[Variable, ...]  # real parents
    given: tuple[Variable, ...]  # discrete parents
    regression: Regression  # its coefficients

    def __getitem__(self, states: Any) -> dict[str, float]:
        """Coefficients at one joint state of the discrete parents, by labels or indices."""
        states = states if isinstance(states, tuple) else (states,)
        if len(states) != len(self.given):
            names = [v.name for v in self.given]
            raise QueryError(f"'{self.child.name}' given {names}: expected one state of each, got {states!r}")
        at = tuple(v.find(s) for v, s in zip(self.given, states, strict=True))
        return dict(zip(self._titles, map(float, self._numbers[at]), strict=True))

    def to_frame(self) -> Any:
        """A pandas data frame: a row per joint state of the discrete parents, a column per coefficient."""
        numbers = self._numbers.reshape(-1, len(self._titles))
        states = label_columns(self.given) if self.given else {}
        return data_frame({**states, **dict(zip(self._titles, numbers.T, strict=True))})

    @property
    def _titles(self) -> list[str]:
        return ["constant", *(v.name for v in self.reals), "variance"]

    @property
    def _numbers(self) -> np.ndarray:
        r = self.regression
        return np.concatenate([r.bias[..., None], r.weights, r.variance[..., None]], axis=-1)

    def _shown(self) -> Iterable[str | Listing]:
        names = [v.name for v in (*self.given, *self.reals)]
        numbers = self._numbers
        rows = [
            [*(v.label(k) for v, k in zip(self.given, at, strict=True)), *(told(x) for x in numbers[at])]
            for at in np.ndindex(*(v.size for v in self.given))
        ]
        header = [*(v.name for v in self.given), *self._titles]
        right = [False] * len(self.given) + [True] * len(self._titles)
        title = self.child.name + (f" | {', '.join(names)}" if names else "")
        return [title, Listing(rows, right, header)]
