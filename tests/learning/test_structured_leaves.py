"""Chains with a hidden node at each label against general inference, and CCCP by compiled passes."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.learning.log_linear import Objective
from credo.learning.structured_chains import answers_of
from credo.learning.structured_leaves import LeafAnswers, LeafRisk
from credo.learning.structured_losses import loss_of
from credo.learning.structured_members import member_of
from credo.learning.structured_risk import GraphAnswers, StructuredRisk

LENGTHS = (3, 1, 2)
LABELS, STATES, FEATURES = ("a", "b", "c"), 2, 4


def field_of(seed=0, *, turned=False, shared=False, missing=False):
    """A field with styles, and labelled inputs as it reads them."""
    rng = np.random.default_rng(seed)
    ends = ("style", "letter") if turned else ("letter", "style")
    width = 1 if shared else FEATURES
    size = (STATES, 3) if turned else (3, STATES)
    field = credo.LatentCRF(
        {"step": ("letter", "letter"), "style": ends}, {"style": STATES}, states={"letter": LABELS},
        node_weights={"letter": rng.normal(size=(FEATURES, 3)), "style": rng.normal(size=(1, STATES))},
        edge_weights={"step": rng.normal(size=(1, 3, 3)), "style": rng.normal(size=(width, *size))},
    )  # fmt: skip
    X, y = [], []
    for n in LENGTHS:
        x = (rng.random((n, FEATURES)) < 0.5).astype(float)
        pairs = np.stack([np.arange(n)] * 2, axis=1)
        style = None if shared else (pairs, rng.normal(size=(n, FEATURES)))
        X.append({"nodes": {"letter": x, "style": n}, "edges": {"step": None, "style": style}})
        y.append([LABELS[k] for k in rng.integers(0, 3, n)])
    if missing:
        y[0][1] = None
    return field, X, y


MEMBERS = ["mssvm", "lssvm", "hcrf", "mllr", "powered(eps_y=0.5, eps_h=2)", "epsilon(eps=0.4)"]
FORMS = [{}, {"turned": True}, {"shared": True}]


class TestAgainstGeneralInference:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("objective", MEMBERS)
    def test_values_and_slopes_are_those_of_the_junction_tree(self, objective, form):
        field, X, y = field_of(1, **form)
        batch, member = field.read_batch(X, y), member_of(objective)
        loss = loss_of("hamming") if member.has_loss else None
        fast = answers_of(member, loss, batch)
        assert isinstance(fast, LeafAnswers)
        weights = field.score_weights(batch)
        value, slope = Objective(weights, StructuredRisk(fast)).evaluate(weights.start, batch)
        slow = StructuredRisk(GraphAnswers(member, loss, "junction-tree"))
        expected, by = Objective(weights, slow).evaluate(weights.start, batch)
        assert value == pytest.approx(expected)
        np.testing.assert_allclose(slope, by, atol=1e-9)

    def test_missing_labels_are_hidden_too(self):
        field, X, y = field_of(2, missing=True)
        batch = field.read_batch(X, y)
        weights = field.score_weights(batch)
        for objective in ("mssvm", "lssvm", "hcrf"):
            member, loss = member_of(objective), loss_of("hamming")
            found = Objective(weights, StructuredRisk(answers_of(member, loss, batch)))
            slow = Objective(weights, StructuredRisk(GraphAnswers(member, loss, "junction-tree")))
            value, slope = found.evaluate(weights.start, batch)
            expected, by = slow.evaluate(weights.start, batch)
            assert value == pytest.approx(expected)
            np.testing.assert_allclose(slope, by, atol=1e-9)

    def test_other_wirings_are_left_to_inference(self):
        field, X, y = field_of(3)
        for pairs in ([(0, 1), (1, 0), (2, 2)], [(0, 0), (1, 1), (2, 1)]):
            X[0]["edges"]["style"] = (np.array(pairs), np.ones((3, FEATURES)))
            assert answers_of(member_of("mssvm"), None, field.read_batch(X, y)) is None
        field, X, y = field_of(3)
        X[0]["edges"]["step"] = np.array([(0, 2), (1, 2)])
        assert answers_of(member_of("mssvm"), None, field.read_batch(X, y)) is None


class TestCompiledPasses:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("objective", ["mssvm", "lssvm"])
    def test_the_value_is_the_risk_and_tangents_touch_it(self, objective, form):
        field, X, y = field_of(4, **form)
        batch, member, loss = field.read_batch(X, y), member_of(objective), loss_of("hamming")
        weights, scale = field.score_weights(batch), 0.7
        answers = LeafAnswers.of(member, loss, batch)
        problem = LeafRisk(answers, weights, weights.start, batch, scale)
        x = problem.begin()
        risk = -Objective(weights, StructuredRisk(answers)).value(weights.start, batch)
        expected = risk + 0.5 * weights.start @ weights.start / (scale * len(batch))
        assert problem.value(x) == pytest.approx(expected)
        bound, rng = problem.bound(x), np.random.default_rng(0)
        per = scale * len(batch)
        assert bound.value(x.w) / per == pytest.approx(expected)
        for _ in range(20):
            there = x._replace(w=x.w + rng.normal(size=len(x.w)))
            assert bound.value(there.w) / per >= problem.value(there) - 1e-12
        np.testing.assert_array_equal(problem.theta(x), weights.start)

    @pytest.mark.parametrize("objective", ["mssvm", "lssvm"])
    def test_cccp_never_rises_and_comes_as_low_as_by_general_inference(self, objective):
        field, X, y = field_of(5)
        learner = f"structured(objective={objective}, optimiser=cccp(inner=frank-wolfe))"
        fit = credo.fit(field, X, learner, targets=y, max_iter=60, tol=1e-2, seed=0)
        assert (np.diff(fit.objective) >= -1e-12).all()
        away = learner.replace("frank-wolfe", "frank-wolfe(away=true)")
        slow = credo.fit(field, X, away, targets=y, max_iter=60, tol=1e-2, seed=0)
        assert fit.objective[-1] == pytest.approx(slow.objective[-1], abs=0.03)
