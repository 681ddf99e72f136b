r"""The M-step: new parameters from expected counts, for directed tables and for undirected weights.

    directed     theta = counts / row sums, in closed form (`counts.py`)
    undirected   a few quasi-Newton steps up  Q(w) = (1/N) counts . theta(w) - log Z(w)  (generalised EM)

Both raise (1/N) sum counts . log p, so with an exact E-step the likelihood never falls.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.factor_graph import FactorGraph
from ..core.result import Kind, Status
from ..inference.problem.base import Budget
from ..optimise.optimisers import LBFGS, Loss
from .ascent import break_symmetry
from .counts import TableStep
from .expectations import Oracle
from .parameters import Parameters
from .priors import Prior

__all__ = ["DirectedStep", "MStep", "UndirectedStep"]


class MStep(abc.ABC):
    """A model seen as a vector of parameters."""

    graph: FactorGraph  # the structure, tables without gaps

    @abc.abstractmethod
    def start(self) -> np.ndarray:
        """Parameters of the model given."""

    @abc.abstractmethod
    def random(self, rng: np.random.Generator) -> np.ndarray:
        """Parameters for another start."""

    @abc.abstractmethod
    def separated(
        self, parameters: np.ndarray, hidden: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, str | None]:
        """Parameters in which no two states of a hidden variable are alike, and a sentence if any were."""

    @abc.abstractmethod
    def log_tables(self, parameters: np.ndarray) -> np.ndarray:
        """All log tables, in factor order without gaps."""

    @abc.abstractmethod
    def log_z(self, parameters: np.ndarray) -> float:
        """Log Z of the model itself."""

    @abc.abstractmethod
    def log_prior(self, parameters: np.ndarray) -> float:
        """Log density of the prior, up to a constant."""

    @abc.abstractmethod
    def maximise(self, counts: np.ndarray, total: float, parameters: np.ndarray) -> np.ndarray:
        """Better parameters for the expected counts of `total` rows."""

    @abc.abstractmethod
    def made(self, parameters: np.ndarray) -> Any:
        """A new model with these parameters, of the class that learning began with."""

    def kind(self) -> Kind:
        """What `log_z` is: exact, a bound or an estimate."""
        return "exact"

    def report(self) -> list[str]:
        """Sentences for the notes."""
        return []


@dataclass
class DirectedStep(MStep):
    """A Bayesian network; the parameters are its flat tables."""

    tables: TableStep  # the closed form

    def __post_init__(self) -> None:
        """The network's own graph has its tables without gaps."""
        self.graph = self.tables.model.to_factor_graph()

    def start(self) -> np.ndarray:
        """Tied tables at their mean."""
        return self.tables.start()

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """Rows uniform over their simplex."""
        return self.tables.random(rng)

    def separated(
        self, parameters: np.ndarray, hidden: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, str | None]:
        """Noise on the tables of the children where two states of a hidden parent are alike."""
        alike = [int(i) for i in hidden if self._is_alike(parameters, int(i))]
        if not alike:
            return parameters, None
        near = sorted({*alike, *(j for i in alike for j in self._children(i))})
        names = ", ".join(f"'{self.graph.variables.names[i]}'" for i in alike[:5])
        return self.tables.perturbed(parameters, near, rng), (
            f"states of {names}, which {'is' if len(alike) == 1 else 'are'} hidden, were alike at the start, "
            "and EM never separates such states: the tables around were perturbed at random"
        )

    def _children(self, i: int) -> list[int]:
        """Variables with i among their parents."""
        around = np.flatnonzero(self.graph.scope == i)
        factors = np.searchsorted(self.graph.scope_start, around, side="right") - 1
        return [int(a) for a in factors if a != i]

    def _is_alike(self, tables: np.ndarray, i: int) -> bool:
        """Whether two states of variable i have the same children's rows and proportional own columns."""
        children = self._children(i)
        if not children:
            return False  # nothing below tells its states apart, and nothing is gained if it did
        graph, rows = self.graph, []
        for a in children:
            table = self._table(tables, a)
            axis = int(np.flatnonzero(graph.scope_of(a) == i)[0])
            rows.append(np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1))
        own = self._table(tables, i).reshape(-1, int(graph.variables.sizes[i])).T
        size = own.sum(axis=1, keepdims=True)
        rows.append(np.divide(own, size, out=np.zeros_like(own), where=size > 0))
        signature = np.concatenate(rows, axis=1)[size.ravel() > 0].round(9)
        return len(np.unique(signature, axis=0)) < len(signature)

    def _table(self, tables: np.ndarray, a: int) -> np.ndarray:
        start = int(self.graph.table_start[a])
        return tables[start : start + int(self.graph.table_size[a])].reshape(self.graph.log_table(a).shape)

    def log_tables(self, parameters: np.ndarray) -> np.ndarray:
        """Log of the tables of the network, flat; -inf where a probability is zero."""
        with np.errstate(divide="ignore"):
            return np.log(parameters)

    def log_z(self, parameters: np.ndarray) -> float:
        """Conditional probabilities sum to one."""
        return 0.0

    def log_prior(self, parameters: np.ndarray) -> float:
        """Of the Dirichlet distributions."""
        return self.tables.log_prior(parameters)

    def maximise(self, counts: np.ndarray, total: float, parameters: np.ndarray) -> np.ndarray:
        """Divide by row sums."""
        return self.tables.maximise(counts, parameters)

    def made(self, parameters: np.ndarray) -> Any:
        """The Bayesian network with these tables."""
        return self.tables.made(parameters)


@dataclass
class UndirectedStep(MStep):
    """Weights of a Markov network, a log-linear model or a factor graph."""

    parameters: Parameters  # how weights make tables
    prior: Prior  # of the weights
    oracle: Oracle  # for log Z and expectations without evidence
    steps: int = 5  # quasi-Newton steps of one M-step

    def __post_init__(self) -> None:
        """Tables without gaps."""
        self.graph = self.parameters.graph

    def start(self) -> np.ndarray:
        """The weights of the model."""
        return self.parameters.start.copy()

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """Independent standard normal weights, one per parameter."""
        return rng.standard_normal(len(self.parameters.start))

    def separated(
        self, parameters: np.ndarray, hidden: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, str | None]:
        """Small random numbers where all states of a hidden variable are alike."""
        return break_symmetry(self.parameters.graph_at(parameters), hidden, parameters, rng)

    def log_tables(self, parameters: np.ndarray) -> np.ndarray:
        """D w + fixed."""
        return self.parameters.tables(parameters)

    def log_z(self, parameters: np.ndarray) -> float:
        """One run of inference without evidence."""
        return self.oracle.log_z(self.oracle.free(self.parameters.graph_at(parameters)))

    def log_prior(self, parameters: np.ndarray) -> float:
        """Log density of the weights under the prior, up to a constant."""
        return self.prior.value(parameters)

    def maximise(self, counts: np.ndarray, total: float, parameters: np.ndarray) -> np.ndarray:
        """Climb a little; the objective is concave, its start is the last optimum."""
        wanted = self.parameters.features(counts) / total
        used = counts > 0

        def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
            graph = self.parameters.graph_at(weights)
            free = self.oracle.free(graph)
            score = float(counts[used] @ graph.log_tables[used]) / total
            extra, slope = self.prior.smooth(weights)
            gradient = wanted - self.parameters.features(self.oracle.entries(free))
            return self.oracle.log_z(free) - score - extra / total, -gradient - slope / total

        whole = Loss(loss, l1=self.prior.strength() / total)
        best, status = LBFGS().minimise(whole, parameters, Budget(self.steps, 1e-10))
        return parameters if status is Status.DIVERGED else best

    def made(self, parameters: np.ndarray) -> Any:
        """A model of the same kind."""
        return self.parameters.model(parameters)

    def kind(self) -> Kind:
        """Exact if every run was."""
        return self.oracle.kind(complete=True)

    def report(self) -> list[str]:
        """Of the runs without evidence."""
        return self.oracle.report()
