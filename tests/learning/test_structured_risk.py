"""Structured prediction: two powered sums of every instance, against plain enumeration and differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from credo.core.errors import DataError, OptionError
from credo.learning.log_linear import Objective
from credo.learning.structured_losses import Hamming, LabelTables, WeightedHamming, loss_of
from credo.learning.structured_members import MEMBERS, member_of
from credo.learning.structured_risk import GraphAnswers, StructuredRisk
from credo.models.crf import CRF

NAMES = [*MEMBERS, "epsilon(eps=0.4)", "powered(eps_y=0.3, eps_h=1.0)", "powered(eps_y=1.0, eps_h=0.3)"]
COSTS = np.array([[0.0, 0.7, 1.9], [1.2, 0.0, 0.4], [0.9, 1.5, 0.0]])
NONE = np.zeros((3, 3))


def _data():
    """Chains and rings with missing labels, one without any label."""
    rng = np.random.default_rng(0)
    x, y = [], []
    for n, size in enumerate([4, 4, 5, 3, 4]):
        edges = [(0, 1), (1, 2), (2, 3), (3, 0)] if n < 2 else None
        x.append((rng.normal(size=(size, 2)), edges))
        labels = ["abc"[k] for k in rng.integers(0, 3, size)]
        if n != 2:
            labels[1] = None
        y.append([None] * size if n == 4 else labels)
    return x, y


@pytest.fixture(scope="module")
def task():
    x, y = _data()
    crf = CRF().filled(x, y)
    batch = crf.read_batch(x, y)
    weights = crf.score_weights(batch)
    return batch, weights, 2 * np.random.default_rng(1).normal(size=len(weights.start))


def _powered(values, heat):
    values = np.array(values)
    return values.max() if heat == 0 else heat * np.logaddexp.reduce(values / heat)


def _told(scores, batch, n):
    """Score of every joint state of one graph, by its known labels."""
    rows = scores.rows[slice(*batch.start[n : n + 2])]
    pairs = scores.pairs[slice(*batch.edge_start[n : n + 2])]
    ends = batch.graphs[n].scope[len(rows) :].reshape(-1, 2)
    known = np.flatnonzero(batch.labels_of(n) >= 0)
    found = {}
    for state in itertools.product(range(3), repeat=len(rows)):
        value = sum(row[s] for row, s in zip(rows, state, strict=True))
        value += sum(table[state[i], state[j]] for table, (i, j) in zip(pairs, ends, strict=True))
        found.setdefault(tuple(state[i] for i in known), []).append(value)
    return found, tuple(batch.labels_of(n)[known])


def _risk(scores, batch, n, member, costs):
    found, right = _told(scores, batch, n)
    if not right:
        return 0.0
    score = {y: _powered(values, member.eps_h) for y, values in found.items()}
    charged = [s + sum(costs[a, b] for a, b in zip(right, y, strict=True)) for y, s in score.items()]
    return _powered(charged, member.eps_y) - score[right]


@pytest.mark.parametrize("name", NAMES)
def test_every_member_is_enumeration_and_its_slopes_are_differences(name, task):
    batch, weights, theta = task
    member = member_of(name)
    source = StructuredRisk(GraphAnswers(member, loss_of(COSTS) if member.has_loss else None))
    scores = weights.scores(theta, batch)
    costs = COSTS if member.has_loss else NONE
    wanted = [_risk(scores, batch, n, member, costs) for n in range(len(batch))]
    np.testing.assert_allclose(source.values(scores, batch), wanted, atol=1e-12)
    objective = Objective(weights, source)
    value, slope = objective.evaluate(theta, batch)
    assert value == pytest.approx(-np.mean(wanted), abs=1e-12)
    steps = 1e-5 * np.eye(len(theta))
    ahead = np.array([objective.value(theta + d, batch) for d in steps])
    behind = np.array([objective.value(theta - d, batch) for d in steps])
    np.testing.assert_allclose(slope, (ahead - behind) / 2e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("powered(eps_y=1e-4, eps_h=1.0)", "mssvm"),
        ("epsilon(eps=1e-4)", "lssvm"),
        ("powered(eps_y=1.0, eps_h=1e-4, loss=false)", "mllr"),
    ],
)
def test_small_temperatures_reach_the_maximum(name, limit, task):
    batch, weights, theta = task
    scores = weights.scores(theta, batch)

    def risk(name):
        member = member_of(name)
        return StructuredRisk(GraphAnswers(member, Hamming() if member.has_loss else None))

    np.testing.assert_allclose(risk(name).values(scores, batch), risk(limit).values(scores, batch), atol=2e-3)


def test_losses():
    x, y = _data()
    batch = CRF().filled(x, y).read_batch(x, y)
    (part,) = batch.label_parts
    known = part.labels >= 0
    counted = Hamming().charges([part])[0]
    assert counted[known].sum() == 2 * known.sum() and not counted[~known].any()
    share = Hamming(normalised=True).charges([part])[0]
    assert share[0].max() == pytest.approx(1 / 3) and share[8].max() == pytest.approx(1 / 5)
    weighted = WeightedHamming(weights=[1.0, 2.0, 3.0]).charges([part])[0]
    np.testing.assert_array_equal(weighted[known].max(axis=1), part.labels[known] + 1.0)
    balanced = WeightedHamming().charges([part])[0]
    assert balanced[known].max(axis=1).sum() == pytest.approx(known.sum())
    given = LabelTables(nodes=[counted[a:b] for a, b in itertools.pairwise(batch.start)])
    np.testing.assert_array_equal(given.charges([part])[0], counted)


def test_tables_of_pairs_are_added(task):
    batch, weights, theta = task
    rng = np.random.default_rng(2)
    nodes = [np.zeros((n, 3)) for n in np.diff(batch.start)]
    edges = [rng.random((n, 3, 3)) for n in np.diff(batch.edge_start)]
    scores = weights.scores(theta, batch)
    source = StructuredRisk(GraphAnswers(member_of("ssvm"), LabelTables(nodes=nodes, edges=edges)))
    found, right = _told(scores, batch, 2)
    best = max(
        values[0] + sum(table[y[i], y[i + 1]] for i, table in enumerate(edges[2]))
        for y, values in found.items()
    )
    assert source.values(scores, batch)[2] == pytest.approx(best - found[right][0])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: member_of("epsilon(eps=-1)"), "eps_y: expected a temperature of 0"),
        (lambda: member_of("msvm"), "did you mean 'mssvm'"),
        (lambda: member_of("mssvm(eps=1)"), "expected no options"),
        (lambda: member_of("epsilon"), "expected options as in 'epsilon"),
        (lambda: member_of(3), "expected a name such as"),
        (lambda: loss_of("haming"), "did you mean 'hamming'"),
        (lambda: loss_of(np.zeros((2, 3))), r"expected a table \(labels, labels\)"),
        (lambda: loss_of(np.ones((2, 2))), "0 for the right label"),
        (lambda: WeightedHamming(weights=[-1.0]), "a number of 0 or more per label"),
    ],
)
def test_refused(make, sentence):
    with pytest.raises(OptionError, match=sentence):
        make()


def test_losses_of_the_wrong_shape_are_refused(task):
    batch = task[0]
    with pytest.raises(OptionError, match="costs: expected one per label, 3, got 2"):
        loss_of(np.array([[0, 1], [1, 0]])).charges(batch.label_parts)
    with pytest.raises(OptionError, match="weights: expected one per label, 3, got 1"):
        WeightedHamming(weights=[1.0]).charges(batch.label_parts)
    nodes = [np.zeros((n, 2)) for n in np.diff(batch.start)]
    with pytest.raises(DataError, match=r"loss of item 0: expected a table of shape \(4, 3\)"):
        LabelTables(nodes=nodes).charges(batch.label_parts)
    with pytest.raises(DataError, match="expected tables of nodes for 5 instances, got 1"):
        LabelTables(nodes=nodes[:1]).check_whole(5)
    with pytest.raises(DataError, match="loss of item 0: expected 36 numbers"):
        LabelTables(nodes=nodes, edges=[np.zeros(3)]).pair_charges(0, 36)
