r"""Learning of Bayesian networks with real nodes: expected counts and moments, and weighted regressions.

For a row, the unobserved variables that share a conditional form parts. A part with hidden discrete
variables s and missing real ones x has, for every joint state s, a quadratic form from the residuals around,

    J_s = sum_r a_r a_r' / v_r,     m_s = J_s^-1 sum_r a_r g_r / v_r,     residual_r = a_r'x - g_r,

    log w(s) = log tables + sum_r log N(residual_r at m_s; 0, v_r) + ( |x| log 2 pi - log det J_s ) / 2,

so q(s) = w(s) / sum w are the responsibilities, and x has mean m_s and covariance J_s^-1 given s. The E-step
adds q to the counts of tables, and of a regression with z = (1, real parents, child) E[z z'] to the moments
of its parents' joint state. The M-step divides counts by row sums, and solves

    weights_s = C_xx^-1 C_xy,   variance_s = max( C_yy - weights_s' C_xy, floor ),  C centred moments given s.

Where nothing is unobserved the moments do not depend on the parameters, and one M-step is the maximum.
Numbers are learned in units of their column (mean 0, variance 1), and `floor` is in these units.

Cost per E-step: rows x joint states of a part x cube of its missing numbers; rows with the same pattern of
missing cells are treated together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import Any

import numpy as np

from ..core.errors import DataError, ImpossibleRowError, TooLargeError
from ..data.dataset import Dataset
from ..data.stream import Stream
from ..models.bayes_net import BayesNet
from ..models.regression import Regression
from .conditional_parts import ConditionalNode, PatternPart
from .counts import TableStep
from .em_data import DividedData, Expected, Place, unit_batches
from .em_steps import EMProblem, EMStart
from .network_data import read_network
from .network_rows import NetworkRows
from .network_units import column_units

__all__ = ["NetworkProblem"]

_MOST_STATES = 1 << 16  # joint states of the hidden variables of a part
_AT_ONCE = 1 << 20  # numbers of one array of the E-step
_NOTHING = 1e-200  # weight of a joint state below which it was never seen
_RANK = 1e-10  # share of the largest eigenvalue below which parents are collinear


class NetworkProblem(DividedData, EMProblem):
    """A network with real nodes and its rows.

    Parameters
    ----------
    model
        Structure, and where learning starts.
    data
        The rows.
    prior, tie, fixed, unseen
        Of the tables, as in `counts`; `fixed` and `unseen` also of regressions.
    floor
        The least variance of a regression, as a share of its column's; 0 refuses variances that vanish.
    watched
        Rows whose log-likelihood is told after each step.
    stream
        Where all data come from, if `data` are the first batch only; units of columns take a pass.
    """

    def __init__(
        self, model: BayesNet, data: NetworkRows, *, prior: Any = None, tie: Any = (), fixed: Any = (),
        unseen: Any = "keep", floor: float = 1e-6, watched: NetworkRows | None = None,
        stream: Stream | None = None,
    ) -> None:  # fmt: skip
        self.model, self.data, self.floor, self.stream = model, data, floor, stream
        self.rows = float(data.weights.sum()) if stream is None else stream.total
        part = model.discrete_part()
        self.tables = TableStep.of(
            part, prior=prior, tie=tie, fixed=[f for f in fixed if f in part], unseen=unseen
        )
        self.held = {model.variables.position(name) for name in fixed} - set(
            model.variables.positions(part.variables.names).tolist()
        )
        self.unseen = unseen
        self._place()
        self.centre, self.unit = column_units(model, self.nodes, data, stream)
        self.x = (data.values - self.centre) / self.unit
        self.watched = None if watched is None else self._of_rows(watched)

    def _of_rows(self, data: NetworkRows) -> NetworkProblem:
        """The same network and units with other rows."""
        found = copy(self)
        found.data, found.rows, found.stream = data, float(data.weights.sum()), None
        found.x = (data.values - self.centre) / self.unit
        return found

    def _place(self) -> None:
        """Offsets of tables and nodes in the flat parameters and statistics."""
        model, sizes = self.model, self.model.variables.sizes
        self.scopes = [
            model.scope[a:b].tolist() for a, b in zip(model.scope_start, model.scope_start[1:], strict=False)
        ]
        entries = [int(np.prod(sizes[s])) if sizes[s[-1]] else 0 for s in self.scopes]
        self.table_at = np.concatenate([[0], np.cumsum(entries)])
        at = moments = int(self.table_at[-1])
        self.nodes: dict[int, ConditionalNode] = {}
        for i in np.flatnonzero(sizes == 0).tolist():
            reals, given = model.parents_at(i)
            node = ConditionalNode(i, tuple(reals), tuple(given), tuple(sizes[given].tolist()), at, moments)
            self.nodes[i] = node
            at, moments = at + node.count * node.width, moments + node.count * node.width**2
        self.n_parameters, self.n_statistics = at, moments

    def part(self, batch: Dataset) -> NetworkProblem:
        """With the rows of a batch."""
        return self._of_rows(read_network(self.model, batch))

    def own_batches(self, size: int, seed: int, place: Place) -> Iterator[tuple[Callable[[Any], Any], Place]]:
        """So many rows at a time."""
        for rows, end in unit_batches(np.flatnonzero(self.data.weights), size, seed, place):
            yield partial(self._learn_part, self._of_rows(self.data.take(rows))), end

    # Parameters ---------------------------------------------------------------------------------------------

    def of_node(self, parameters: np.ndarray, node: ConditionalNode) -> np.ndarray:
        """(S, k + 2): bias, weights and variance of a node."""
        return parameters[node.at : node.at + node.count * node.width].reshape(node.count, node.width)

    def _given(self) -> np.ndarray:
        """The model's own parameters, in the units of the columns."""
        found = np.empty(self.n_parameters)
        found[: self.table_at[-1]] = self.tables.start()
        for i, node in self.nodes.items():
            regression = self.model.regressions[self.model.variables.names[i]]
            weights = regression.weights.reshape(node.count, -1)
            own, reals = self.of_node(found, node), list(node.reals)
            own[:, 0] = (regression.bias.ravel() + weights @ self.centre[reals] - self.centre[i]) / self.unit[
                i
            ]
            own[:, 1:-1] = weights * self.unit[reals] / self.unit[i]
            own[:, -1] = regression.variance.ravel() / self.unit[i] ** 2
        return found

    def start(self, rng: np.random.Generator, number: int) -> EMStart:
        """The model given; later runs draw tables, and centres of real nodes from the rows."""
        found = self._given()
        if number:
            found[: self.table_at[-1]] = self.tables.random(rng)
            self._scatter(found, rng)
        return EMStart(found)

    def _scatter(self, parameters: np.ndarray, rng: np.random.Generator) -> None:
        """Biases at values of random rows, so that no two joint states are alike."""
        for i, node in self.nodes.items():
            seen = self.x[:, i][~np.isnan(self.x[:, i])]
            if i in self.held or not len(seen):
                continue
            own = self.of_node(parameters, node)
            own[:, 0], own[:, 1:-1], own[:, -1] = rng.choice(seen, node.count), 0.0, 1.0

    def made(self, parameters: np.ndarray) -> BayesNet:
        """The network with these parameters, in the units of the data."""
        model, regressions = self.model, {}
        for i, node in self.nodes.items():
            own, reals = self.of_node(parameters, node), list(node.reals)
            weights = own[:, 1:-1] * self.unit[i] / self.unit[reals]
            bias = own[:, 0] * self.unit[i] + self.centre[i] - weights @ self.centre[reals]
            regressions[model.variables.names[i]] = Regression(
                bias.reshape(node.sizes), (own[:, -1] * self.unit[i] ** 2).reshape(node.sizes),
                weights.reshape(*node.sizes, -1),
            )  # fmt: skip
        tables = self.tables._rows(parameters[: self.table_at[-1]]) if self.table_at[-1] else np.empty(0)
        return BayesNet.from_flat(model.variables, model.scope_start, model.scope, tables, regressions)

    def movement(self, old: np.ndarray, new: np.ndarray) -> float:
        """Of probabilities, and of coefficients in units of the columns."""
        return float(np.abs(new - old).max(initial=0.0))

    def log_prior(self, parameters: np.ndarray) -> float:
        """Of the tables."""
        return self.tables.log_prior(parameters[: self.table_at[-1]])

    def is_closed_form(self) -> bool:
        """Complete rows."""
        return self.stream is None and self.data.is_complete

    def validate(self, parameters: np.ndarray) -> float | None:
        """Per row that is watched; -inf where one is impossible."""
        if self.watched is None:
            return None
        try:
            return self.watched.expect(parameters).log_weight / self.watched.rows
        except ImpossibleRowError:  # states that no training row has: learning goes on
            return -np.inf

    # M-step -------------------------------------------------------------------------------------------------

    def maximise(self, statistics: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Tables by division, regressions by least squares."""
        cut, found = int(self.table_at[-1]), parameters.copy()
        if cut:
            found[:cut] = self.tables.maximise(statistics[:cut], parameters[:cut])
        for i, node in self.nodes.items():
            if i not in self.held:
                size = node.count * node.width**2
                moments = statistics[node.moments : node.moments + size]
                moments = moments.reshape(node.count, node.width, node.width)
                for s in range(node.count):
                    self._regress(node, s, moments[s], self.of_node(found, node)[s])
        return found

    def _regress(self, node: ConditionalNode, s: int, moments: np.ndarray, own: np.ndarray) -> None:
        """One weighted regression from its moments, written into `own`."""
        weight = moments[0, 0]
        if weight <= _NOTHING:
            if self.unseen == "refuse":
                raise DataError(
                    f"regression of {self._told(node, s)}: no row tells its coefficients; use unseen=keep"
                )
            if self.unseen == "uniform":
                own[0], own[1:-1], own[-1] = 0.0, 0.0, 1.0
            return
        mean = moments[0, 1:] / weight
        centred = moments[1:, 1:] / weight - np.outer(mean, mean)
        cxx, cxy, cyy = centred[:-1, :-1], centred[:-1, -1], centred[-1, -1]
        weights = np.linalg.pinv(cxx, rcond=_RANK, hermitian=True) @ cxy if len(cxy) else cxy
        variance = max(cyy - 2 * weights @ cxy + weights @ cxx @ weights, self.floor)
        if not variance > 0:
            raise DataError(
                f"regression of {self._told(node, s)}: its variance vanishes, so that its density has no "
                "bound; give floor=1e-6, or more rows"
            )
        own[0], own[1:-1], own[-1] = mean[-1] - weights @ mean[:-1], weights, variance

    def _told(self, node: ConditionalNode, s: int) -> str:
        variables = self.model.variables
        at = np.unravel_index(s, node.sizes) if node.sizes else ()
        given = [
            f"{variables.names[j]}={variables[j].label(int(k))}" for j, k in zip(node.given, at, strict=True)
        ]
        return f"'{variables.names[node.i]}'" + (f" with {', '.join(given)}" if given else "")

    # E-step -------------------------------------------------------------------------------------------------

    def expect(self, parameters: np.ndarray) -> Expected:
        """Counts of tables and moments of regressions."""
        statistics, total = np.zeros(self.n_statistics), 0.0
        with np.errstate(divide="ignore"):
            logs = np.log(parameters[: self.table_at[-1]])
        seen = (self.data.states >= 0) | ~np.isnan(self.data.values)
        masks, which = np.unique(seen, axis=0, return_inverse=True)
        for p, mask in enumerate(masks):
            rows = np.flatnonzero(which.ravel() == p)
            for hidden, around in self._parts(~mask):
                sizes = self.model.variables.sizes[hidden]
                discrete = [h for h, size in zip(hidden, sizes, strict=True) if size]
                missing = [h for h, size in zip(hidden, sizes, strict=True) if not size]
                count = self._joint_states(discrete)
                step = max(_AT_ONCE // (count * (len(missing) + 1) ** 2), 1)
                for first in range(0, len(rows), step):
                    block = rows[first : first + step]
                    part = PatternPart(self, parameters, logs, block, discrete, missing, around)
                    total += part.add_to(statistics)
        return Expected(total, statistics)

    def _joint_states(self, discrete: list[int]) -> int:
        sizes = self.model.variables.sizes[discrete]
        if np.log2(sizes).sum() > np.log2(_MOST_STATES):
            names = [self.model.variables.names[i] for i in discrete]
            raise TooLargeError(
                f"em: a row lacks {names[:5]}, which have 2^{np.log2(sizes).sum():.0f} joint states, "
                f"expected at most {_MOST_STATES}; leave some of these variables out, or take edges away"
            )
        return int(np.prod(sizes))

    def _parts(self, gone: np.ndarray) -> list[tuple[list[int], list[int]]]:
        """(unobserved variables, conditionals) that belong together; what is all observed comes as one."""
        label = {i: i for i in np.flatnonzero(gone).tolist()}

        def root(i: int) -> int:
            while label[i] != i:
                i = label[i]
            return i

        for scope in self.scopes:
            own = [j for j in scope if j in label]
            for j in own[1:]:
                label[root(j)] = root(own[0])
        parts: dict[int, tuple[list[int], list[int]]] = {}
        for i in label:
            parts.setdefault(root(i), ([], []))[0].append(i)
        plain: list[int] = []
        for i, scope in enumerate(self.scopes):
            own = [j for j in scope if j in label]
            (parts[root(own[0])][1] if own else plain).append(i)
        return [*parts.values(), *([([], plain)] if plain else [])]
