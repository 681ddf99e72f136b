"""Models as comparison sees them: fitted, scored on other data, and weighed by their evidence.

Bayesian networks, and models of hidden rows, which `credo.fit` learns by `vb` and `em` as far as they offer
it; and any other model that `credo.fit` learns and that says how many free numbers it has.
"""

from __future__ import annotations

import abc
import warnings
from functools import cached_property
from typing import Any

import numpy as np

from ..core import check
from ..core.errors import ConvergenceWarning, ImpossibleRowError, ModelError, UnsupportedError
from ..core.result import Estimate
from ..data.dataset import Dataset
from ..data.read import read
from ..data.table import StateTable
from ..estimators.bayesian_mixture import BayesianMixture
from ..families.base import Family
from ..families.dirichlet import Dirichlet
from ..families.independent import IndependentRows
from ..families.mixture import Mixture, MixturePrior
from ..learning.base import fit
from ..learning.em import EM
from ..learning.evidence import laplace_tables, table_evidence
from ..learning.likelihood import log_likelihood
from ..learning.parameters import Parameters, free_weights, why_not_linear
from ..learning.task_data import read_task, refuse_posterior
from ..learning.vb import VariationalBayes, why_not_posterior
from ..learning.vb_factor_analysis import factors_of
from ..models.bayes_net import BayesNet
from ..models.table_posterior import table_rows

__all__ = ["Candidate", "candidate"]

_FLOOR = 1e-4  # of variances in maximum likelihood, relative to those of the data
_TOL = 1e-4  # change of a parameter that ends it; gradient steps end at the tolerance of `em`


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


def candidate(
    model: Any, data: Any, *, prior: Any, restarts: int, seed: int | None, folds: int, **named: Any
) -> Candidate:
    """The candidate for a model of any kind that can be compared.

    Parameters
    ----------
    model, data, prior, restarts, seed
        As in `compare_models`.
    folds
        Into how many parts the data have to be cut.
    named
        groups, columns, lengths of the data.
    """
    if isinstance(model, BayesianMixture):
        data, members = model.members(data)
        prior = model.mixture_prior(prior if model.prior is None else model.prior)
        model = Mixture(np.full((1, len(members)), 1.0 / len(members)), members)
    refuse_posterior(model)
    if not _is_learned(model):
        raise ModelError(
            "models: expected a Bayesian network, a model of hidden rows (HMM, a mixture, a family with one "
            "member, any Learnable), of weights, labels, documents or blocks, or a blank of these, got "
            f"{type(model).__name__}"
        )
    targets = named.pop("targets", None)
    found, observed, _ = read_task(model, data, None, None, check.generator(seed), named, targets=targets)
    if getattr(found, "regressions", None):
        observed = read(data, schema=found.variables, columns=named["columns"])
        return _MixedNetwork(found, observed, prior, restarts=restarts, seed=seed)
    if isinstance(found, BayesNet):
        return _Network(found, observed, prior, restarts=restarts, seed=seed)
    if not hasattr(found, "emission"):
        return _Fitted(found, observed, prior, restarts=restarts, seed=seed)
    return _Hidden(found, observed, prior, restarts=restarts, seed=seed, folds=folds)


def _is_learned(model: Any) -> bool:
    """Whether a model, or what a blank becomes, is learned and says how many free numbers it has."""
    offers = ("n_parameters", "tables", "fill", "initialise", "read_batch")
    return (
        isinstance(model, Family) or why_not_linear(model) is None or any(hasattr(model, n) for n in offers)
    )


class _Fitted(Candidate):
    """Any other model: what `credo.fit` finds, by the learner it chooses."""

    def __init__(self, model: Any, data: Any, prior: Any, *, restarts: int, seed: int | None) -> None:
        self._model, self._data, self._seed, self._prior = model, data, seed, prior
        self._restarts = restarts
        self.rows, self.parts = round(data.total), len(data)

    @property
    def n_parameters(self) -> int:
        if hasattr(self._model, "score_weights"):
            return len(self._model.score_weights(self._data).start)
        if hasattr(self._found.model, "n_parameters"):
            return int(self._found.model.n_parameters)
        return free_weights(Parameters.of(self._model))

    @cached_property
    def _found(self) -> Any:
        return self._learned(self._data)

    def _learned(self, data: Any) -> Any:
        return _quietly(fit, self._model, data, prior=self._prior, seed=self._seed)

    def likelihood(self) -> float:
        found = self._found.log_likelihood
        return float(
            found.value if found is not None else log_likelihood(self._found.model, self._data).value
        )

    def exact(self) -> Estimate:
        raise UnsupportedError(f"a {type(self._model).__name__} has no closed form of its evidence")

    def laplace(self) -> Estimate:
        raise UnsupportedError("Laplace is offered for Bayesian networks only; use VB")

    def vb(self) -> Estimate:
        if self._found.evidence is None:
            raise UnsupportedError(f"variational Bayes does not learn a {type(self._model).__name__}")
        found: Estimate = self._found.evidence
        return found

    def held_out(self, train: np.ndarray, test: np.ndarray) -> tuple[float, int]:
        found, part = self._learned(self._data.take(train)).model, self._data.take(test)
        try:
            return float(log_likelihood(found, part).value), round(part.total)
        except ImpossibleRowError:
            raise UnsupportedError(
                "what was learned from the other rows gives a held-out one no probability; give a prior, or "
                "more rows"
            ) from None


class _MixedNetwork(_Fitted):
    """A network with real nodes: tables and regressions."""

    @property
    def n_parameters(self) -> int:
        free = table_rows(self._model.discrete_part(), "uniform(count=1)").n_parameters
        parts = self._model.regressions.values()
        return free + sum(r.bias.size + r.weights.size + r.variance.size for r in parts)


class _Network(Candidate):
    def __init__(self, model: BayesNet, data: Any, prior: Any, *, restarts: int, seed: int | None) -> None:
        self._model, self._seed, self._data = model, seed, data
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


class _Hidden(Candidate):
    """A model of hidden rows: whatever `vb` and `em` learn, reading and scoring are the same."""

    def __init__(
        self, model: Any, data: Dataset, prior: Any, *, restarts: int, seed: int | None, folds: int
    ) -> None:
        self._model, self._data, self._seed, self._prior = model, data, seed, prior
        self._why_not = why_not_posterior(model)
        self._is_closed = model.emission.to_free() is None
        if isinstance(model, IndependentRows) and isinstance(model.family, Mixture):
            self._prior = _weighted(prior, model.family.weights.shape[1])
        self._restarts = restarts if len(model.emission) > 1 else 1  # one member has nothing to be found
        self.rows = round(data.total_rows)
        self._cuts = None
        if data.is_sequences and data.n_units < folds <= data.n_rows:
            self._cuts = np.linspace(0, data.n_rows, folds + 1).astype(np.int64)
        self.parts = data.n_units if self._cuts is None else folds

    @property
    def n_parameters(self) -> int:
        return int(self._model.n_parameters)

    def likelihood(self) -> float:
        start = self._model if self._why_not is not None else self._vb.model
        found: Estimate = self._climbed(start, self._data).log_likelihood
        return found.value

    def exact(self) -> Estimate:
        found: Estimate = self._vb.evidence
        if found.kind == "exact":
            return found
        if len(self._model.emission) > 1 or factors_of(self._model) is not None:
            raise UnsupportedError("hidden states or numbers leave no closed form")
        raise UnsupportedError("values are missing, so the parameters do not integrate out in closed form")

    def laplace(self) -> Estimate:
        raise UnsupportedError("Laplace is offered for Bayesian networks only; use VB")

    def vb(self) -> Estimate:
        found: Estimate = self._vb.evidence
        return found

    @cached_property
    def _vb(self) -> Any:
        if self._why_not is not None:
            raise UnsupportedError(self._why_not)
        return self._averaged(self._data)

    def _averaged(self, data: Dataset) -> Any:
        """The fit of variational Bayes."""
        how = VariationalBayes(prior=self._prior, restarts=self._restarts)
        return _quietly(fit, self._model, data, how, seed=self._seed, max_iter=1000, tol=1e-6)

    def _climbed(self, start: Any, data: Dataset) -> Any:
        how = EM(restarts=self._restarts, floor=_FLOOR * _least_variance(self._data))
        return _quietly(fit, start, data, how, seed=self._seed, tol=_TOL if self._is_closed else None)

    def held_out(self, train: np.ndarray, test: np.ndarray) -> tuple[float, int]:
        if self._cuts is not None:
            return self._held_block(int(test[0]))
        found, part = self._trained(self._data.take(train)), self._data.take(test)
        return log_likelihood(found, part).value, round(part.total_rows)

    def _held_block(self, number: int) -> tuple[float, int]:
        """Consecutive steps given all others, which are what is learned from."""
        assert self._cuts is not None
        first, end = self._cuts[number : number + 2]
        rows = np.arange(self._data.n_rows)
        others = self._model.sequences(self._data, mask=(rows < first) | (rows >= end))
        found = self._trained(others)
        return log_likelihood(found, self._data).value - log_likelihood(found, others).value, int(end - first)

    def _trained(self, data: Dataset) -> Any:
        """With averaged parameters where there are priors, otherwise with the most likely ones."""
        if self._why_not is not None:
            return self._climbed(self._model, data).model
        return self._averaged(data).model


def _weighted(prior: Any, components: int) -> MixturePrior:
    """One count per component where only the components have a prior, or nothing has."""
    if isinstance(prior, MixturePrior):
        return prior
    return MixturePrior(Dirichlet(np.ones((1, components))), prior)


def _least_variance(data: Dataset) -> float:
    """Of the columns of numbers that vary; 0 without such columns."""
    columns = [column.values.reshape(data.n_rows, -1) for column in data.columns if not column.is_discrete]
    known = [x for block in columns for x in block.T if not np.isnan(x).all()]
    return min((v for x in known if (v := float(np.nanvar(x))) > 0), default=0.0)


def _quietly(call: Any, *arguments: Any, **options: Any) -> Any:
    """Without the warning of a run that did not converge: a table needs one number per model anyway."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return call(*arguments, **options)
