"""Generalised EM by mini-batches: its bound, its sums, schedules, guard, priors of scales, refusals."""

from __future__ import annotations

import warnings
from itertools import pairwise, product

import numpy as np
import pytest

import credo
from credo.core.errors import ConvergenceWarning, OptionError, UnsupportedError
from credo.families import DiagonalGaussian, Flow, Gaussian, Mixture
from credo.families.family_forms import FamilyForm
from credo.families.scale_prior import GammaScales, SquaredScales, read_scale_prior
from credo.families.trees import map_tree
from credo.learning.believed import believe, q_parts
from credo.learning.climb_step import ClimbStep
from credo.nn.chunks import step_program

LATENT = "actnorm + coupling(layers=2, width=4)"


def rows(count=240, seed=0):
    rng = np.random.default_rng(seed)
    kind = np.arange(count) // 8 % 2
    return np.where(kind[:, None] == 1, [2.0, 1.0], [-2.0, 0.0]) + rng.normal(size=(count, 2)) * [1.0, 0.3]


def lively(members, base=None, seed=0):
    flow = Flow.started(LATENT, 2, members, base, precision="double")
    rng = np.random.default_rng(seed)
    return flow.from_free(map_tree(lambda a: a + 0.2 * rng.normal(size=a.shape), flow.to_free()))


def chain(seed=0):
    """A hidden Markov model that emits mixtures of flows, left to right."""
    moves = [[0.8, 0.2], [0.0, 1.0]]
    return credo.HMM([1.0, 0.0], moves, Mixture([[0.3, 0.7], [0.5, 0.5]], lively(4, seed=seed)))


def latent(members=1, components=2, seed=0):
    means = np.random.default_rng(seed).normal(size=(members * components, 2))
    return Mixture(
        np.full((members, components), 1 / components), DiagonalGaussian(means, np.ones_like(means))
    )


def learned(model, x, learner, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return credo.fit(model, x, learner, **{"max_iter": 2, "seed": 0, **options})


def sequences(model, x):
    return model.sequences([x[:1], x[1:50], x[50:]])


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_bound_is_below_the_likelihood_of_every_model_and_tight_at_the_old_one(share):
    x = rows(80)
    old = chain()
    data = sequences(old, x)
    believed = believe(old, data, share=share)
    exact = credo.log_likelihood(old, data).value
    assert believed.expected.log_likelihood == pytest.approx(exact)
    own = sum(q_parts(old, believed.expected).values()) + believed.leaves + believed.entropy
    assert own == pytest.approx(exact) if share == 1.0 else own < exact - 1e-3
    for seed in (1, 2, 3):
        other = chain(seed)
        met = believe(other, data, q=believed.expected.q)
        bound = sum(q_parts(other, believed.expected).values()) + met.others + believed.entropy
        assert bound <= met.expected.log_likelihood + 1e-9


def test_every_sum_of_q_is_not_lower_after_its_update():
    x, old = rows(80), chain()
    data = sequences(old, x)
    believed = believe(old, data)
    new = old.update(believed.expected)
    before, after = q_parts(old, believed.expected), q_parts(new, believed.expected)
    assert set(before) == {"start", "transition", "choices"}
    assert (
        all(after[name] >= before[name] - 1e-12 for name in before) and after["choices"] > before["choices"]
    )
    assert new.transition[1, 0] == 0 and new.start[1] == 0


def test_q_is_the_expectation_over_all_paths_under_the_old_posteriors():
    x, old, new = rows(9)[6:], chain(), chain(4)
    data = old.sequences([x])
    believed = believe(old, data)
    met = believe(new, data, q=believed.expected.q)

    def joint(model, path):
        weights, leaves = model.emission.weights, model.emission.components.log_density(x)
        states, kinds = [k // 2 for k in path], [k % 2 for k in path]
        logs = np.log(model.start[states[0]])
        logs += sum(np.log(model.transition[a, b]) for a, b in pairwise(states))
        return logs + sum(
            np.log(weights[s, k]) + leaves[t, 2 * s + k]
            for t, (s, k) in enumerate(zip(states, kinds, strict=True))
        )

    with np.errstate(divide="ignore"):
        paths = [path for path in product(range(4), repeat=3) if joint(old, path) > -np.inf]
    before = np.array([joint(old, path) for path in paths])
    shares = np.exp(before - np.logaddexp.reduce(before))
    exact = sum(share * joint(new, path) for share, path in zip(shares, paths, strict=True))
    found = sum(q_parts(new, believed.expected).values()) + met.others
    assert found == pytest.approx(exact, rel=1e-10)


def test_what_is_counted_does_not_depend_on_the_size_of_batches():
    x = rows(80)
    found = [
        learned(chain(), [x[:30], x[30:]], f"gradient-em(rate=0,refresh=1,batch={size})").model
        for size in (7, 64)
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other.transition, found[0].transition)
        np.testing.assert_array_equal(other.emission.weights, found[0].emission.weights)
    assert found[0].transition[1, 0] == 0.0


def test_mini_batches_learn_and_the_trace_says_how():
    x = rows()
    start = lively(1, latent())
    fit = learned(start, x, "gradient-em(rate=0.02,batch=64)", validation=rows(seed=1))
    assert fit.objective[-1] > fit.objective[0] + 0.3
    bound, likelihood = fit.trace["bound"] / len(x), fit.trace["log_likelihood"]
    assert bound[0] == pytest.approx(likelihood[0]) and (bound <= likelihood + 1e-9).all()
    weights = fit.model.base.weights[0]
    assert fit.trace["components"][-1] == pytest.approx(np.exp(-(weights * np.log(weights)).sum()))
    assert len(fit.trace["validation"]) == 3
    assert fit.log_likelihood.value == pytest.approx(credo.log_likelihood(fit.model, x).value)


def test_with_the_guard_and_all_rows_the_objective_never_falls_whatever_the_rate():
    x = rows(100)
    fit = learned(
        lively(1, latent()),
        x,
        "gradient-em(rate=0.5,batch=none,refresh=2,guard=true,scales=gamma)",
        max_iter=8,
    )
    assert (np.diff(fit.objective) >= -1e-12).all() and fit.objective[-1] > fit.objective[0]
    wild = learned(
        lively(1, latent()), x, "gradient-em(rate=0.5,batch=none,refresh=2,scales=gamma)", max_iter=8
    )
    assert (np.diff(wild.objective) < 0).any() and any("fell" in note for note in wild.notes)


def test_weights_are_counted_as_often_as_was_said():
    x = rows(100)
    seen = [
        learned(
            Mixture([[0.5, 0.5]], lively(2)), x, "gradient-em(count_every=2,refresh=1,batch=64)", max_iter=n
        ).model.weights
        for n in (1, 2)
    ]
    np.testing.assert_array_equal(seen[0], [[0.5, 0.5]])
    assert abs(seen[1][0, 0] - 0.5) > 1e-3


def test_scaled_posteriors_are_exact_ones_in_one_dimension_and_others_beyond():
    x = rows(60)
    flow = Flow.started(
        "actnorm", 1, base=Mixture([[0.3, 0.7]], DiagonalGaussian([[-1.0], [1.0]], [[1.0], [1.0]]))
    )
    one = [
        learned(flow, x[:, :1], f"gradient-em(posterior={kind},batch=64)").model.base.weights
        for kind in ("exact", "scaled")
    ]
    np.testing.assert_array_equal(*one)
    two = [
        learned(lively(1, latent()), x, f"gradient-em(posterior={kind},batch=64)").model.base.weights
        for kind in ("exact", "scaled")
    ]
    assert np.abs(two[0] - two[1]).max() > 1e-3


def test_priors_of_scales_have_their_maximum_at_one_and_keep_components_from_collapsing():
    for prior in (GammaScales(), SquaredScales()):
        at = [prior.value(np.full((1, 3, 2), z), np) for z in (-1e-3, 0.0, 1e-3)]
        assert at[1] > at[0] and at[1] > at[2] and at[0] == pytest.approx(at[2], abs=1e-6)
    assert GammaScales().value(np.zeros((1, 4, 3)), np) == pytest.approx(-3.0)  # log density -1 in each of 3
    x = np.concatenate([rows(60), np.tile([[0.5, 0.5]], (20, 1))])
    base = Mixture([[0.5, 0.5]], DiagonalGaussian([[0.5, 0.5], [0.0, 0.0]], [[0.01, 0.01], [4.0, 1.0]]))
    start = Flow.started("permutation", 2, base=base, precision="double")
    free, held = (
        learned(
            start, x, f"gradient-em(rate=0.05,batch=none,refresh=60,scales={prior})", max_iter=4
        ).model.base
        for prior in ("none", "gamma")
    )
    assert free.components.variances[0].max() < 1e-4 < 0.05 < held.components.variances[0].min()


def test_rows_in_steps_are_learned_with_noise():
    counts = np.random.default_rng(0).binomial(4, 0.5, size=(200, 1))
    flow = Flow.started("actnorm", 1, noise="uniform")
    fit = learned(
        flow.initialise(counts.astype(float), np.random.default_rng(0)), counts, "gradient-em(rate=0.01)"
    )
    spread = np.exp(-fit.model.parameters["log_scale"][0, 0])
    assert spread == pytest.approx(np.sqrt(counts.var() + 1 / 12), rel=0.1)


def test_another_number_of_rows_is_no_new_program():
    start = lively(1, latent())
    learned(start, rows(200), "gradient-em(batch=64)")
    compiled = step_program((ClimbStep(FamilyForm(start)),)).compiled
    before = compiled.programs
    learned(start, rows(230), "gradient-em(batch=64)")
    assert compiled.programs == before


def test_training_stops_where_held_out_rows_get_no_better():
    fit = learned(
        lively(1, latent()),
        rows(24),
        "gradient-em(rate=0.05,refresh=20,patience=2,batch=64)",
        validation=rows(200, 1),
        max_iter=40,
    )
    assert fit.stopped_early and fit.converged is False
    held = credo.log_likelihood(fit.model, rows(200, 1)).value / 200
    assert held == pytest.approx(fit.trace["validation"].max()) and "latent" not in " ".join(fit.notes)


def test_few_rows_are_told_and_what_cannot_be_is_refused():
    few = learned(Mixture([[0.5, 0.5]], lively(2)), rows(24), "gradient-em(batch=64)", max_iter=1)
    assert any("a latent mixture shares one" in note for note in few.notes)
    chains = learned(chain(), rows(24), "gradient-em(batch=64)", max_iter=1)
    assert any("are few for 4 flows" in n and "'flow(components=2)' in place" in n for n in chains.notes)
    closed = Gaussian([[0.0, 0.0]], [np.eye(2)])
    with pytest.raises(UnsupportedError, match="all its leaves have closed forms; use em"):
        credo.fit(closed, rows(10), "gradient-em")
    with pytest.raises(UnsupportedError, match="patience needs validation data"):
        credo.fit(lively(1), rows(10), "gradient-em(patience=2)")
    with pytest.raises(UnsupportedError, match="its emission is fixed"):
        credo.fit(Mixture([[1.0]], lively(1)), rows(10), "gradient-em", fixed=("emission",))
    for wrong in ("refresh=0", "count_every=0", "batch=0", "rate=-1", "clip=0", "posterior=hard", "guard=3"):
        with pytest.raises(OptionError, match=wrong.partition("=")[0]):
            credo.fit(lively(1), rows(10), f"gradient-em({wrong})")
    for wrong, said in (("beta", "scales must be one of"), ("gamma(a=2)", "gamma has no option 'a'")):
        with pytest.raises(OptionError, match=said):
            read_scale_prior(wrong)
    with pytest.raises(OptionError, match="shape must be positive"):
        read_scale_prior("gamma(shape=0)")
    with pytest.raises(OptionError, match="expected gamma, l2 or None"):
        read_scale_prior(3)
