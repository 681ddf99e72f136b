"""Small work for every kernel: all methods on three models, and what these do not reach one by one."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from typing import Any
from unittest import mock

import numpy as np

import credo
from conformance.subjects import SUBJECTS, compiles
from credo.core.errors import ConvergenceWarning, CredoError
from credo.core.factor_graph import FactorGraph
from credo.datasets.ising import Normal
from credo.estimators import ChainCRF
from credo.families import Categorical, DiagonalGaussian, Gaussian, Poisson
from credo.inference.bounds.decomposition import Decomposition
from credo.inference.bounds.wmb import WMB
from credo.inference.messages import layer_bp, positive_forms
from credo.inference.problem import free_energy
from credo.inference.problem.base import Budget
from credo.inference.search import and_or, branch_and_bound, soft_consistency
from credo.io.scan import read_numbers
from credo.kernels import (
    and_or_nodes,
    chain_maxima,
    chains,
    dual_decomposition,
    gaussian_density,
    layer_messages,
    powered,
    soft_consistency_nodes,
    text,
    weighted_sums,
)
from credo.kernels.arrays import double
from credo.learning import e_step, train_blocks
from credo.learning.structure import best_tree
from credo.models.hmm import HMM
from credo.models.normal_form import Block, Diverter, NormalForm, Source
from credo.models.semi_markov import SemiMarkov
from credo.structures import elimination_order, induced_width
from inference.bucket_models import problem
from zoo import case

__all__ = ["WORK"]

QUESTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"evidence": {"x0": 0}},
    {"maximise": "all"},
    {"maximise": ["x0"]},
    {"temperatures": {"x0": 0.5}},
)


def _tries(model: Any, *methods: str, **question: Any) -> None:
    """Ask; what a method does not answer it refuses, and few iterations need not be enough."""
    for method in methods:
        with contextlib.suppress(CredoError), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            credo.infer(model, method, **{"max_iter": 20, "seed": 0} | question)


def every_method() -> None:
    for method in (s for s in SUBJECTS if not compiles(s)):
        for graph in (case(name).graph for name in ("chain", "grid with zeros", "three-way factors")):
            for question in QUESTIONS:
                _tries(graph, method, **question)
            with contextlib.suppress(CredoError):
                credo.query(graph, ["x0", "x1"], method=method)
            with contextlib.suppress(CredoError):
                _quietly(credo.sample, graph, 2, method=method, seed=0)


def positive_messages() -> None:
    grid = case("grid 3x3").graph
    triples = {("a", "b", "c"): np.ones((2, 2, 2)), ("b", "c", "d"): _odd(2, 2, 2)}
    schedules = ("flooding", "sequential", "residual")
    _tries(grid, *(f"bp(schedule={s})" for s in schedules))
    with mock.patch.object(positive_forms, "_PARALLEL_FROM", 1):
        _tries(grid, "bp(schedule=flooding)")
    _tries(credo.FactorGraph(dict.fromkeys("abcd", 2), triples), "bp")
    credo.infer_many(grid, [{}, {"x0": 1}], "bp", tol=1e-3)
    credo.infer_many(grid, [{}, {"x0": 1}])
    for question in ({}, {"maximise": "all"}, {"maximise": ["x0"]}):
        credo.infer_batch(grid, np.zeros((2, len(grid.log_tables))), **question)
    # On a loop of near equalities the logarithms of messages grow on where probabilities rest.
    tied: dict[Any, Any] = {pair: [[1, 1e-9], [1e-9, 1]] for pair in itertools.combinations("abc", 2)}
    loop = credo.FactorGraph(dict.fromkeys("abc", 2), tied | {"a": [1, 0.1]})
    _quietly(credo.infer_many, loop, [{}], "bp")


def searches() -> None:
    dense, glass = _dense(8), credo.datasets.ising_grid(4, coupling=Normal(1.0), field=Normal(0.1), seed=1)
    _tries(case("strong coupling").graph, "local-search(block=0)", maximise="all", max_iter=3)
    for search in ("depth-first", "best-first"):
        method = f"branch-and-bound(local=False, log2_table=2, search={search})"
        _tries(glass, method, maximise="all")
        _tries(dense, method, maximise=["x0", "x1", "x2", "x3"])
    with mock.patch.object(branch_and_bound, "_WORK", 200):
        _tries(glass, "branch-and-bound(local=False, log2_table=2)", maximise="all")
    _tries(credo.datasets.potts_grid(3, coupling=0.5, field=Normal(1.0)), "alpha-expansion", maximise="all")
    _tries(credo.datasets.ising_grid(3, coupling=0.5, field=Normal(1.0)), "alpha-expansion", maximise="all")


def soft_consistency_searches() -> None:
    _tries(_dense(9), "soft-consistency(eliminate=0)", maximise="all")
    with mock.patch.object(soft_consistency, "improve", lambda asked, states, *_: (states, None)):
        _tries(_dense(8, 3), "soft-consistency(eliminate=0, cycles=False)", maximise="all")


def rare_moments_of_searches() -> None:
    """What happens only where a cache answers for states, or memory runs short."""
    asked = problem(_dense(6), "max", 0)
    found = WMB().run(asked, Budget(max_iter=11), np.random.default_rng(0)).state
    plan = and_or.make_plan(asked, found.passes, found.best)
    memory = and_or.make_memory(plan, 16)
    and_or_nodes.remember(plan, memory, 0, 1.5, and_or_nodes.EXACT)
    for i in range(2):
        and_or_nodes.recalled(plan, memory, i)
    tree = soft_consistency_nodes.fresh_tree(16)
    tree.parent[:4], tree.heap[0] = [-1, 0, 0, 2], 3
    tree.tally[soft_consistency_nodes.NODES], tree.tally[soft_consistency_nodes.OPEN] = 4, 1
    soft_consistency_nodes.compact(tree)


def bounds() -> None:
    dense = _dense(6)
    _tries(dense, "gdd(ibound=2)", "wmb(ibound=2, update=gradient)", "mini-bucket(ibound=2)")
    split = Decomposition.of(problem(dense, "max", 0))
    dual_decomposition.reach(split.terms, 1, split.no_shifts())
    for run in (powered.powered_sum, powered.powered_region):
        run(np.arange(6.0), np.array([2, 3]), np.array([0.5, 0.0]))


def orders_and_products() -> None:
    grid = credo.datasets.ising_grid(6, seed=0)
    wide = {pair: _odd(37, 37) for pair in itertools.combinations("abc", 2)}
    elimination_order(grid.to_factor_graph(), "maximum-cardinality")
    _tries(grid, "elimination")
    star = {("hub", f"leaf {k}"): np.ones((2, 2)) for k in range(20)}
    sizes = dict.fromkeys(["hub", *(leaf for _, leaf in star)], 2)
    induced_width(credo.FactorGraph(sizes, star), list(sizes))
    _tries(credo.FactorGraph(dict.fromkeys("abc", 37), wide), "elimination")
    free_energy.mean_field_gradient(case("grid 3x3").graph, np.full(18, 0.5))
    _tries(case("grid 3x3").graph, "mixture-of-trees", "mixture-of-trees(optimiser=frank-wolfe)")


def hidden_chains() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(7, 2)), rng.normal(size=(3, 2))]
    corners, spreads = [[0.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 2.0]]
    for emission in (DiagonalGaussian(corners, spreads), Gaussian(corners, [np.eye(2), 2 * np.eye(2)])):
        model = HMM([0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]], emission)
        _quietly(credo.fit, model, rows, max_iter=2)
        credo.infer(model, data=rows[0], maximise="all")
        credo.infer(model, data=rows[0], causal=True)
        credo.sample(model, 2, data=rows[0], seed=0)
    scores = np.array([[0.0, -2000], [-900, 0], [-1, -2], [-np.inf, 0], [0, -3]])
    parts = np.log([0.5, 0.5]), np.log([[[0.3, 0.7], [0.5, 0.5]]]), scores, np.array([0, 2, 2, 5])
    chains.chain_sums(*parts, pairs="each")
    chains.score_chains(*parts, np.ones(5, np.int64))
    coins = Categorical([[0.5, 0.5], [0.2, 0.8]])
    segments = SemiMarkov([0.5, 0.5], [[0, 1], [1, 0]], [[0.5, 0.5, 0], [0.2, 0.3, 0.5]], coins)
    credo.infer(segments, data=[0, 1, 1, 1, 0, 0], maximise="all")
    _quietly(credo.fit, segments, [0, 1, 1, 1, 0, 0], max_iter=2)
    sharp = DiagonalGaussian([[0.0], [1.0]], [[1e-4], [1e-4]])
    sudden = SemiMarkov([1, 0], [[0, 1], [1, 0]], [[0, 0, 1], [0, 0.5, 0.5]], sharp)
    credo.infer(sudden, data=[[0.0], [1.0], [0.0]])


def learners() -> None:
    net = credo.datasets.sprinkler()
    found = net.sample(30, seed=0)
    columns = {name: found.column(name) for name in net.variables.names}
    best_tree(columns)
    rows = [{name: int(c[r]) for name, c in columns.items() if name != "rain" or r % 3} for r in range(30)]
    for learner, limit in itertools.product(("em", "em(hard=true)"), (8.0, 0.5)):
        with mock.patch.object(e_step, "_ENUMERATED", limit):
            _quietly(credo.fit, net, rows, learner, max_iter=2)
    tiny = {"a": [0.5, 0.5], "b": [[1, 1e-200]] * 2, "c": [[1, 1e-200]] * 2}
    faint = credo.BayesNet(dict.fromkeys("abc", 2), {"b": ["a"], "c": ["a"]}, tiny)
    _quietly(credo.fit, faint, [{"b": 1, "c": 1}], "em(start=given)", max_iter=2)
    field = credo.datasets.ising_grid(2, seed=0)
    _quietly(credo.fit, field, credo.sample(field, 20, seed=0), "pseudolikelihood", max_iter=2)
    crf = _quietly(ChainCRF(max_iter=2).fit, [np.eye(3), np.ones((2, 3))], [[0, 1, 1], [1, 0]])
    crf.predict([np.eye(3)])


def normal_forms() -> None:
    parts = [
        Source("A", [0.3, 0.7]),
        Block("B", "B1", [[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]]),
        Diverter(("A", "B1"), ("C", "D", "E")),
        Block("D", "D1", [[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]]),
    ]
    form = NormalForm({"A": 2, "B": 3, "B1": 2, "C": 2, "D": 2, "E": 2, "D1": 3}, parts)
    seen = {"B": np.array([0, 1, 2]), "D1": np.array([0, 1, 1])}
    form.messages(seen)
    form.messages(seen, schedule="flooding")
    form.sample(3, seed=0)
    _quietly(train_blocks, form, seen, epochs=2, seed=0)


def gaussians() -> None:
    long = np.diag(np.full(600, 3.0)) + np.diag(np.ones(599), 1) + np.diag(np.ones(599), -1)
    x, y, z = (credo.Variable(name, credo.Real()) for name in "xyz")
    factors = [credo.GaussianFactor([v], [[1.0]], [0.5]) for v in (x, y, z)]
    factors.append(credo.GaussianFactor.linear(z, [x, y], [1.0, 2.0], 0.5))
    _tries(credo.HybridNet([x, y, z], factors), "gaussian-bp")
    _tries(credo.GaussianNet(long), "gaussian")
    credo.sample(credo.GaussianNet(long), 1, method="gaussian", seed=0)


def texts() -> None:
    read_numbers(b" ".join([b"1.5 -2e-3 0.1 7 123456789012345678 1e400 5e-324 9007199254740993"] * 1100))
    numbers = np.array([2.0, 1, 1, 3, 0, 1, 2, 0])
    for walk in (text.record_starts, text.block_starts, text.tuple_starts):
        walk(numbers, 0, 2, np.zeros(3, np.int64))


def layers_of_units() -> None:
    rng = np.random.default_rng(0)
    model = credo.RBM(0.3 * rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=3))
    _tries(model, "bp")
    _tries(model, "bp", maximise="all")
    with mock.patch.multiple(layer_bp, _MANY=1, threads=lambda: 2):
        _tries(model, "bp")
    weights, fields = np.exp(model.weights), (rng.normal(size=(3, 4)), rng.normal(size=(3, 3)))
    kept = (np.empty((3, 7)), np.empty(3), np.zeros((2, 4, 3)))
    layer_messages.layer_batch(weights, *fields, np.ones(3), 8, 500.0, np.float64(1), 9, 1e-9, 2, *kept)
    for kind in ((), "all", ["visible"]):
        x = rng.normal(size=(3, 2))
        crbm = credo.ConditionalRBM(model.weights, rng.normal(size=(4, 2)), rng.normal(size=(3, 2)))
        _quietly(credo.infer, crbm, data=x, maximise=kind, max_iter=9)


def labelled_sequences() -> None:
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(n, 2)) for n in (3, 4, 2)]
    y: list[list[Any]] = [["a", "b", "a"], ["b", "b", "a", "a"], ["a", "b"]]
    for spec in (
        "structured(objective=ssvm)",
        "structured(objective=ssvm, optimiser=frank-wolfe(away=true))",
    ):
        _quietly(credo.fit, credo.CRF(), x, spec, targets=y, max_iter=2, seed=0)
    y[1][1] = None
    for objective in ("lssvm", "mssvm"):
        spec = f"structured(objective={objective})"
        _quietly(credo.fit, credo.CRF(), x, spec, targets=y, max_iter=2, seed=0)
    start, chain = np.array([0, 3, 5]), (np.zeros(2), rng.normal(size=(1, 2, 2)), rng.normal(size=(5, 2)))
    chain_maxima.best_known(*chain, start, np.array([True, False, False, False, True]), 1.0)
    chain_maxima.best_by_errors(*chain, start, np.zeros(5, np.int64), cost=np.ones(2), right=np.zeros(2))


def _odd(*shape: int) -> np.ndarray:
    """A positive table without symmetries."""
    return np.random.default_rng(len(shape)).uniform(1, 2, shape)


def _dense(n: int, states: int = 2) -> FactorGraph:
    """A frustrated complete graph: bounds are loose, so that there is something to search."""
    pairs = np.array(list(itertools.combinations(range(n), 2)))
    tables = np.random.default_rng(n).standard_normal((len(pairs), states, states))
    return FactorGraph.from_arrays(np.full(n, states), (pairs, tables), log=True)


def _quietly(call: Any, *args: Any, **named: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return call(*args, **named)


def rows_with_gaps() -> None:
    rows = np.array(
        [[0.0, np.nan, 1.0], [0.5, 1.0, np.nan], [np.nan, np.nan, 2.0], [1.0, 2.0, 3.0], [0.1, np.nan, 0.2]]
    )
    means = np.arange(6.0).reshape(2, 3)
    wide = np.array([np.eye(3) + 0.3, 2 * np.eye(3)])
    for family in (Gaussian(means, wide), DiagonalGaussian(means, np.ones((2, 3)))):
        family.log_density(rows)
        family.collect(rows, np.ones((5, 2)))
    with mock.patch.object(gaussian_density, "_FEW", 0), mock.patch.object(weighted_sums, "_FEW", 0):
        family.log_density(means)
        family.collect(means, np.ones((2, 2)))
    Poisson([1.0, 2.0]).collect(np.arange(5), np.ones((5, 2)))


def far_apart() -> None:
    """Weights whose products leave the range of floats: sums and maxima by logarithms."""
    chain = np.stack([np.arange(4), np.arange(1, 5)], axis=1)
    tables = np.array([[0.0, -700.0], [-650.0, -900.0]]) * np.array([1.0, -1.0, 1.3, -0.7])[:, None, None]
    graph = credo.FactorGraph.from_arrays(np.full(5, 2), (chain, tables), log=True)
    for maximise in ((), ["x0"], ["x1", "x3"], "all"):
        _tries(graph, "junction-tree", maximise=maximise)
    double(np.arange(3), 10)  # where the arrays of a plan are too short, which small models do not show


WORK = (
    every_method,
    rows_with_gaps,
    far_apart,
    positive_messages,
    layers_of_units,
    searches,
    soft_consistency_searches,
    rare_moments_of_searches,
    bounds,
    orders_and_products,
    hidden_chains,
    learners,
    normal_forms,
    gaussians,
    labelled_sequences,
    texts,
)
