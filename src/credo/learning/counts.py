r"""Tables of a Bayesian network from counts: closed forms for complete data, and the M-step of EM.

    theta_i(x_i | u) = ( N(u, x_i) + m ) / sum over x_i of the same        m pseudo-counts of the prior

With N counted from complete rows this is the maximum of the likelihood (or with m > 0 of the posterior);
with expected counts it is the M-step. Tables that are tied share one set of counts. A row u that was never
seen and has no pseudo-counts is 0/0: it keeps its values, becomes uniform, or is refused.

One pass over the distinct rows counts everything; the rest is linear in the number of entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from ..core import check
from ..core.errors import DataError, OptionError, QueryError
from ..core.factor_graph import FactorGraph
from ..core.result import Estimate, Status
from ..data.dataset import Dataset
from ..data.stream import Stream
from ..data.table import StateTable
from ..models.bayes_net import BayesNet
from ..models.table_priors import table_prior_of
from ..optimise.run import watched
from .base import Fit, Learner, Task, register_learner
from .hidden_parts import observed_counts

__all__ = ["CountTables", "TableStep", "Unseen"]

Unseen = Literal["keep", "uniform", "refuse"]
_NOTHING = 1e-200  # total expected counts of a row below which it was never seen


@dataclass(frozen=True)
class TableStep:
    """How counts become tables: the M-step of a network."""

    model: BayesNet  # the structure, and the tables where learning starts
    pseudo: np.ndarray  # (entries,) pseudo-counts; of tied tables in the first of them only
    slot: np.ndarray  # (entries,) the entry that holds the counts of each entry
    held: np.ndarray  # (entries,) whether an entry is not learned
    unseen: Unseen = "keep"  # what becomes of rows without counts

    @classmethod
    def of(
        cls, model: BayesNet, *, prior: Any = None, tie: Any = (), fixed: Iterable[str] = (),
        unseen: Unseen = "keep",
    ) -> TableStep:  # fmt: skip
        """Check the options against a network.

        Parameters
        ----------
        model
            The network.
        prior
            A `TablePrior`, its text form, or a mapping child name -> pseudo-counts.
        tie
            Lists of names: the tables of these children are one table.
        fixed
            Names of children whose tables are not learned.
        unseen
            What becomes of rows that were never seen.
        """
        graph = model.to_factor_graph()
        pseudo = table_prior_of(prior).pseudo_counts(model)
        start, size = graph.table_start, graph.table_size
        slot = np.arange(len(model.flat_tables))
        held = np.zeros(len(slot), dtype=bool)
        for i in _positions("fixed", model, fixed):
            held[start[i] : start[i] + size[i]] = True
        for group in _groups(model, tie):
            first = group[0]
            for i in group[1:]:
                slot[start[i] : start[i] + size[i]] = np.arange(start[first], start[first] + size[first])
                pseudo[start[i] : start[i] + size[i]] = 0.0
            if held[start[group]].any():
                raise OptionError("tie, fixed: a table is both tied and fixed; leave one of them out")
        pseudo[held] = 0.0
        return cls(model, pseudo, slot, held, unseen)

    def start(self) -> np.ndarray:
        """The tables of the model, tied ones at their mean."""
        members = np.bincount(self.slot, minlength=len(self.slot))
        mean = np.bincount(self.slot, self.model.flat_tables, minlength=len(self.slot))
        return (mean / np.maximum(members, 1))[self.slot]

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """Every row drawn from the uniform distribution over its simplex; zeros and held tables stay."""
        given = self.start()
        drawn = rng.standard_gamma(1.0, len(given)) * (given > 0)
        made = self._rows(drawn[self.slot])
        return np.where(self.held, given, made)

    def perturbed(self, tables: np.ndarray, children: Iterable[int], rng: np.random.Generator) -> np.ndarray:
        """The tables of these variables times log-normal noise, rows summing to one again."""
        graph = self.model.to_factor_graph()
        noise = np.zeros(len(tables))
        for i in children:
            mine = self.slot[graph.table_start[i] : graph.table_start[i] + graph.table_size[i]]
            noise[mine] = 0.5 * rng.standard_normal(len(mine))
        return np.where(self.held, tables, self._rows(tables * np.exp(noise[self.slot])))

    def maximise(self, counts: np.ndarray, current: np.ndarray) -> np.ndarray:
        """The best tables for these (expected) counts; `current` is what unseen rows may keep."""
        pooled = np.bincount(self.slot, counts, minlength=len(counts)) + self.pseudo
        numerators = pooled[self.slot]
        sums = np.repeat(np.add.reduceat(numerators, self._row_start), self._row_sizes)
        unseen = (sums <= _NOTHING) & ~self.held
        if self.unseen == "refuse" and unseen.any():
            raise self._never_seen(int(np.flatnonzero(unseen)[0]))
        rest = current if self.unseen == "keep" else np.repeat(1.0 / self._row_sizes, self._row_sizes)
        made = np.divide(numerators, sums, out=rest.copy(), where=~unseen & ~self.held)
        return np.where(self.held, current, made)

    def log_prior(self, tables: np.ndarray) -> float:
        """Log density of the tables under the prior, up to a constant."""
        used = self.pseudo > 0
        with np.errstate(divide="ignore"):
            return float(self.pseudo[used] @ np.log(tables[used]))

    def made(self, tables: np.ndarray) -> BayesNet:
        """A network with these tables."""
        graph = self.model.to_factor_graph()
        made = BayesNet.from_flat(self.model.variables, graph.scope_start, graph.scope, self._rows(tables))
        made.to_factor_graph().memo = graph.memo
        return made

    @cached_property
    def _row_sizes(self) -> np.ndarray:
        sizes = self.model.variables.sizes
        return np.repeat(sizes, self.model.to_factor_graph().table_size // sizes)

    @cached_property
    def _row_start(self) -> np.ndarray:
        sizes = self._row_sizes
        return np.cumsum(sizes) - sizes

    def _rows(self, weights: np.ndarray) -> np.ndarray:
        """Rows divided by their sums."""
        return weights / np.repeat(np.add.reduceat(weights, self._row_start), self._row_sizes)

    def _never_seen(self, entry: int) -> DataError:
        graph, variables = self.model.to_factor_graph(), self.model.variables
        i = int(np.searchsorted(graph.table_start, entry, side="right")) - 1
        at = np.unravel_index(entry - int(graph.table_start[i]), graph.log_table(i).shape)
        given = [
            f"{variables.names[int(j)]}={variables[int(j)].states[int(k)]}"
            for j, k in zip(graph.scope_of(i)[:-1], at[:-1], strict=True)
        ]
        where = f" with {', '.join(given)}" if given else ""
        return DataError(
            f"table of '{variables.names[i]}': no row of the data{where} tells its probabilities (0/0); "
            "give a prior such as 'bdeu(size=10)', or unseen=keep or uniform"
        )


@register_learner
@dataclass(frozen=True, kw_only=True)
class CountTables(Learner):
    """Tables of a Bayesian network from complete data, in closed form.

    Examples
    --------
    >>> import credo
    >>> from credo.learning import fit
    >>> model = credo.BayesNet.random({"rain": ["no", "yes"], "wet": 2}, {"wet": ["rain"]}, seed=0)
    >>> data = {"rain": ["no", "no", "yes", "yes"], "wet": [0, 0, 1, 0]}
    >>> fit(model, data, "counts").model.tables["wet"]
    array([[1. , 0. ],
           [0.5, 0.5]])
    >>> fit(model, data, "counts(prior=uniform(count=1))").model.tables["wet"]
    array([[0.75, 0.25],
           [0.5 , 0.5 ]])
    """

    name: ClassVar[str] = "counts"
    streams: ClassVar[bool] = True
    monotone: ClassVar[bool] = True
    prior: Any = None  # uniform(count=...), bdeu(size=...), towards(size=...), or name -> pseudo-counts
    unseen: Unseen = "keep"  # parent states without a row: keep their values, uniform, or refuse
    tie: Any = ()  # lists of names of children that share one table
    fixed: tuple[str, ...] = ()  # children whose tables are not learned

    def __post_init__(self) -> None:
        """Check the options."""
        check_table_options(self.prior, self.unseen)

    def why_not(self, task: Task) -> str | None:
        """A network and complete rows."""
        if not hasattr(type(task.model), "flat_tables"):
            return f"it fills the tables of a BayesNet, got {type(task.model).__name__}; use likelihood"
        if (
            not isinstance(task.data, Stream) and not task.data.is_complete
        ):  # a stream is found out by counting
            return "some values are missing; use em"
        return None

    def _with_real_nodes(self, task: Task, rng: np.random.Generator) -> Fit:
        """One pass and one M-step: weighted regressions beside the tables."""
        from .conditional_gaussian import NetworkProblem
        from .em_steps import fit_of, run_em
        from .streams import first_batch

        stream = task.data if isinstance(task.data, Stream) else None
        if stream is not None and not stream.is_complete:
            raise DataError("expected complete rows, got missing values; use em")
        problem = NetworkProblem(
            task.model, task.data if stream is None else first_batch(task.model, stream), prior=self.prior,
            tie=self.tie, fixed=self.fixed, unseen=self.unseen, watched=task.validation, stream=stream,
        )  # fmt: skip
        found = run_em(problem, replace(task.budget, max_iter=1), rng, name=self.name)
        fit = fit_of(problem, found)
        trace = {name: curve[-1:] for name, curve in fit.trace.items()}
        return replace(fit, objective=fit.objective[-1:], trace=trace)

    def run(self, task: Task, rng: np.random.Generator) -> Fit:
        """Count and divide."""
        if task.model.regressions:
            return self._with_real_nodes(task, rng)
        step = TableStep.of(task.model, prior=self.prior, tie=self.tie, fixed=self.fixed, unseen=self.unseen)
        graph = task.model.to_factor_graph()
        counts, total = _counted(task.data, graph)
        tables = step.maximise(counts, step.start())
        value = log_likelihood_of_counts(counts, tables)
        trace = {"log_likelihood": np.array([value / total])}
        if task.validation is not None:
            trace["validation"] = np.array([_validated(task.validation, graph, tables)])
        objective = np.array([(value + step.log_prior(tables)) / total])
        return Fit(step.made(tables), Status.EXACT, objective, Estimate(value, "exact"), trace)


def _counted(data: StateTable | Stream, graph: FactorGraph) -> tuple[np.ndarray, float]:
    """Counts of all table entries, and the weight of all rows."""
    if isinstance(data, StateTable):
        return observed_counts(graph, data.states, data.counts), data.total
    counts, total = np.zeros(int(graph.table_size.sum())), 0.0

    def of_batch(batch: Dataset) -> tuple[np.ndarray, float]:
        rows = StateTable.of_dataset(batch, graph.variables)
        if not rows.is_complete:
            raise DataError("expected complete rows, got missing values; use em")
        return observed_counts(graph, rows.states, rows.counts), rows.total

    for some, weight in watched(data.map(of_batch)):
        counts += some
        total += weight
    return counts, total


def _validated(held: StateTable, graph: Any, tables: np.ndarray) -> float:
    if not held.is_complete:
        raise DataError("validation: expected complete rows, got missing values; use em")
    return log_likelihood_of_counts(observed_counts(graph, held.states, held.counts), tables) / held.total


def log_likelihood_of_counts(counts: np.ndarray, tables: np.ndarray) -> float:
    """Sum of counts times log tables, 0 log 0 = 0."""
    used = counts > 0
    with np.errstate(divide="ignore"):
        return float(counts[used] @ np.log(tables[used]))


def check_table_options(prior: Any, unseen: str) -> None:
    """Check the options all learners of tables share."""
    table_prior_of(prior)
    check.one_of("unseen", unseen, ["keep", "uniform", "refuse"])


def _positions(what: str, model: BayesNet, names: Any) -> list[int]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise OptionError(f"{what}: expected a list of names, got {names!r}")
    try:
        return [model.variables.position(name) for name in names]
    except QueryError as error:
        raise OptionError(f"{what}: {error}") from None


def _groups(model: BayesNet, tie: Any) -> list[list[int]]:
    """Positions of the children of each group of tied tables."""
    if not isinstance(tie, (list, tuple)):
        raise OptionError(f"tie: expected lists of names, got {tie!r:.80}")
    found = [_positions("tie", model, group) for group in tie]
    members = [i for group in found for i in group]
    if len(set(members)) < len(members):
        raise OptionError("tie: a name appears twice; put all tables that are one into one list")
    for group in found:
        shapes = {model.tables[model.variables.names[i]].shape for i in group}
        if len(shapes) > 1:
            raise OptionError(f"tie: expected tables of one shape, got {sorted(shapes)}")
    return [group for group in found if group]
