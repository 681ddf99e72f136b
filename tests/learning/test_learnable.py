"""A Learnable of one's own is learned, asked, kept and resumed as those of the house."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, UnsupportedError
from credo.core.instance import Instance
from credo.families import Poisson


@credo.register("test.bursts", fields=["leave", "emission"])
class Bursts(credo.Learnable):
    """Two states that are left with one probability."""

    def __init__(self, leave, emission):
        self.leave, self.emission = float(leave), emission

    @property
    def n_parameters(self):
        return 1 + self.emission.n_parameters

    @property
    def moves(self):
        return np.array([[1 - self.leave, self.leave], [self.leave, 1 - self.leave]])

    def hidden(self, scores, begin, first=0):
        return Instance(
            "chains", scores, begin, {"start": np.full(2, 0.5), "transition": self.moves}, first=first
        )

    def initialise(self, data, rng, *, fixed=()):
        return Bursts(rng.uniform(0.1, 0.5), self.emission.initialise(data.rows(), rng))

    def update(self, expected, prior=None, *, fixed=(), floor=0.0):
        moves = expected.counts["transition"]
        return Bursts((moves[0, 1] + moves[1, 0]) / moves.sum(), expected.emission.update(self.emission))


def data(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.poisson(np.repeat([1.0, 8.0] * 2, 25)) for _ in range(3)]


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.fit(*arguments, **options)


def test_its_steps_are_those_of_a_chain_with_a_tied_transition():
    x = data()
    model = Bursts(0.3, Poisson([2.0, 5.0]))
    found = quietly(model, x, max_iter=1, tol=0).model
    chain = credo.HMM([0.5, 0.5], model.moves, model.emission)
    scores = [chain.emission.log_density(part) for part in x]
    pairs = np.zeros((2, 2))  # expected moves by enumeration of neighbours: p(s, s' | x) from two runs
    for part, score in zip(x, scores, strict=True):
        pairs += _pairs(chain, score, len(part))
    assert found.leave == pytest.approx((pairs[0, 1] + pairs[1, 0]) / pairs.sum())
    free = quietly(chain, x, max_iter=1, tol=0).model
    np.testing.assert_allclose(found.emission.rate, free.emission.rate)


def _pairs(chain, score, length):
    """Sum-product by hand."""
    weights = np.exp(score)
    ahead, back = [chain.start * weights[0]], [np.ones(2)]
    for t in range(1, length):
        ahead.append((ahead[-1] @ chain.transition) * weights[t])
        back.append(chain.transition @ (weights[length - t] * back[-1]))
    back = back[::-1]
    found = np.zeros((2, 2))
    for t in range(1, length):
        joint = ahead[t - 1][:, None] * chain.transition * (weights[t] * back[t])[None]
        found += joint / joint.sum()
    return found


def test_it_is_learned_and_answered_as_any_other():
    found = credo.fit(Bursts(0.3, Poisson([2.0, 5.0])), data(), restarts=3, seed=0)
    assert found.learner == "em(restarts=3)" and (np.diff(found.objective) > -1e-12).all()
    assert found.model.leave == pytest.approx(0.04, abs=0.03)
    answer = credo.infer(found.model, data=data()[0])
    assert answer.marginals["state"].shape == (100, 2)
    assert answer.log_z.value == pytest.approx(credo.log_likelihood(found.model, data()[0]).value)
    assert credo.infer(found.model, data=data()[0], maximise="all").assignment["state"].shape == (100,)
    assert credo.forecast(found.model, data()[0], steps=2).states.shape == (2, 2)
    parts = quietly(found.model, data(), "em(batch=1)", max_iter=3, seed=0)
    assert np.isfinite(parts.objective).all()


def test_it_is_saved_and_resumed(tmp_path):
    x, start = data(), Bursts(0.3, Poisson([2.0, 5.0]))
    credo.save(start, tmp_path / "model.credo")
    assert credo.load(tmp_path / "model.credo").leave == 0.3
    options = {"tol": 0, "checkpoint": tmp_path / "run.credo"}
    quietly(start, x, max_iter=2, **options)
    resumed = quietly(start, x, max_iter=5, **options)
    whole = quietly(start, x, max_iter=5, tol=0)
    np.testing.assert_array_equal(resumed.objective, whole.objective)
    assert resumed.model.leave == whole.model.leave


def test_what_is_no_learnable_or_takes_no_prior_is_refused():
    start = Bursts(0.3, Poisson([2.0, 5.0]))
    with pytest.raises(UnsupportedError, match="no prior of a Bursts; expected none"):
        credo.fit(start, data(), "em(prior=bdeu)")

    class Half:
        emission = start.emission

        def sequences(self, x, **reading):
            return start.sequences(x, **reading)

        def instantiate(self, x, **reading):
            return start.instantiate(x, **reading)

    with pytest.raises(UnsupportedError, match="a Half is no Learnable"):
        credo.fit(Half(), data(), "em")
