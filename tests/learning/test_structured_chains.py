"""Recursions of structured prediction over sequences against general inference and enumeration."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import credo
from credo.core.result import Status
from credo.kernels.chain_planes import plane_pass
from credo.kernels.chains import score_chains
from credo.learning.log_linear import Objective
from credo.learning.structured_blocks import (
    BlockPasses,
    ChainBlocks,
    Tangent,
    chain_blocks,
    known_statistics,
    sparse_rows,
)
from credo.learning.structured_chains import SlackAnswers, answers_of, indicators, node_charges
from credo.learning.structured_losses import loss_of
from credo.learning.structured_members import member_of
from credo.learning.structured_risk import GraphAnswers, StructuredRisk
from credo.models.crf_weights import LabelScores
from credo.optimise.driver import drive
from credo.optimise.run import Budget

LENGTHS = (4, 1, 3, 2)
LABELS = 3
FEATURES = 5


def field(seed=0, *, edges=False, missing=False):
    """A field, and labelled sequences as it reads them."""
    rng = np.random.default_rng(seed)
    X = [(rng.random((n, FEATURES)) < 0.5).astype(float) for n in LENGTHS]
    y = [rng.integers(0, LABELS, n).astype(float) for n in LENGTHS]
    if missing:
        y[0][1:3] = np.nan
        y[1][0] = np.nan
        y[2][2] = np.nan
    width = 2 if edges else 1
    if edges:
        X = [(x, None, rng.normal(size=(len(x) - 1, width))) for x in X]
    names = [str(k) for k in range(LABELS)]
    crf = credo.CRF(names, rng.normal(size=(FEATURES, LABELS)), rng.normal(size=(width, LABELS, LABELS)))
    labels = [[None if np.isnan(v) else str(int(v)) for v in part] for part in y]
    return crf, crf.read_batch(X, labels)


CASES = [
    ("ssvm", False), ("crf", False), ("epsilon(eps=0.4)", False), ("powered(eps_y=0.5, eps_h=2)", False),
    ("mssvm", True), ("lssvm", True), ("hcrf", True), ("epsilon(eps=0.4)", True),
]  # fmt: skip


class TestAgainstGeneralInference:
    @pytest.mark.parametrize("edges", [False, True])
    @pytest.mark.parametrize(("objective", "missing"), CASES)
    def test_values_and_slopes_are_those_of_the_junction_tree(self, objective, missing, edges):
        crf, batch = field(1, edges=edges, missing=missing)
        member = member_of(objective)
        loss = loss_of("hamming") if member.has_loss else None
        fast = answers_of(member, loss, batch)
        weights = crf.score_weights(batch)
        value, slope = Objective(weights, StructuredRisk(fast)).evaluate(weights.start, batch)
        graphs = batch.as_graphs(LABELS)
        slow = StructuredRisk(GraphAnswers(member, loss, "junction-tree"))
        other = crf.score_weights(graphs)
        expected, by = Objective(other, slow).evaluate(other.start, graphs)
        assert value == pytest.approx(expected)
        np.testing.assert_allclose(slope, by, atol=1e-9)

    def test_what_no_recursion_answers_is_left_to_inference(self):
        _, batch = field(2, missing=True)
        assert answers_of(member_of("mllr"), None, batch) is None
        assert answers_of(member_of("crf"), None, field(2)[1].as_graphs(LABELS)) is None


def labellings(batch, scores):
    """Every labelling of every sequence with its score and number of errors."""
    initial = np.zeros(LABELS)
    for first, last in itertools.pairwise(batch.start):
        found = []
        for states in itertools.product(range(LABELS), repeat=last - first):
            y = np.array(states, dtype=np.int64)
            value = score_chains(initial, scores.pairs, scores.rows[first:last], np.array([0, len(y)]), y)
            found.append((y, float(value[0]), int((y != batch.labels[first:last]).sum())))
        yield found


class TestSlackRescaling:
    @pytest.mark.parametrize("loss", ["hamming", "hamming(normalised=true)"])
    def test_value_is_the_maximum_over_all_labellings(self, loss):
        crf, batch = field(3)
        weights = crf.score_weights(batch)
        scores = weights.scores(weights.start, batch)
        answers = SlackAnswers(member_of("ssvm"), loss_of(loss))
        values = StructuredRisk(answers).values(scores, batch)
        for n, found in enumerate(labellings(batch, scores)):
            share = 1 / LENGTHS[n] if "true" in loss else 1.0
            right = next(score for _, score, errors in found if not errors)
            assert values[n] == pytest.approx(max(share * e * (1 + s - right) for _, s, e in found))

    def test_slopes_are_differences(self):
        crf, batch = field(4)
        weights, eps = crf.score_weights(batch), 1e-6
        objective = Objective(weights, StructuredRisk(SlackAnswers(member_of("ssvm"), loss_of("hamming"))))
        _, slope = objective.evaluate(weights.start, batch)
        for k in (0, 7, 15, 20):
            step = np.zeros(len(weights.start))
            step[k] = eps
            ahead, behind = (objective.value(weights.start + s, batch) for s in (step, -step))
            assert slope[k] == pytest.approx((ahead - behind) / (2 * eps), abs=1e-6)


def blocks_of(seed=5, scale=0.5):
    crf, batch = field(seed)
    weights = crf.score_weights(batch)
    charges = node_charges(loss_of("hamming"), batch, LABELS)
    return weights, batch, chain_blocks(weights.layout, batch, charges, scale)


def all_planes(weights, batch):
    """Of every sequence phi(y) - phi(y_n), (labellings, weights), and the losses."""
    for n in range(len(batch)):
        own = batch.take(np.array([n]))
        scores, wrong = weights.scores(weights.start, own), loss_of("hamming")
        charges = node_charges(wrong, own, LABELS)
        states = [np.array(y) for y in itertools.product(range(LABELS), repeat=len(own.labels))]
        pulled = np.stack([weights.pull(indicators(scores, own, y), own) for y in states])
        right = weights.pull(indicators(scores, own, own.labels), own)
        yield pulled - right, np.array([charges[np.arange(len(y)), y].sum() for y in states])


def exact_optimum(weights, batch, scale):
    """The value of the quadratic programme with all constraints written down, by its dual."""
    from scipy.optimize import minimize

    planes = list(all_planes(weights, batch))
    ends = np.cumsum([0, *(len(b) for _, b in planes)])
    matrix, offset = np.concatenate([a for a, _ in planes]), np.concatenate([b for _, b in planes])
    parts = np.zeros((len(planes), ends[-1]))
    for n, (first, last) in enumerate(itertools.pairwise(ends)):
        parts[n, first:last] = 1.0

    def negative(alpha):
        w = -scale * alpha @ matrix
        return 0.5 * w @ w - scale * alpha @ offset, -scale * (matrix @ w + offset)

    begin = parts.sum(axis=0) / (parts @ np.ones(ends[-1]))[np.argmax(parts, axis=0)]
    sums = {"type": "eq", "fun": lambda a: parts @ a - 1, "jac": lambda a: parts}
    options = {"maxiter": 300, "ftol": 1e-11}
    found = minimize(
        negative, begin, jac=True, method="SLSQP", bounds=[(0, 1)] * len(begin), constraints=sums,
        options=options,
    )  # fmt: skip
    assert found.success
    return -found.fun


class TestBlockPasses:
    @pytest.mark.parametrize("average", [True, False])
    def test_the_gap_bounds_the_distance_to_an_independent_optimum(self, average):
        weights, batch, blocks = blocks_of()
        optimum = exact_optimum(weights, batch, blocks.scale)
        passes = BlockPasses(average=average, every=1)
        outcome = drive(passes, blocks, Budget(400, 1e-2), np.random.default_rng(0))
        per = len(batch) * blocks.scale
        objective, gaps, duals = (
            per * np.array(outcome.trace[name]) for name in ("objective", "gap", "dual")
        )
        assert (duals <= optimum + 1e-6).all() and (objective >= optimum - 1e-6).all()
        assert (gaps >= objective - optimum - 1e-6).all()
        assert outcome.ended is Status.CONVERGED
        w = passes.weights(blocks, outcome.state)
        assert blocks.value(w) - optimum <= 1e-2 * len(batch) * blocks.scale + 1e-6

    def test_weights_are_those_of_the_planes_and_averages_those_of_every_step(self):
        _, _, blocks = blocks_of(6)
        planes, average, k = blocks.planes(), np.zeros(len(blocks.linear)), 0
        offset = 0.0
        order = np.random.default_rng(0).integers(0, len(blocks), 30)
        for n in order:
            plane_pass(blocks.features, planes, blocks.charges, 1.0, blocks.scale, np.array([n]))
            share = 2 / (k + 2)
            average = (1 - share) * average + share * planes.w
            offset, k = (1 - share) * offset + share * planes.offset.sum(), k + 1
            w = blocks.scale * (blocks.linear - blocks.pull(planes.rows, planes.moves.sum(axis=0)))
            np.testing.assert_allclose(planes.w, w, atol=1e-12)
            np.testing.assert_allclose(planes.w - planes.tally[1] * planes.behind, average, atol=1e-12)
            assert planes.tally[2] == pytest.approx(planes.offset.sum())
            assert planes.tally[3] == pytest.approx(offset)

    def test_the_value_is_the_risk(self):
        weights, batch, blocks = blocks_of(8)
        w = np.random.default_rng(0).normal(size=len(weights.start))
        risk = Objective(weights, StructuredRisk(answers_of(member_of("ssvm"), loss_of("hamming"), batch)))
        expected = 0.5 * w @ w - blocks.scale * len(batch) * risk.value(w, batch)
        assert blocks.value(w) == pytest.approx(expected)

    def test_a_run_cut_into_pieces_is_the_same_run(self):
        _, _, blocks = blocks_of(9)
        whole = drive(BlockPasses(), blocks, Budget(6, 1e-12), np.random.default_rng(3))
        rng = np.random.default_rng(3)
        first = drive(BlockPasses(), blocks, Budget(2, 1e-12), rng)
        second = drive(BlockPasses(), blocks, Budget(4, 1e-12), rng, state=first.state)
        np.testing.assert_array_equal(second.state.w, whole.state.w)
        assert first.trace["dual"] + second.trace["dual"] == whole.trace["dual"]

    def test_what_is_no_plain_chain_is_left_to_others(self):
        crf, batch = field(1, missing=True)
        charges = node_charges(loss_of("hamming"), batch, LABELS)
        assert chain_blocks(crf.score_weights(batch).layout, batch, charges, 1.0) is None
        crf, batch = field(1, edges=True)
        assert chain_blocks(crf.score_weights(batch).layout, batch, charges, 1.0) is None


HIDDEN = 2


def hidden_blocks(eps, scale=0.3):
    """Chains whose labels have a hidden state each, and features of labels and of both."""
    _, batch = field(10)
    rng = np.random.default_rng(11)
    features = [batch.nodes, np.hstack([batch.nodes, rng.normal(size=(len(batch.nodes), 1))])]
    column = np.stack([np.repeat(np.arange(LABELS), HIDDEN), np.arange(LABELS * HIDDEN)])
    charges = node_charges(loss_of("hamming"), batch, LABELS)
    rows, moves = known_statistics(batch.labels, batch.start, LABELS)
    made = sparse_rows(features, [LABELS, LABELS * HIDDEN], column, batch.start, LABELS)
    entropy = eps * np.log(HIDDEN) * np.diff(batch.start)  # of hidden states that are all alike
    tangent = Tangent(np.repeat(rows, HIDDEN, axis=1) / HIDDEN, moves, entropy)
    return batch, features, ChainBlocks(made, charges, scale, tangent, eps)


class TestHiddenStates:
    @pytest.mark.parametrize("eps", [1.0, 0.5, 0.0])
    def test_the_value_is_that_of_all_labellings(self, eps):
        batch, features, blocks = hidden_blocks(eps)
        w = np.random.default_rng(1).normal(size=blocks.features.weights)
        a, b = FEATURES * LABELS, FEATURES * LABELS + (FEATURES + 1) * LABELS * HIDDEN
        joint = (features[1] @ w[a:b].reshape(-1, LABELS * HIDDEN)).reshape(-1, LABELS, HIDDEN)
        both = joint + (features[0] @ w[:a].reshape(-1, LABELS))[:, :, None]
        rows = both.max(axis=2) if eps == 0 else eps * np.logaddexp.reduce(both / eps, axis=2)
        scores = LabelScores(rows, w[b:].reshape(1, LABELS, LABELS))
        best = sum(max(s + errors for _, s, errors in found) for found in labellings(batch, scores))
        constant = blocks.tangent.constant.sum()
        expected = 0.5 * w @ w + blocks.scale * (best - constant - blocks.linear @ w)
        assert blocks.value(w) == pytest.approx(expected)

    @pytest.mark.parametrize("eps", [1.0, 0.0])
    def test_planes_stay_below_and_meet_the_value(self, eps):
        _, _, blocks = hidden_blocks(eps)
        passes = BlockPasses(every=1)
        outcome = drive(passes, blocks, Budget(300, 2e-2), np.random.default_rng(0))
        assert outcome.ended is Status.CONVERGED
        w = passes.weights(blocks, outcome.state)
        rng = np.random.default_rng(2)
        lowest = min(blocks.value(w + 0.05 * rng.normal(size=len(w))) for _ in range(200))
        assert lowest >= len(blocks) * blocks.scale * outcome.trace["dual"][-1] - 1e-12
        assert (np.diff(outcome.trace["dual"]) >= -1e-9).all()

    def test_planes_survive_another_tangent(self):
        _, _, blocks = hidden_blocks(1.0)
        first = drive(BlockPasses(), blocks, Budget(5, 1e-9), np.random.default_rng(0))
        rows = blocks.tangent.rows.copy()
        rows[:, ::HIDDEN], rows[:, 1::HIDDEN] = 1.6 * rows[:, ::HIDDEN], 0.4 * rows[:, 1::HIDDEN]
        entropy = -(0.8 * np.log(0.8) + 0.2 * np.log(0.2)) * np.diff(blocks.features.start)
        tangent = Tangent(rows, blocks.tangent.moves, entropy)
        moved = replace(blocks, tangent=tangent, warm=first.state)
        outcome = drive(BlockPasses(every=1), moved, Budget(300, 2e-2), np.random.default_rng(1))
        cold = drive(
            BlockPasses(every=1), replace(moved, warm=None), Budget(300, 2e-2), np.random.default_rng(1)
        )
        assert outcome.ended is Status.CONVERGED and cold.ended is Status.CONVERGED
        for run in (outcome, cold):
            assert max(run.trace["dual"]) <= min(run.trace["objective"]) + 1e-12
        assert outcome.trace["objective"][-1] == pytest.approx(cold.trace["objective"][-1], abs=4e-2)
