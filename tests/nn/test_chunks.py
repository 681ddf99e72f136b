"""Mini-batch steps in compiled chunks against plain loops."""

from __future__ import annotations

import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credo.core.errors import DataError, OptionError
from credo.core.result import Status
from credo.nn import chunks
from credo.nn.adam import Gradient, Rates, learned
from credo.nn.arrays import precision
from credo.nn.batches import Batches, CompiledRows
from credo.nn.chunks import Chunks, Phase
from credo.nn.hooks import EarlyStopping, HookTurn
from credo.optimise.driver import drive
from credo.optimise.pace import Pace
from credo.optimise.run import Budget

ROWS = 23


def table(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((ROWS, 3))
    return {"x": x, "y": (x @ [1.0, -2.0, 0.5] + 0.3 * rng.standard_normal(ROWS) > 0).astype(float)}


def logistic(w, state, batch, key):
    """Mean negative log-likelihood of the rows that count."""
    score = batch.rows["x"] @ w
    loss = batch.weights @ (jnp.logaddexp(0.0, score) - batch.rows["y"] * score) / batch.weights.sum()
    return loss, ({}, {})


def regression(size=5, rates=None, clip=np.inf, **options):
    carry = {"model": learned(np.zeros(3), rates or Rates(0.1), clip=clip)}
    return Chunks(phases=[Phase(Gradient(logistic))], carry=carry, batches=Batches(size, seed=7), **options)


def run(algorithm, data, epochs, **options):
    with precision(double=True):
        return drive(algorithm, CompiledRows.of(data), Budget(epochs, 0.0), **options)


def plain_adam(data, epochs, size, rates, clip):
    """The same by NumPy."""
    w, mean, square, t, losses = np.zeros(3), np.zeros(3), np.zeros(3), 0, []
    for epoch in range(epochs):
        order, values = np.random.default_rng([7, epoch]).permutation(ROWS), []
        for at in range(0, ROWS, size):
            x, y = data["x"][order[at : at + size]], data["y"][order[at : at + size]]
            values.append(float((np.logaddexp(0, x @ w) - y * (x @ w)).mean()))
            gradient = x.T @ (1 / (1 + np.exp(-x @ w)) - y) / len(y)
            gradient = gradient * min(1.0, clip / np.linalg.norm(gradient))
            mean, square, t = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2, t + 1
            rate = (
                rates.rate
                * min(1, t / max(rates.warm_up, 1))
                * (1 + (t - 1) / rates.half_life) ** -rates.power
            )
            w = w - rate * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
        losses.append(np.mean(values))
    return w, losses


@pytest.mark.parametrize("size", [5, 23, 100])
@pytest.mark.parametrize(
    ("rates", "clip"), [(Rates(0.1), np.inf), (Rates(0.2, warm_up=4, half_life=3.0), 0.05)]
)
def test_logistic_regression_takes_the_steps_of_a_plain_loop(size, rates, clip):
    found = run(regression(size, rates, clip), table(), 6)
    w, losses = plain_adam(table(), 6, size, rates, clip)
    np.testing.assert_allclose(found.carry["model"].parameters, w, rtol=1e-9)
    np.testing.assert_allclose(found.trace["loss"], losses, rtol=1e-6)  # weights of rows are single numbers
    assert found.outcome.state.epoch == 6 and found.outcome.status is Status.OUT_OF_ITERATIONS


def test_every_row_is_met_once_in_an_epoch_and_orders_differ():
    batches, met = Batches(4, seed=3), []
    for epoch in range(2):
        numbers, weights = batches.rows(10, epoch, 0, 3)
        met.append(numbers[weights > 0].tolist())
    assert sorted(met[0]) == sorted(met[1]) == list(range(10)) and met[0] != met[1]
    one = np.concatenate([batches.rows(10, 1, k, 1)[0] for k in range(3)])
    np.testing.assert_array_equal(one, batches.rows(10, 1, 0, 3)[0])
    assert Batches(4, shuffle=False).rows(5, 9, 0, 1)[0].tolist() == [[0, 1, 2, 3]]


def first(state, batch, key):
    return {**state, "a": state["a"] + 1, "order": 10 * state["order"] + 1}, {"seen": state["a"], "only": 2.0}


def second(state, batch, key):
    return {**state, "b": state["b"] + 1, "order": 10 * state["order"] + 2}, {"seen": state["b"]}


@pytest.mark.parametrize(("turns", "order", "shown"), [("batches", 11211211, 4), ("epochs", 11112211, 3)])
def test_phases_take_their_turns(turns, order, shown):
    """Two batches an epoch: two turns of the first phase are as many batches, or epochs."""
    carry = {"a": np.float64(0), "b": np.float64(0), "order": np.int64(0)}
    phases = [Phase(first, 2), Phase(second, 1)]
    work = Chunks(phases=phases, carry=carry, batches=Batches(12), turns=turns)
    found = run(work, {"x": np.zeros(24)}, 4)
    assert (int(found.carry["order"]), int(found.carry["a"]), int(found.carry["b"])) == (order, 6, 2)
    # A metric that one phase shows is averaged over its steps alone.
    assert found.trace["only"].tolist() == [2.0] * shown and len(found.trace["seen"]) == 4


def chain(state, batch, key):
    """A persistent chain beside a parameter."""
    noise = jax.random.normal(key, state["chain"].shape, state["chain"].dtype)
    new = 0.9 * state["chain"] + noise
    return {**state, "chain": new, "sum": state["sum"] + batch.weights @ batch.rows["x"]}, {
        "mean": new.mean()
    }


def chained():
    carry = {"chain": np.zeros(4), "sum": np.float64(0.0)}
    return Chunks(phases=[Phase(chain)], carry=carry, batches=Batches(5, seed=2))


def test_what_is_carried_evolves_and_every_step_has_numbers_of_its_own():
    found = run(chained(), {"x": np.arange(23.0)}, 3)
    assert float(found.carry["sum"]) == 3 * np.arange(23.0).sum()
    values = found.carry["chain"]
    assert len(set(np.asarray(values).tolist())) == 4 and (np.abs(values) > 0).all()
    with precision(double=True):
        expected, step = np.zeros(4), 0
        for epoch in range(3):
            base = jax.random.fold_in(jax.random.PRNGKey(2), epoch)
            for position in range(5):
                noise = jax.random.normal(jax.random.fold_in(base, position), (4,), jnp.float64)
                expected, step = 0.9 * expected + np.asarray(noise), step + 1
    np.testing.assert_allclose(values, expected, rtol=1e-12)


@pytest.mark.parametrize("make", [chained, regression])
def test_a_run_goes_on_from_the_middle_of_an_epoch_with_the_same_bits(make):
    data = table() if make is regression else {"x": np.arange(23.0)}
    whole = run(make(), data, 4)

    def stop(iteration, view):
        if view.outcome.state.position == 1:
            view.stop()

    cut = run(make(), data, 4, on_step=stop)
    state = cut.outcome.state
    assert cut.outcome.status is Status.INTERRUPTED and state.position > 0
    copied = state._replace(carry=jax.tree.map(np.array, state.carry))
    rest = run(make(), data, 4 - state.epoch, state=copied)
    for mine, theirs in zip(jax.tree.leaves(rest.carry), jax.tree.leaves(whole.carry), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for name, numbers in whole.trace.items():
        np.testing.assert_array_equal([*cut.trace.get(name, ()), *rest.trace[name]], numbers)


def test_how_many_steps_come_at_once_does_not_change_them(monkeypatch):
    fast = run(regression(2), table(), 3)
    monkeypatch.setattr(Pace, "took", lambda pace, seconds: None)
    slow = run(regression(2), table(), 3)
    np.testing.assert_array_equal(fast.carry["model"].parameters, slow.carry["model"].parameters)
    assert fast.trace["loss"].tolist() == slow.trace["loss"].tolist()


def test_early_stopping_returns_the_best_state():
    values = iter([1.0, 3.0, 2.0, 2.5, 9.0])
    seen = []

    def evaluate(carry):
        seen.append(np.asarray(carry["model"].parameters))
        return next(values)

    found = run(regression(hook=EarlyStopping(evaluate, 2)), table(), 50)
    assert found.outcome.status is Status.CONVERGED and found.trace["validation"].tolist() == [
        1.0,
        3.0,
        2.0,
        2.5,
    ]
    np.testing.assert_array_equal(found.carry["model"].parameters, seen[1])


def test_before_the_first_value_the_answer_is_the_present_state():
    hook = EarlyStopping(lambda carry: 0.0, 1)
    assert hook.choose("now", hook.begin("first")) == "now"


def test_a_hook_may_change_the_state_and_say_how_far_it_is():
    class Halving:
        def begin(self, carry):
            return 1.0

        def after(self, epoch, carry, means, memory):
            group = carry["model"]
            rates = group.rates._replace(rate=np.asarray(group.rates.rate) / 2)
            return HookTurn({"model": group._replace(rates=rates)}, memory / 2, residual=memory)

        def choose(self, carry, memory):
            return carry

    with precision(double=True):
        found = drive(regression(hook=Halving()), CompiledRows.of(table()), Budget(100, 0.2))
    assert found.outcome.residuals == [1.0, 0.5, 0.25, 0.125] and found.outcome.status is Status.CONVERGED
    assert float(found.carry["model"].rates.rate) == 0.1 / 16


def test_numbers_that_are_none_end_the_run_with_the_state_before():
    data = table()
    data["x"][3, 0] = np.nan
    found = run(regression(), data, 5)
    assert found.outcome.status is Status.DIVERGED
    assert np.isfinite(found.carry["model"].parameters).all()


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_returns_what_was_found(times, monkeypatch):
    program, calls = chunks.step_program((Gradient(logistic),)), []
    real = program.compiled

    def pressed(*arguments, **static):
        calls.append(1)
        found = real(*arguments, **static)
        for _ in range(times if len(calls) == 4 else 0):
            signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(program, "compiled", pressed)
    found = run(regression(2), table(), 100)
    assert found.outcome.status is Status.INTERRUPTED
    assert int(found.carry["model"].moments.steps) > 0


def test_one_program_serves_every_rate_and_every_seed():
    run(regression(4), table(), 1)
    before = chunks.step_program((Gradient(logistic),)).compiled.programs
    run(regression(4, Rates(0.3, warm_up=5), 1.0), table(3), 2)
    assert chunks.step_program((Gradient(logistic),)).compiled.programs == before


def wide(state, batch, key):
    return state, {"all": batch.weights}


def test_what_cannot_be_trained_is_told():
    with pytest.raises(OptionError, match="phases: expected at least one step, got none"):
        Chunks(phases=[], carry={}, batches=Batches(1))
    with pytest.raises(OptionError, match="turns of a phase must be at least 1"):
        Chunks(phases=[Phase(first, 0)], carry={}, batches=Batches(1))
    with pytest.raises(OptionError, match="turns must be one of"):
        Chunks(phases=[Phase(first)], carry={}, batches=Batches(1), turns="steps")
    with pytest.raises(OptionError, match="size must be at least 1"):
        Batches(0)
    with pytest.raises(OptionError, match="patience must be at least 1"):
        EarlyStopping(lambda carry: 0.0, 0)
    with pytest.raises(OptionError, match="clip must be a positive number, got 0"):
        learned(np.zeros(2), clip=0)
    with pytest.raises(
        DataError, match=r"expected arrays with the same number of rows, at least one, got \[2, 3\]"
    ):
        CompiledRows.of((np.zeros(2), np.zeros(3)))
    with pytest.raises(OptionError, match=r"metric 'all': expected one number a step, got shape \(2,\)"):
        run(Chunks(phases=[Phase(wide)], carry={"a": np.zeros(1)}, batches=Batches(2)), table(), 1)
