"""Mini-bucket kernels run uncompiled as their own specification."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from credo.inference.bounds.bucket_passes import bucket_passes, first_weights
from credo.kernels import mini_bucket_plan
from credo.kernels import mini_bucket_tables as tabled
from credo.kernels.jit import Kernel
from credo.optimise.run import call
from inference.bucket_models import problem, random_graph
from tiers import interpreted


def _powered(table: np.ndarray, weight: float) -> np.ndarray:
    with np.errstate(divide="ignore", over="ignore"):
        return weight * np.log(np.exp(table / weight).sum(axis=0))


@pytest.mark.parametrize("weight", [2.0, 1.0, 0.1, -0.1, -1.0])
def test_one_axis_is_eliminated_at_any_weight(weight: float):
    table = np.random.default_rng(0).standard_normal((3, 5))
    out, total = np.empty(5), np.empty(5)
    tabled.eliminate(table.ravel(), weight, out, total)
    np.testing.assert_allclose(out, _powered(table, weight), rtol=1e-12)


def test_weights_near_zero_are_maxima_and_minima():
    table = np.random.default_rng(1).standard_normal((4, 6))
    out, total = np.empty(6), np.empty(6)
    for weight, best in ((0.0, table.max(axis=0)), (1e-300, table.max(axis=0)), (-1e-300, table.min(axis=0))):
        tabled.eliminate(table.ravel(), weight, out, total)
        np.testing.assert_array_equal(out, best)


def test_zeros_are_ignored_by_sums_and_decide_minima():
    table = np.array([[0.0, -np.inf], [-np.inf, -np.inf]])
    out, total = np.empty(2), np.empty(2)
    tabled.eliminate(table.ravel(), 0.5, out, total)
    np.testing.assert_array_equal(out, [0.0, -np.inf])
    tabled.eliminate(table.ravel(), -0.5, out, total)
    np.testing.assert_array_equal(out, [-np.inf, -np.inf])


def test_entries_of_another_table_are_found_by_steps():
    where = np.empty(24, np.int64)
    assert tabled.entries_of(where, np.array([2, 3, 4]), np.array([4, 0, 1])) == 24
    x = np.indices((2, 3, 4))
    np.testing.assert_array_equal(where, (4 * x[0] + x[2]).ravel())


@pytest.mark.parametrize("kind", ["sum", "max", "mixed"])
def test_passes_bucket_by_bucket_are_those_of_one_call(kind: str, monkeypatch):
    asked = problem(random_graph(3), kind, 3)
    passes = bucket_passes(asked, 1, 2**16)
    weight = first_weights(passes, "upper", split=True)

    def there_and_back():
        start, _ = passes.forward(passes.theta, weight, None, None, 1.0, "upper", gradient=False)
        context, *rest = passes.backward(start, 0.5)
        end, apart = passes.forward(start.theta, weight, start.message, context, 0.5, "upper", gradient=False)
        return (*end, apart, context, *rest)

    whole = there_and_back()
    monkeypatch.setattr(Kernel, "portion", lambda *_: 1)
    for a, b in zip(whole, there_and_back(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_signal_ends_a_pass_between_two_parts():
    passes = bucket_passes(problem(random_graph(3), "sum", 3), 1, 2**16)
    weight = first_weights(passes, "upper", split=True)
    with pytest.raises(KeyboardInterrupt, match="stopped before there was anything"), call() as run:
        run.note(signal.SIGINT)
        passes.evaluate(passes.theta, weight)


@pytest.mark.parametrize("kind", ["sum", "max", "mixed"])
def test_passes_are_the_same_compiled_and_not(kind: str):
    asked = problem(random_graph(2), kind, 2)
    passes = bucket_passes(asked, 1, 2**16)
    weight = first_weights(passes, "upper", split=True)
    start, _ = passes.forward(passes.theta, weight, None, None, 1.0, "upper", gradient=False)
    context = passes.backward(start, 0.5)[0]
    one, _ = passes.forward(start.theta, weight, start.message, context, 0.5, "upper", gradient=False)
    with interpreted():
        two, _ = passes.forward(start.theta, weight, start.message, context, 0.5, "upper", gradient=False)
    for a, b in zip(one[:-1], two[:-1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    assert one.value == pytest.approx(two.value, rel=1e-12)


def test_partitions_are_the_same_compiled_and_not():
    order, sizes = np.arange(5), np.array([2, 3, 2, 2, 2])
    scopes = [(0, 1), (0, 2), (0, 3), (1, 2), (3, 4)]
    start = np.arange(0, 11, 2)
    scope = np.array(scopes).ravel()
    arguments = (order, sizes, start, scope, 3, 100.0)
    one = mini_bucket_plan.partition.compiled(*arguments)
    two = mini_bucket_plan.partition.plain(*arguments)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    # The bucket of variable 0 holds three pairs: two share a mini-bucket of three variables.
    assert one[0].tolist()[:2] == [0, 2]
