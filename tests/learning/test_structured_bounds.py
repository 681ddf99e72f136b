"""What structured risks promise: bounds of losses, and constraints that make the same problem."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import credo
from credo.learning.structured_losses import Hamming
from credo.learning.structured_members import member_of
from credo.learning.structured_risk import GraphAnswers, StructuredRisk

WIRES = {"step": ("y", "y"), "part": ("y", "h"), "cross": ("h", "h")}
STATES = np.array(list(itertools.product(range(3), repeat=3)))
HAMMING = (STATES[:, None] != STATES[None]).sum(axis=2)  # (right, told)


@pytest.fixture(scope="module")
def scores():
    """(cases, labels, hidden states) scores of all joint states of small fields with random tables."""
    rng = np.random.default_rng(0)
    hidden = np.array(list(itertools.product(range(2), repeat=3)))
    cases = 3000
    scale = rng.choice([0.3, 1.0, 3.0], cases)[:, None, None]
    y, h = rng.normal(size=(2, cases, 3, 3))
    step, link = rng.normal(size=(cases, 2, 3, 3)), rng.normal(size=(cases, 3, 3, 2))
    total = np.zeros((cases, len(STATES), len(hidden)))
    for i in range(3):
        total += y[:, i, STATES[:, i]][:, :, None] + h[:, i, hidden[:, i]][:, None]
        total += link[:, i][:, STATES[:, i][:, None], hidden[None, :, i]]
    for i in range(2):
        total += step[:, i, STATES[:, i], STATES[:, i + 1]][:, :, None]
    return scale * total


def _powered(values, heat):
    return values.max(axis=-1) if heat == 0 else heat * np.logaddexp.reduce(values / heat, axis=-1)


def _violations(scores, member, eps_told):
    """How often the risk is below the loss of the labels that are told with this temperature."""
    right = np.random.default_rng(1).integers(0, len(STATES), len(scores))
    each = np.arange(len(scores))
    score = _powered(scores, member.eps_h)
    charged = score + member.has_loss * HAMMING[right]
    risk = _powered(charged, member.eps_y) - score[each, right]
    told = _powered(scores, eps_told).argmax(axis=1)
    return int((risk < HAMMING[right, told] - 1e-9).sum())


@pytest.mark.parametrize(
    "name", ["mssvm", "lssvm", "loss-augmented-likelihood", "epsilon(eps=0.5)", "powered(eps_y=0.3, eps_h=1)"]
)
def test_members_with_a_loss_bound_that_of_their_own_predictions(name, scores):
    member = member_of(name)
    assert _violations(scores, member, member.eps_h) == 0


@pytest.mark.parametrize(("name", "eps_told"), [("hcrf", 1.0), ("crf", 1.0), ("mllr", 0.0), ("mssvm", 0.0)])
def test_likelihoods_and_joint_states_of_sums_do_not(name, eps_told, scores):
    assert _violations(scores, member_of(name), eps_told) > 0


@pytest.fixture(scope="module")
def field():
    rng = np.random.default_rng(4)
    edges = {"step": None, "part": None}
    x = [{"nodes": {"y": rng.normal(size=(3, 2)), "h": 3}, "edges": edges} for _ in "ab"]
    y = [list("aba"), list("bca")]
    model = credo.LatentCRF(WIRES, {"h": 2}).filled(x, y)
    weights = model.score_weights(model.read_batch(x, y))
    return x, y, weights.model(rng.normal(size=len(weights.start)))


def test_constraints_make_the_same_problem(field):
    """The least slack of S(right) - S(y) >= loss - slack over all labellings is the risk (4.4)."""
    x, y, model = field
    batch = model.read_batch(x, y)
    answers = GraphAnswers(member_of("mssvm"), Hamming())
    flat = model.score_weights(batch).scores(model.score_weights(batch).start, batch)
    risk = StructuredRisk(answers).values(flat, batch)
    for n, labels in enumerate(y):
        right = credo.learning.kind_log_likelihood(model, x[n : n + 1], [labels])[0]
        slack = []
        for told in itertools.product("abc", repeat=3):
            other = credo.learning.kind_log_likelihood(model, x[n : n + 1], [list(told)])[0]
            slack.append(sum(a != b for a, b in zip(labels, told, strict=True)) - (right - other))
        assert max(slack) == pytest.approx(risk[n], abs=1e-10)
        assert max(slack) >= 0


def test_hidden_variables_go_first_whatever_their_temperature(field):
    x, y, model = field
    batch = model.read_batch(x, y)
    weights = model.score_weights(batch)
    member = member_of("powered(eps_y=1.0, eps_h=0.3, loss=false)")
    found = GraphAnswers(member).charged(weights.scores(weights.start, batch), batch).values
    for n, graph in enumerate(model.graphs(x)):
        heats = {v: 0.3 if v.startswith("h") else 1.0 for v in graph.variables.names}
        falling = credo.infer(graph, "enumerate", temperatures=heats).log_z.value
        names = sorted(graph.variables.names)
        hidden_first = credo.infer(graph, "enumerate", temperatures=heats, order=names).log_z.value
        assert found[n] == pytest.approx(hidden_first, abs=1e-10)
        assert abs(falling - hidden_first) > 1e-3


def test_equal_temperatures_are_one_sum_for_methods_that_only_sum(field):
    x, y, model = field
    batch = model.read_batch(x, y)
    weights = model.score_weights(batch)
    scores = weights.scores(weights.start, batch)
    member = member_of("epsilon(eps=0.4)")
    exact = StructuredRisk(GraphAnswers(member, Hamming())).values(scores, batch)
    for method in ("bp", "enumerate"):
        found = StructuredRisk(GraphAnswers(member, Hamming(), method)).values(scores, batch)
        np.testing.assert_allclose(found, exact, atol=1e-6)  # the field is a tree


@pytest.mark.parametrize(
    ("name", "method"),
    [("mssvm", "bp"), ("lssvm", "lp"), ("lssvm", "trw"), ("epsilon(eps=0.4)", "trw"), ("hcrf", "gbp")],
)
def test_other_methods_answer_what_they_can(name, method, field):
    x, y, model = field
    batch = model.read_batch(x, y)
    weights = model.score_weights(batch)
    scores = weights.scores(weights.start, batch)
    member = member_of(name)
    loss = Hamming() if member.has_loss else None
    exact = StructuredRisk(GraphAnswers(member, loss)).values(scores, batch)
    found = StructuredRisk(GraphAnswers(member, loss, method)).values(scores, batch)
    assert (found <= exact + 1e-6).all()
    if name != "mssvm":  # the field is a tree
        np.testing.assert_allclose(found, exact, atol=1e-5)
