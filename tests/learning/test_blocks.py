"""The local rules of blocks and the chain of Theta against closed forms, counts and enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import gammaln

from credo.core.errors import DataError, OptionError, ZeroProbabilityError
from credo.kernels.block_updates import multiply
from credo.learning.blocks import KL, ML, VAR, VIT, block_rules, local_divergence, local_log_likelihood
from credo.learning.theta_chain import ThetaChain

RULES = (ML(), KL(), VIT(delta=0), VAR(delta=0))


def simplex(rng, *shape, power=1.0):
    u = rng.random(shape) ** power
    return u / u.sum(axis=-1, keepdims=True)


def problem(seed, rows=3, columns=4, samples=60, power=1.0):
    rng = np.random.default_rng(seed)
    f, b = simplex(rng, samples, rows, power=power), simplex(rng, samples, columns, power=power)
    return f, b, simplex(rng, rows, columns)


def sharp(rng, samples, states):
    return np.eye(states)[rng.integers(states, size=samples)]


def uniform(rows, columns):
    return np.full((rows, columns), 1.0 / columns)


class TestML:
    @pytest.mark.parametrize("seed", range(5))
    def test_the_likelihood_never_falls(self, seed):
        f, b, theta = problem(seed, power=1 + 3 * seed)
        values = [local_log_likelihood(theta, f, b)]
        for _ in range(60):
            theta = ML().update(theta, f, b)
            values.append(local_log_likelihood(theta, f, b))
        assert (np.diff(values) >= -1e-10).all()

    def test_all_starts_reach_one_optimum_where_the_kkt_conditions_hold(self):
        f, b, _ = problem(1, power=4)
        found = [ML(iterations=4000).update(problem(seed, power=4)[2], f, b) for seed in range(4)]
        values = [local_log_likelihood(theta, f, b) for theta in found]
        np.testing.assert_allclose(values, values[0], atol=1e-4)
        # At the optimum, all entries of a row in use have one slope, and the others a smaller one.
        theta = found[0]
        slope = f.T @ (b / ((f @ theta) * b).sum(axis=1, keepdims=True))
        level = (theta * slope).sum(axis=1, keepdims=True)
        assert (slope <= level * (1 + 1e-3)).all()
        assert np.abs(theta * (slope - level)).max() < 1e-2

    def test_one_step_is_the_formula_with_the_old_matrix_in_every_denominator(self):
        f, b, theta = problem(2)
        mask = np.random.default_rng(0).integers(0, 2, size=len(f))
        new = np.zeros_like(theta)
        for row, column in itertools.product(range(3), range(4)):
            for n in range(len(f)):
                share = f[n, row] * b[n, column] / (f[n] @ theta @ b[n])
                new[row, column] += mask[n] * theta[row, column] * share / (mask @ f[:, row])
        np.testing.assert_allclose(ML().update(theta, f, b, mask), new / new.sum(axis=1, keepdims=True))

    def test_iterations_are_repeated_steps_with_rows_normalised_in_each(self):
        f, b, theta = problem(3)
        for rule in (ML, KL):
            step = theta
            for _ in range(7):
                step = rule().update(step, f, b)
            np.testing.assert_allclose(rule(iterations=7).update(theta, f, b), step)
            np.testing.assert_allclose(step.sum(axis=1), 1.0)

    def test_zeros_stay_and_rows_nobody_visits_keep_their_values(self):
        f, b, theta = problem(4)
        theta[0] = [0.0, 0.5, 0.25, 0.25]
        f[:, 2] = 0.0
        for rule in (ML(iterations=5), KL(iterations=5)):
            new = rule.update(theta, f, b)
            assert new[0, 0] == 0
            np.testing.assert_array_equal(new[2], theta[2])


class TestKL:
    @pytest.mark.parametrize("seed", range(5))
    def test_the_divergence_never_grows_and_bounds_the_likelihood(self, seed):
        f, b, theta = problem(seed, power=1 + seed)
        b[0] = [1.0, 0.0, 0.0, 0.0]  # 0 log 0 is 0
        entropy = -np.sum(np.where(b > 0, b * np.log(np.where(b > 0, b, 1.0)), 0.0))
        values = []
        for _ in range(60):
            values.append(local_divergence(theta, f, b))
            assert local_log_likelihood(theta, f, b) >= -(values[-1] + entropy) - 1e-10
            theta = KL().update(theta, f, b)
        assert (np.diff(values) <= 1e-10).all()

    def test_one_step_is_that_of_lee_and_seung_with_rows_normalised(self):
        f, b, theta = problem(6)
        lee_seung = theta * (f.T @ (b / (f @ theta))) / f.sum(axis=0)[:, None]
        expected = lee_seung / lee_seung.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(KL().update(theta, f, b), expected)

    def test_a_source_gets_the_mean_of_the_messages_at_once_and_ml_does_not(self):
        _, b, theta = problem(7, rows=1)
        one = np.ones((len(b), 1))
        mean = b.mean(axis=0, keepdims=True)
        np.testing.assert_allclose(KL().update(theta, one, b), mean)
        em = (theta * b / (b @ theta[0])[:, None]).mean(axis=0, keepdims=True)
        np.testing.assert_allclose(ML().update(theta, one, b), em)
        assert np.abs(em - mean).max() > 1e-3

    def test_it_is_ml_where_backward_messages_are_sharp_and_not_where_they_are_soft(self):
        f, b, theta = problem(8)
        hard = sharp(np.random.default_rng(0), len(b), 4)
        np.testing.assert_allclose(
            ML(iterations=9).update(theta, f, hard), KL(iterations=9).update(theta, f, hard)
        )
        assert np.abs(ML().update(theta, f, b) - KL().update(theta, f, b)).max() > 1e-3


class TestVIT:
    def test_a_case_by_hand(self):
        f = np.array([[0.6, 0.4], [0.1, 0.9], [0.7, 0.3]])
        b = np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
        d = 0.01
        # Sharpened: (0, 1), (1, 0) by the tie rule, (0, 0). Each sample gives 1 + d twice over, d + d^2, d^2.
        e, g = 1 + d, d
        counts = np.array([[g * e, e * e], [g * g, e * g]]) + np.array([[g * e, g * g], [e * e, e * g]])
        counts = counts + np.array([[e * e, e * g], [g * e, g * g]])
        expected = counts / counts.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(VIT(delta=d).update(uniform(2, 2), f, b), expected)

    def test_ties_go_to_the_first_state_or_to_any_at_random(self):
        f, b = np.ones((4000, 1)), np.full((4000, 4), 0.25)
        np.testing.assert_allclose(VIT(delta=0).update(uniform(1, 4), f, b), [[1, 0, 0, 0]])
        np.testing.assert_allclose(VIT(ties="random").update(uniform(1, 4), f, b), 0.25, atol=0.04)

    def test_delta_serves_rows_that_are_never_the_likeliest(self):
        f, b, theta = np.array([[0.9, 0.1]]), np.array([[0.2, 0.8]]), np.array([[0.5, 0.5], [0.3, 0.7]])
        np.testing.assert_array_equal(VIT(delta=0).update(theta, f, b)[1], theta[1])
        assert VIT(delta=1e-6).update(theta, f, b)[1, 1] > 0.999


class TestVAR:
    def test_it_is_the_mode_or_the_mean_of_the_chain(self):
        f, b, theta = problem(9)
        chain = ThetaChain(f, b, alpha=0.2)
        np.testing.assert_allclose(VAR(delta=0.2).update(theta, f, b), chain.mode())
        np.testing.assert_allclose(VAR(delta=0.2, estimate="mean").update(theta, f, b), chain.mean())

    def test_the_first_step_of_ml_and_kl_from_uniform_rows_is_var(self):
        f, b, _ = problem(10)
        expected = VAR(delta=0).update(uniform(3, 4), f, b)
        for rule in (ML(), KL()):
            np.testing.assert_allclose(rule.update(uniform(3, 4), f, b), expected)


class TestAllRules:
    @pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
    def test_sharp_messages_are_counted(self, rule):
        rng = np.random.default_rng(11)
        f, b = sharp(rng, 80, 3), sharp(rng, 80, 4)
        counts = f.T @ b
        found = rule.update(uniform(3, 4), f, b)
        np.testing.assert_allclose(found, counts / counts.sum(axis=1, keepdims=True))

    @pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
    def test_the_mask_leaves_samples_out_and_counts_others_twice(self, rule):
        f, b, theta = problem(12)
        mask = np.arange(len(f)) % 3
        kept = np.repeat(np.arange(len(f)), mask)
        np.testing.assert_allclose(rule.update(theta, f, b, mask), rule.update(theta, f[kept], b[kept]))

    @pytest.mark.parametrize("rule", [ML(iterations=3), KL(iterations=3), VAR()], ids=lambda r: r.name)
    def test_a_source_of_one_row_is_a_block_with_uniform_input(self, rule):
        _, b, theta = problem(13, rows=1)
        one = rule.update(theta, np.ones((len(b), 1)), b)
        three = rule.update(np.repeat(theta, 3, axis=0), np.full((len(b), 3), 1 / 3), b)
        np.testing.assert_allclose(three, np.repeat(one, 3, axis=0), rtol=1e-6)

    def test_vit_needs_the_form_with_one_row(self):
        _, b, theta = problem(13, rows=1)
        three = VIT().update(np.repeat(theta, 3, axis=0), np.full((len(b), 3), 1 / 3), b)
        one = VIT().update(theta, np.ones((len(b), 1)), b)
        np.testing.assert_allclose(three[0], one[0], atol=1e-5)
        counts = np.bincount(b.argmax(axis=1), minlength=4)
        assert np.abs(three[1:] - counts / counts.sum()).max() < 1e-3  # delta times the same counts

    def test_rules_have_names_and_options(self):
        assert block_rules.names() == ["kl", "ml", "var", "vit"]
        assert block_rules.resolve("ml(iterations=3)") == ML(iterations=3)

    def test_the_kernel_says_the_same_uncompiled(self):
        f, b, theta = problem(14, samples=10)
        for by_column in (False, True):
            np.testing.assert_allclose(
                multiply.py_func(theta, f, b, np.ones(10), 3, by_column)[0],
                multiply(theta, f, b, np.ones(10), 3, by_column)[0],
            )

    def test_the_order_of_the_rules_on_random_messages(self):
        """Reference means over 50 draws: ML -135.56, KL -137.72, VIT -137.89, VAR -138.27, ref -139.50."""
        for power, reference in (
            (1, (-135.56, -137.72, -137.89, -138.27, -139.50)),
            (20, (-133.96, -134.17, -134.58, -134.36, -153.04)),
        ):
            values = []
            for seed in range(50):
                f, b, ref = problem(seed, samples=100, power=power)
                rules = (ML(iterations=100), KL(iterations=100), VIT(), VAR())
                found = [rule.update(uniform(3, 4), f, b) for rule in rules] + [ref]
                values.append([local_log_likelihood(theta, f, b) for theta in found])
            means, errors = np.mean(values, axis=0), np.std(values, axis=0) / np.sqrt(50)
            # Two means of 50 draws each differ by more than 4 of their standard errors once in 16,000.
            assert (np.abs(means - reference) < 4 * np.sqrt(2) * errors).all()
            assert means[0] > means[1] > max(means[2], means[3]) > min(means[2], means[3]) > means[4]
            gap = means[0] - means[3]
            assert gap > 2 if power == 1 else gap < 1  # sharp messages leave nothing to choose


class TestThetaChain:
    def test_every_sample_hears_all_others_and_not_itself(self):
        f, b, _ = problem(15, samples=7)
        alpha = np.random.default_rng(0).random((3, 4))
        chain = ThetaChain(f, b, alpha=alpha)
        for n in range(7):
            others = [k for k in range(7) if k != n]
            left_out = alpha + 1 + np.einsum("ni,nj->ij", f[others], b[others])
            np.testing.assert_allclose(chain.forward[n], left_out)
            np.testing.assert_allclose(chain.forward_means[n], left_out / left_out.sum(axis=1, keepdims=True))
            np.testing.assert_allclose(chain.backward[n], 1 + np.outer(f[n], b[n]))
        forward, backward = chain.outgoing()
        expected = chain.forward_means[2].T @ f[2]
        np.testing.assert_allclose(forward[2], expected / expected.sum())
        expected = chain.forward_means[2] @ b[2]
        np.testing.assert_allclose(backward[2], expected / expected.sum())

    def test_sharp_messages_are_counted_exactly(self):
        rng = np.random.default_rng(16)
        f, b = sharp(rng, 30, 3), sharp(rng, 30, 4)
        chain = ThetaChain(f, b)
        np.testing.assert_allclose(chain.posterior.concentration, 1 + f.T @ b)
        short = ThetaChain(f[:5], b[:5])
        np.testing.assert_allclose(short.mean(), self._exact_mean(f[:5], b[:5]))

    def test_soft_messages_are_near_the_mixture_they_stand_for(self):
        rng = np.random.default_rng(17)
        f, b = simplex(rng, 4, 2, power=6), simplex(rng, 4, 2, power=6)
        exact = self._exact_mean(f, b)
        assert np.abs(ThetaChain(f, b).mean() - exact).max() < 0.05
        # The approximation is one: the two are not equal.
        assert np.abs(ThetaChain(f, b).mean() - exact).max() > 1e-6

    @staticmethod
    def _exact_mean(f, b):
        """Posterior mean of Theta under a flat prior: a mixture of Dirichlets over cells of all samples."""
        rows, columns = f.shape[1], b.shape[1]
        total, mean = 0.0, np.zeros((rows, columns))
        for cells in itertools.product(itertools.product(range(rows), range(columns)), repeat=len(f)):
            weight = np.prod([f[n, i] * b[n, j] for n, (i, j) in enumerate(cells)])
            if weight == 0:
                continue
            a = np.ones((rows, columns))
            for i, j in cells:
                a[i, j] += 1
            weight *= np.exp((gammaln(a).sum(axis=1) - gammaln(a.sum(axis=1))).sum())
            total += weight
            mean += weight * a / a.sum(axis=1, keepdims=True)
        return mean / total


HALF = np.full((3, 2), 0.5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ML(iterations=0), OptionError, "iterations must be at least 1, got 0"),
        (lambda: KL(iterations=0), OptionError, "iterations must be at least 1, got 0"),
        (lambda: VIT(delta=-1), OptionError, "delta must be at least 0"),
        (lambda: VIT(ties="last"), OptionError, "ties must be one of"),
        (lambda: VAR(delta=-1), OptionError, "delta must be at least 0"),
        (lambda: VAR(estimate="median"), OptionError, "estimate must be one of"),
        (lambda: block_rules.resolve("em"), OptionError, "no block rule named 'em'"),
        (lambda: ML().update(uniform(2, 3), HALF, HALF), DataError, r"for a matrix \(2, 3\), got \(3, 2\)"),
        (lambda: ML().update(uniform(2, 2), HALF, HALF[:2]), DataError, "got 3, 2 and"),
        (lambda: ML().update(uniform(2, 2), HALF, HALF, [1, 1]), DataError, "one mask entry per sample"),
        (lambda: VAR().update(uniform(2, 2), HALF, HALF, [1, 1, -1]), DataError, "mask: expected finite"),
        (
            lambda: ML().update(np.eye(2), np.eye(2), np.eye(2)[::-1]),
            ZeroProbabilityError,
            "sample 0 is impossible for this block; give the evidence a floor",
        ),
        (
            lambda: KL().update(np.eye(2), np.eye(2), np.eye(2)[::-1]),
            ZeroProbabilityError,
            "sample 0 is impossible",
        ),
        (lambda: ThetaChain(HALF, HALF[:1]), DataError, r"got \(3, 2\) and \(1, 2\)"),
        (
            lambda: ThetaChain(HALF, HALF, alpha=np.ones(3)),
            DataError,
            r"a number or shape \(2, 2\), got \(3,\)",
        ),
        (lambda: ThetaChain(HALF, HALF, alpha=-1), DataError, "expected finite numbers above -1"),
    ],
)
def test_refusals_say_what_was_expected(call, error, message):
    with pytest.raises(error, match=message):
        call()
