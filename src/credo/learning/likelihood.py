r"""Maximum likelihood for Markov networks and log-linear models.

    l(w) = (1/N) sum_rows [ log Z(x_O; w) - log Z(w) ] + (1/N) log prior(w)
    dl/dw = (1/N) sum_rows E[phi | x_O] - E[phi] + ...

The stationary points match moments: expected features under the model equal those of the data. For complete
data and a log-linear model l is concave, and with exact inference the optimum is global; with hidden
variables it is local, and each step of `lbfgs` still never lowers it. Any registered inference algorithm
supplies the expectations; with an approximate one the curve shows *its* likelihood, so compare fits by
`log_likelihood(fit.model, data)` with exact inference where that is possible.

Cost per step: one run of inference, and one per distinct row with a missing value. Tables have more
weights than degrees of freedom, so without a prior the optimum is a flat: the distribution is unique,
the tables are not.

`log_likelihood` takes models with continuous variables too: log p(row) = log Z(given what the row has seen) -
log Z, and a row that has seen every variable needs its score and no inference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ..core import check
from ..core.errors import OptionError, UnsupportedError, ZeroProbabilityError
from ..core.evidence import Evidence
from ..core.factor_graph import FactorGraph, Model
from ..core.instance import Template
from ..core.registry import or_else
from ..core.result import Estimate, Kind
from ..data.dataset import Dataset, unit_weights
from ..data.read import read
from ..data.stream import Stream
from ..data.table import StateTable
from ..families.independent import rows_model
from ..inference.messages.bp import BP
from ..inference.portfolio.label_graphs import labels_log_z
from ..inference.portfolio.question import graph_of, infer
from ..inference.portfolio.templates import sequence_log_z, total_log_z
from ..inference.problem.base import Algorithm, Budget, algorithms
from ..inference.problem.gradients import needs
from ..optimise.optimisers import optimiser_of
from ..optimise.run import noted, watched
from .base import Task, register_learner
from .e_step import EStep
from .expectations import Oracle
from .gradient import Aim, GradientLearner, likelihood_source
from .hybrid_source import HybridRows
from .log_linear import ByDifferences, Objective
from .parameters import Parameters
from .streams import read_stream
from .table_sources import Likelihood, UnrolledLikelihood

__all__ = ["MaximumLikelihood", "log_likelihood"]


@register_learner
@dataclass(frozen=True, kw_only=True)
class MaximumLikelihood(GradientLearner):
    """Gradient ascent on the log-likelihood, or with a prior on the posterior, of the weights.

    Examples
    --------
    One coupling for all edges of a ring, learned from its own samples:

    >>> import credo, numpy as np
    >>> from credo.learning import fit
    >>> ring = np.stack([np.arange(6), (np.arange(6) + 1) % 6], axis=1)
    >>> truth = credo.MarkovNet.log_linear(np.full(6, 2), [(ring, np.eye(2), 0)], [0.7])
    >>> data = credo.sample(truth, 4000, seed=1)
    >>> found = fit(truth.with_weights([0.0]), data, "likelihood(prior=gaussian(scale=10))")
    >>> bool(abs(found.model.weights[0] - 0.7) < 0.05), found.log_likelihood.kind
    (True, 'exact')
    """

    name: ClassVar[str] = "likelihood"
    monotone: ClassVar[bool] = True
    # see `table_sources.py`, for min-max `region_saddle.py`
    gradient: Literal["marginals", "autodiff", "log_z", "min-max"] = "marginals"
    sweeps: int = 30  # of bp with gradient=autodiff, of beliefs per step of the weights with min-max
    warm: bool = True  # whether message passing starts from its last messages

    def __post_init__(self) -> None:
        """Check the options."""
        check.one_of("gradient", self.gradient, ["marginals", "autodiff", "log_z", "min-max"])
        check.whole("sweeps", self.sweeps, 1)
        super().__post_init__()

    def why_not(self, task: Task) -> str | None:
        """Undirected models and fields of labels, any data."""
        if hasattr(task.model, "kinds"):
            return "fields with several kinds of nodes are learned by 'structured(objective=hcrf)'"
        reason = super().why_not(task)
        if reason is not None or self.gradient == "marginals":
            return reason
        if isinstance(task.data, HybridRows):
            return None if self.gradient == "log_z" else "declared parameters are moved by gradient=log_z"
        if not isinstance(task.data, StateTable):
            return f"the gradient of {task.name} comes from marginals; leave out gradient"
        if self.gradient == "min-max":
            return self._why_not_min_max(task)
        engine = self._engine(task)
        if self.gradient == "autodiff" and not (isinstance(engine, BP) and engine.damping_domain == "log"):
            return "gradient=autodiff follows belief propagation; use inference='bp' or 'bp(damping=...)'"
        return None

    def _why_not_min_max(self, task: Task) -> str | None:
        known = None if task.inference is None else algorithms.resolve(task.inference)
        if not hasattr(known, "lower"):
            able = [name for name in algorithms.names() if hasattr(algorithms.get(name), "lower")]
            return f"gradient=min-max moves beliefs of regions by turns; give inference={or_else(able)}"
        if not optimiser_of(self.optimiser).is_stochastic:
            return "gradient=min-max has no function to search along; use optimiser=adam(...) or sgd(...)"
        if not task.data.is_complete:
            return (
                "gradient=min-max needs complete rows: each that lacks values would have beliefs of its own"
            )
        return None

    def _engine(self, task: Task) -> Any:
        return BP() if task.inference is None else algorithms.resolve(task.inference)

    def sees(self, task: Task, weights: Any, rng: np.random.Generator) -> Aim:
        """Expectations by the inference of the task."""
        tables = isinstance(task.data, StateTable)
        hybrid = isinstance(task.data, HybridRows)
        seed = 0 if hybrid and task.seed is None else task.seed  # differences need draws that are alike
        oracle = Oracle(task.inference, task.inference_budget, seed, self.warm and tables)
        if self.gradient == "min-max":
            from .region_saddle import RegionSaddle

            source = RegionSaddle(weights.graph, self._engine(task), self.sweeps, rng)
            return Aim(Objective(weights, source), curve="saddle")
        if self.gradient == "autodiff":
            needs("gradient=autodiff", "jax", "equinox")
            from ..inference.messages.unrolled import UnrolledBP

            unrolled = UnrolledBP(weights.graph, self.sweeps, self._engine(task).damping)
            return Aim(Objective(weights, UnrolledLikelihood(unrolled, weights.graph, oracle)), oracle=oracle)
        kind = ByDifferences if hybrid or self.gradient == "log_z" else Objective
        return Aim(kind(weights, likelihood_source(weights, task.data, oracle)), oracle=oracle)


@noted
def log_likelihood(
    model: Model | Template,
    data: Any,
    inference: str | Algorithm | None = None,
    *,
    lengths: Any = None,
    mask: Any = None,
    groups: str | None = None,
    columns: Any = None,
    targets: Any = None,
    weights: Any = None,
    budget: Budget | None = None,
    seed: int | None = None,
    each: bool = False,
) -> Any:
    """Total log-likelihood of data under a model, in natural logarithms.

    Of a `CRF` it is conditional: log p(labels | features), where missing labels are summed out; so is that of
    a `ConditionalRBM`, by belief propagation where nothing else is named. That of an `RBM` is summed exactly,
    or by the log Z of `inference` ("ais").

    Parameters
    ----------
    model
        Anything with `to_factor_graph()`, or a template such as `HMM` or `CRF`.
    data
        As in `fit`, streams included; a cell that is missing is summed or integrated out.
    inference
        What computes log Z; by default the rule of `infer`.
    lengths, mask, groups, columns
        Of sequences, if the model is a template such as `HMM`; as in `infer`.
    targets
        Of a `CRF`: the labels of one input, or a list with those of each, None where missing; of a table the
        name of their column. What `credo.data.read(X, targets=y)` read knows them.
    weights
        How often each row, or sequence, counts.
    budget, seed
        Of each run of inference.
    each
        Give an array with one number per row, or per sequence, instead of their weighted sum.

    Returns
    -------
    Estimate or array

    Examples
    --------
    >>> import credo
    >>> from credo.learning import log_likelihood
    >>> model = credo.MarkovNet({"a": 2}, {("a",): [1, 3]})
    >>> print(log_likelihood(model, {"a": [0, 1, 1]}))
    -1.961658506 (exact)
    """
    reading = {"lengths": lengths, "mask": mask, "groups": groups, "columns": columns}
    model = rows_model(model)
    if isinstance(model, Template) and hasattr(model, "labelled"):
        values, is_exact = _of_labels(model, data, targets, reading, inference, budget or Budget(), seed)
        counted = unit_weights(weights, len(values), "input")
        total = float(counted[counted > 0] @ values[counted > 0])
        return values if each else Estimate(total, "exact" if is_exact else "estimate")
    if hasattr(model, "unit_weights"):
        told: dict[str, Any] = reading if targets is None else {"targets": targets} | reading
        batch = model.read_batch(data, **told)  # type: ignore[union-attr]
        values, kind = _of_units(model, batch, inference, budget or Budget(), seed)
        shares = unit_weights(weights, len(values), "row")
        return values if each else Estimate(float(shares @ values), kind)
    if hasattr(model, "emits_counts"):
        given = {"targets": targets, "weights": weights, "inference": inference} | reading
        return _of_documents(model, data, {k: v for k, v in given.items() if v is not None}, seed, each)
    if targets is not None:
        raise OptionError("targets: expected none, got some; only random fields have labels beside features")
    if isinstance(data, Stream):
        if each:
            raise OptionError(
                "each: a stream is summed over its batches; leave it out, or ask for a batch at a time: "
                "for batch in stream: log_likelihood(model, batch, each=True)"
            )
        return _stream_likelihood(
            model, read_stream(model, data, weights, reading), inference=inference, budget=budget, seed=seed
        )
    if isinstance(model, Template):
        if inference is not None:
            raise OptionError(
                "inference: expected none for a template, got one; its rows are answered exactly"
            )
        rows = model.sequences(data, **reading, weights=weights)  # type: ignore[attr-defined]
        return sequence_log_z(model, rows) if each else Estimate(total_log_z(model, rows), "exact")
    given_names = [name for name, value in reading.items() if value is not None]
    if given_names:
        raise OptionError(f"{', '.join(given_names)}: expected none, got some; only templates have sequences")
    graph = graph_of(model)
    if each or not graph.is_tables:
        hybrid = isinstance(data, HybridRows)
        table = data.data if hybrid else read(data, schema=graph.variables, weights=weights)
        return _row_likelihoods(graph, table, inference, budget or Budget(), seed, each)
    observed = StateTable.of(graph.variables, data, weights=weights, soft=True)
    oracle, parameters = Oracle(inference, budget or Budget(), seed), Parameters.of(graph)
    if observed.soft is not None or (inference is None and not observed.is_complete):
        # Rows that agree around what they lack are summed once, in compiled kernels.
        tables = parameters.tables(parameters.start)
        found = EStep(parameters.graph, observed, oracle, values_only=True)(tables)
        whole = oracle.log_z(oracle.free(parameters.graph_at(parameters.start)))
        return Estimate(found.log_weight - observed.total * whole, oracle.kind(complete=False))
    source = Likelihood(parameters.graph, oracle)
    value = source.value(parameters.tables(parameters.start), observed) * observed.total
    return Estimate(value, oracle.kind(observed.is_complete))


def _stream_likelihood(model: Any, data: Stream, **asked: Any) -> Estimate:
    """The sum over batches."""
    found = [*watched(data.map(lambda batch: log_likelihood(model, batch, **asked)))]
    kinds = {part.kind for part in found}
    return Estimate(sum(part.value for part in found), kinds.pop() if len(kinds) == 1 else "estimate")


def _of_batch(model: Any, data: Any, method: Any, budget: Budget, seed: Any) -> tuple[np.ndarray, bool]:
    """The same of a batch as learning reads it, input by input."""
    oracle = Oracle(method, budget, seed, warm=False)
    weights = model.score_weights(data)
    parts = (data.take(np.array([k])) for k in range(len(data)))
    source = likelihood_source(weights, data, oracle)
    values = [source.value(weights.scores(weights.start, part), part) for part in parts]
    return np.array(values), oracle.kinds <= {"exact"}


def _of_documents(model: Any, data: Any, given: Mapping[str, Any], seed: Any, each: bool) -> Any:
    """What is known of the probability of documents given topics: a bound, or an estimate."""
    if given:
        raise OptionError(f"{', '.join(given)}: documents are rows of counts of words; leave out")
    found = infer(model, data=data, seed=seed)
    return found.each if each else found.log_z


def _of_units(model: Any, batch: Any, inference: Any, budget: Budget, seed: Any) -> tuple[np.ndarray, Kind]:
    """Log-likelihoods of rows of units, given features where there are some."""
    limits = {"max_iter": budget.max_iter, "tol": budget.tol, "seconds": budget.seconds, "seed": seed}
    if batch.x is None:
        if inference is None:
            return model.log_density(batch.v), "exact"
        found = infer(model, inference, **limits)
        if found.log_z is None:
            raise UnsupportedError(f"log_likelihood: {found.algorithm} computes no log Z; use 'ais'")
        return model.log_density(batch.v, found.log_z.value), _of_kind(found.log_z.kind)
    found = infer(model, inference, data=batch.x, **limits)
    if found.each is None or found.log_z is None:
        raise UnsupportedError(f"log_likelihood: {found.algorithm} computes no log Z; use 'bp'")
    return -model.free_energy(batch.v, batch.x) - found.each, _of_kind(found.log_z.kind)


def _of_kind(kind: Kind) -> Kind:
    """What a bound on log Z says of a likelihood: the other side."""
    return {"lower": "upper", "upper": "lower"}.get(kind, kind)  # type: ignore[return-value]


def _of_labels(
    model: Any, data: Any, targets: Any, reading: Mapping[str, Any], method: Any, budget: Budget, seed: Any
) -> tuple[np.ndarray, bool]:
    """Conditional log-likelihoods of the labels of every input, and whether they are exact."""
    if hasattr(data, "by_node_feature"):  # a batch that learning made
        return _of_batch(model, data, method, budget, seed)

    def ask(graph: FactorGraph, **asked: Any) -> Any:
        limits = {"max_iter": budget.max_iter, "tol": budget.tol, "seconds": budget.seconds, "seed": seed}
        return infer(graph, method, **limits, **asked)  # type: ignore[arg-type]

    instance, states = model.labelled(data, targets, **reading)
    return labels_log_z(instance, states, ask, is_named=method is not None)


def _row_likelihoods(
    graph: FactorGraph,
    data: Dataset,
    method: str | Algorithm | None,
    budget: Budget,
    seed: int | None,
    each: bool,
) -> Any:
    """The sum over all rows, each counted with its weight, or the number of each row."""
    limits = {"max_iter": budget.max_iter, "tol": budget.tol, "seconds": budget.seconds, "seed": seed}
    whole = _log_z(graph, method, None, limits)
    found = [_seen(graph, method, row, limits) for row in data.evidence()]
    values = np.array([one.value for one in found]) - whole.value
    if each:
        return values
    kinds = {whole.kind, *(one.kind for one in found)}
    counted = data.row_weights > 0
    total = float(data.row_weights[counted] @ values[counted])
    return Estimate(total, "exact" if kinds == {"exact"} else "estimate")


def _seen(graph: FactorGraph, method: Any, row: Mapping[str, Any], limits: Mapping[str, Any]) -> Estimate:
    checked = Evidence.of(graph.variables, row)
    if checked.flags.all():
        names = graph.variables.names
        return Estimate(graph.log_score({n: checked.value(i) for i, n in enumerate(names)}), "exact")
    try:
        return _log_z(graph, method, row, limits)
    except ZeroProbabilityError:
        return Estimate(-np.inf, "exact")


def _log_z(
    graph: FactorGraph, method: Any, row: Mapping[str, Any] | None, limits: Mapping[str, Any]
) -> Estimate:
    found = infer(graph, method, evidence=row, **limits)
    if found.log_z is None:
        raise UnsupportedError(f"log_likelihood: {found.algorithm} computes no log Z; use another inference")
    return found.log_z
