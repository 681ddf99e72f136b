"""Models as comparison sees them: fitted, scored on other data, and weighed by their evidence.

Bayesian networks (any data), mixtures and single members of a family (rows), hidden Markov models
(sequences).
"""

from __future__ import annotations

import abc
import warnings
from typing import Any

import numpy as np

from ..core.errors import ConvergenceWarning, ModelError, UnsupportedError
from ..core.result import Estimate
from ..data.dataset import Dataset
from ..data.table import StateTable
from ..families.base import ClosedLeaf, Family
from ..families.conjugates import check_prior, default_prior
from ..families.dirichlet import Dirichlet
from ..families.mixture import Mixture, MixturePrior
from ..learning.base import fit
from ..learning.bayesian_mixture import BayesianMixture
from ..learning.em import EM
from ..learning.evidence import conjugate_evidence, laplace_tables, table_evidence
from ..learning.likelihood import log_likelihood
from ..learning.vb import VariationalBayes
from ..learning.vb_tables import table_rows
from ..models.bayes_net import BayesNet
from ..models.hmm import HMM

__all__ = ["Candidate", "candidate"]

_FLOOR = 1e-4  # of variances in maximum likelihood, relative to those of the data


class Candidate(abc.ABC):
    """One model with data; `restarts` and `seed` are those of everything iterative."""

    rows: int  # that count in BIC
    parts: int  # into which cross-validation can divide the data

    @property
    @abc.abstractmethod
    def n_parameters(self) -> int:
        """How many free numbers the model has: what BIC charges for."""

    @abc.abstractmethod
    def likelihood(self) -> float:
        """The highest log-likelihood found."""

    @abc.abstractmethod
    def exact(self) -> Estimate:
        """Log evidence in closed form, or `UnsupportedError`."""

    @abc.abstractmethod
    def laplace(self) -> Estimate:
        """Log evidence by Laplace's approximation, or `UnsupportedError`."""

    @abc.abstractmethod
    def vb(self) -> Estimate:
        """Log evidence from below, by variational Bayes."""

    @abc.abstractmethod
    def held_out(self, train: np.ndarray, test: np.ndarray) -> tuple[float, int]:
        """Log-likelihood of some parts under the model that VB learns from others, and their rows."""


def candidate(model: Any, data: Any, *, prior: Any, restarts: int, seed: int | None) -> Candidate:
    """The candidate for a model of any kind that can be compared."""
    options: dict[str, Any] = {"restarts": restarts, "seed": seed}
    if isinstance(model, BayesNet):
        return _Network(model, data, prior, **options)
    if isinstance(model, HMM):
        return _Chain(model, data, prior, **options)
    if isinstance(model, BayesianMixture):
        rows, members = model.members(data)
        weights = np.full((1, len(members)), 1.0 / len(members))
        found = model.prior if model.prior is not None else prior
        return _Rows(Mixture(weights, members), rows, found, model.concentration, **options)
    if isinstance(model, Mixture) and len(model) == 1:
        return _Rows(model, data, prior, None, **options)
    if isinstance(model, ClosedLeaf) and len(model) == 1:
        return _Rows(Mixture([[1.0]], model), data, prior, None, **options)
    raise ModelError(
        "models: expected BayesNet, HMM, BayesianMixture, Mixture or a family with one member, "
        f"got {type(model).__name__}"
    )


class _Network(Candidate):
    def __init__(self, model: BayesNet, data: Any, prior: Any, *, restarts: int, seed: int | None) -> None:
        self._model, self._seed = model, seed
        self._data = StateTable.of(model.variables, data)
        self._prior = "bdeu(size=10)" if prior is None else prior
        self._restarts = 1 if self._data.is_complete else restarts
        self.rows = self.parts = len(self._data)

    @property
    def n_parameters(self) -> int:
        return table_rows(self._model, "uniform(count=1)").n_parameters

    def likelihood(self) -> float:
        how = "counts" if self._data.is_complete else f"em(restarts={self._restarts})"
        found = _quietly(fit, self._model, self._data, how, seed=self._seed, max_iter=2000).log_likelihood
        assert found is not None
        return found.value

    def exact(self) -> Estimate:
        if not self._data.is_complete:
            raise UnsupportedError("values are missing, so the tables do not integrate out in closed form")
        return table_evidence(self._model, self._data, self._prior)

    def laplace(self) -> Estimate:
        start = self._model
        if not self._data.is_complete:
            start = self._learned(self._data).model
        return laplace_tables(start, self._data, self._prior)

    def vb(self) -> Estimate:
        return self._learned(self._data).evidence

    def _learned(self, data: StateTable) -> Any:
        method = VariationalBayes(prior=self._prior, restarts=self._restarts)
        return _quietly(fit, self._model, data, method, seed=self._seed, max_iter=2000, tol=1e-8)

    def held_out(self, train: np.ndarray, test: np.ndarray) -> tuple[float, int]:
        found = self._learned(self._data.take(train)).model
        return log_likelihood(found, self._data.take(test)).value, len(test)


class _Rows(Candidate):
    """A mixture; one component has a closed form."""

    def __init__(
        self, model: Mixture, data: Any, prior: Any, concentration: float | None, *, restarts: int,
        seed: int | None,
    ) -> None:  # fmt: skip
        self._model, self._restarts, self._seed = model, restarts, seed
        self._members: Family = model.components
        self._x = self._members.rows(data)
        self._concentration = 1.0 if concentration is None else concentration
        default = default_prior(self._members, self._x)
        self._prior = default if prior is None else check_prior(prior, self._members)
        self.rows = self.parts = len(self._x)

    @property
    def n_parameters(self) -> int:
        return self._model.n_parameters

    def likelihood(self) -> float:
        spread = np.nanvar(self._x, axis=0).mean() if self._x.dtype.kind == "f" else 0.0
        how = EM(floor=_FLOOR * float(spread), restarts=self._runs)
        start = self._learned(self._x).model
        found: Estimate = _quietly(fit, start, self._x, how, seed=self._seed).log_likelihood
        return found.value

    def exact(self) -> Estimate:
        if len(self._members) > 1:
            raise UnsupportedError("hidden choices of components leave no closed form")
        return conjugate_evidence(self._prior, self._x)

    def laplace(self) -> Estimate:
        raise UnsupportedError("Laplace is offered for Bayesian networks only; use VB")

    def vb(self) -> Estimate:
        found: Estimate = self._learned(self._x).evidence
        return found

    @property
    def _runs(self) -> int:
        """How many starts; one component has nothing to be found."""
        return self._restarts if len(self._members) > 1 else 1

    def _learned(self, x: np.ndarray) -> Any:
        count = len(self._members)
        prior = MixturePrior(Dirichlet(np.full((1, count), self._concentration)), self._prior)
        how = VariationalBayes(prior=prior, restarts=self._runs)
        return _quietly(fit, self._model, x, how, seed=self._seed, max_iter=1000, tol=1e-5)

    def held_out(self, train: np.ndarray, test: np.ndarray) -> tuple[float, int]:
        model = self._learned(self._x[train]).model
        return float(model.log_density(self._x[test]).sum()), len(test)


class _Chain(Candidate):
    def __init__(self, model: HMM, data: Any, prior: Any, *, restarts: int, seed: int | None) -> None:
        self._model, self._prior, self._restarts, self._seed = model, prior, restarts, seed
        pair = isinstance(data, tuple) and len(data) == 2
        self._data = model.sequences(*data) if pair else model.sequences(data)
        self.rows, self.parts = round(self._data.total_rows), self._data.n_units

    @property
    def n_parameters(self) -> int:
        return self._model.n_parameters

    def likelihood(self) -> float:
        rows = self._data.rows()
        floor = _FLOOR * float(np.nanvar(rows, axis=0).mean()) if rows.dtype.kind == "f" else 0.0
        start = self._learned(self._data).model
        how = EM(restarts=self._restarts, floor=floor)
        found = _quietly(fit, start, self._data, how, seed=self._seed, max_iter=500, tol=1e-4)
        return found.log_likelihood.value

    def exact(self) -> Estimate:
        raise UnsupportedError("hidden states leave no closed form")

    def laplace(self) -> Estimate:
        raise UnsupportedError("Laplace is offered for Bayesian networks only; use VB")

    def vb(self) -> Estimate:
        return self._learned(self._data).evidence

    def _learned(self, data: Dataset) -> Any:
        how = VariationalBayes(prior=self._prior, restarts=self._restarts)
        return _quietly(fit, self._model, data, how, seed=self._seed, tol=1e-6)

    def held_out(self, train: np.ndarray, test: np.ndarray) -> tuple[float, int]:
        part = self._data.take(test)
        return log_likelihood(self._learned(self._data.take(train)).model, part).value, round(part.total_rows)


def _quietly(call: Any, *arguments: Any, **options: Any) -> Any:
    """Without the warning of a run that did not converge: a table needs one number per model anyway."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return call(*arguments, **options)
