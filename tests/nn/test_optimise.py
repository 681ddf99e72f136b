from __future__ import annotations

import signal

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from credo.core.result import Status
from credo.nn import compiled, layout, optimise
from credo.nn.arrays import precision
from credo.nn.compiled import Compiled
from credo.nn.optimise import minimise
from credo.optimise.pace import Pace


def bowl(parameters, data, shared):
    x = parameters["x"] * shared
    return jnp.sum((x - data) ** 2) + parameters["y"] ** 2, {"norm": jnp.sum(x**2)}, x


def moved(difference, shared):
    return jnp.abs(difference).max()


def start(problems=3):
    x = np.linspace(-1, 1, problems * 2).reshape(problems, 2).astype(np.float32)
    return {"x": x, "y": np.ones(problems, np.float32)}, np.arange(problems * 2.0).reshape(-1, 2).astype("f4")


def test_every_problem_of_a_batch_reaches_its_own_minimum():
    parameters, data = start()
    fit = minimise(bowl, moved, parameters, data, np.float32(2.0), steps=3000, rate=0.01, stop=1e-7)
    np.testing.assert_allclose(2 * fit.parameters["x"], data, atol=1e-3)
    np.testing.assert_allclose(fit.parameters["y"], 0, atol=1e-3)
    assert fit.stopped.all()
    assert fit.history["objective"].shape == fit.history["norm"].shape == fit.history["change"].shape


def test_steps_are_those_of_adam():
    parameters, data = start(1)
    fit = minimise(bowl, moved, parameters, data, np.float32(1.0), steps=7, rate=0.1, chunk=3)
    adam = optax.adam(0.1)
    x, y = jnp.asarray(parameters["x"][0]), jnp.asarray(parameters["y"][0])
    state = adam.init((x, y))
    for _ in range(7):
        update, state = adam.update((2 * (x - data[0]), 2 * y), state)
        x, y = x + update[0], y + update[1]
    np.testing.assert_allclose(fit.parameters["x"][0], x, rtol=1e-5)
    assert fit.steps.tolist() == [7]
    assert not fit.stopped.any()


def test_a_batch_finds_what_single_runs_find():
    parameters, data = start()
    with precision(double=True):
        wide = {k: v.astype(np.float64) for k, v in parameters.items()}, data.astype(np.float64)
        fit = minimise(bowl, moved, *wide, np.float64(1.0), steps=200, rate=0.05, stop=1e-3)
        for k in range(3):
            one = {name: v[k : k + 1] for name, v in wide[0].items()}
            alone = minimise(
                bowl, moved, one, wide[1][k : k + 1], np.float64(1.0), steps=200, rate=0.05, stop=1e-3
            )
            np.testing.assert_allclose(alone.parameters["x"][0], fit.parameters["x"][k], rtol=1e-12)
            assert alone.steps[0] == fit.steps[k]
    assert len(set(fit.steps.tolist())) > 1  # they stopped at different times


@pytest.mark.parametrize("large", [0, 1])
def test_leaves_of_any_size_take_the_same_steps(large, monkeypatch):
    parameters, data = start()
    arguments = bowl, moved, parameters, data, np.float32(2.0)
    joined = minimise(*arguments, steps=5, rate=0.1).parameters
    monkeypatch.setattr(layout, "_LARGE", large)
    apart = minimise(*arguments, steps=5, rate=0.1).parameters
    for name, values in parameters.items():
        np.testing.assert_allclose(apart[name], joined[name], rtol=1e-6)
        assert apart[name].shape == values.shape


def test_a_run_can_be_continued():
    parameters, data = start()
    shared = np.float32(1.0)
    whole = minimise(bowl, moved, parameters, data, shared, steps=20, rate=0.05)
    half = minimise(bowl, moved, parameters, data, shared, steps=10, rate=0.05)
    rest = minimise(bowl, moved, parameters, data, shared, steps=10, rate=0.05, carry=half.carry)
    np.testing.assert_allclose(rest.parameters["x"], whole.parameters["x"], rtol=1e-6)


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_returns_what_was_found(times, monkeypatch):
    parameters, data = start()
    real, done = optimise._program(bowl, moved), []

    class Pressed:
        seconds = 0.0

        def ready(self, *arguments, **static):
            real.ready(*arguments, **static)

        def __call__(self, *arguments, **static):
            found = real(*arguments, **static)
            done.append(int(found[2]))
            if len(done) == 3:
                for _ in range(times):
                    signal.raise_signal(signal.SIGINT)
            return found

    monkeypatch.setattr(optimise, "_program", lambda *_: Pressed())
    fit = minimise(bowl, moved, parameters, data, np.float32(1.0), steps=100, rate=0.05, chunk=5)
    assert fit.cut is Status.INTERRUPTED
    kept = sum(done) if times == 1 else sum(done[:-1])  # the second signal cuts the call
    assert len(fit.history["objective"]) == kept and fit.steps.tolist() == [kept] * 3
    assert (fit.history["objective"][-1] < fit.history["objective"][0]).all()


def test_a_run_ends_when_its_time_is_up():
    parameters, data = start()
    fit = minimise(bowl, moved, parameters, data, np.float32(1.0), steps=100, rate=0.05, chunk=5, seconds=0.0)
    assert fit.cut is Status.OUT_OF_TIME
    assert fit.steps.tolist() == [1, 1, 1]


@pytest.mark.parametrize("stop", [1e-3, 0.0])
def test_how_many_steps_come_at_once_does_not_change_them(stop, monkeypatch):
    parameters, data = start()
    arguments = bowl, moved, parameters, data, np.float32(2.0)
    doubling = minimise(*arguments, steps=300, rate=0.05, stop=stop)
    monkeypatch.setattr(Pace, "took", lambda pace, seconds: None)
    single = minimise(*arguments, steps=300, rate=0.05, stop=stop)
    np.testing.assert_array_equal(single.parameters["x"], doubling.parameters["x"])
    np.testing.assert_array_equal(single.history["change"], doubling.history["change"])
    assert single.steps.tolist() == doubling.steps.tolist()
    assert single.stopped.all() == (stop > 0)


def test_a_problem_that_runs_away_does_not_stop_the_others():
    parameters, data = start()
    data[0, 0] = np.inf
    fit = minimise(bowl, moved, parameters, data, np.float32(2.0), steps=3000, rate=0.01, stop=1e-7)
    assert fit.stopped.tolist() == [False, True, True] and fit.cut is None
    np.testing.assert_allclose(2 * fit.parameters["x"][1:], data[1:], atol=1e-3)


def test_one_program_serves_every_number_of_steps_and_every_rate():
    parameters, data = start(4)
    minimise(bowl, moved, parameters, data, np.float32(1.0), steps=3, rate=0.1)
    before = optimise._program(bowl, moved).programs
    fit = minimise(bowl, moved, parameters, data, np.float32(3.0), steps=60, rate=0.01, stop=1e-5)
    assert optimise._program(bowl, moved).programs == before
    assert fit.compile_seconds == 0


def test_programs_are_filed_by_shape_and_static_arguments():
    power = Compiled(lambda x, exponent: x**exponent)
    for x in (np.ones(2, np.float32), np.full(2, 3, np.float32), np.ones(3, np.float32)):
        np.testing.assert_array_equal(power(x, exponent=2), x**2)
    assert power.programs == 2
    np.testing.assert_array_equal(power(np.full(2, 2, np.float32), exponent=3), [8, 8])
    assert power.programs == 3
    assert power.seconds > 0


def test_a_compiler_without_an_option_goes_without_it(monkeypatch):
    x = np.linspace(-1, 1, 7, dtype=np.float32)
    monkeypatch.setattr(
        "credo.nn.compiled._EXTRA", {name: {"no_such_option": True} for name in ("quick", "loops")}
    )
    compiled._known.cache_clear()
    assert compiled._known("quick") == compiled._known("loops") == {}
    np.testing.assert_allclose(Compiled(lambda x: (2 * x).sum(), loops=True)(x), 0, atol=1e-6)
    compiled._known.cache_clear()


def steep(x, data, shared):
    return jnp.sum((x - data) ** 2), {"residual": jnp.sum((x - data) ** 2)}, x


def test_a_problem_has_converged_when_its_residual_is_below_tol_and_stalls_at_a_small_step():
    first, data = np.zeros((2, 1), np.float32), np.array([[0.5], [1.0]], np.float32)
    fit = minimise(steep, moved, first, data, (), steps=2000, rate=0.02, tol=1e-4)
    assert fit.stopped.all() and (fit.residuals < 1e-4).all()
    for k in range(2):
        assert (fit.history["residual"][: fit.steps[k] - 1, k] >= 1e-4).all()
    slow = minimise(steep, moved, first, data, (), steps=2000, rate=1e-6, stop=1e-5, tol=1e-4)
    assert slow.stopped.all() and (slow.residuals > 0.2).all()  # small steps, far from the answer


def test_problems_that_are_done_leave_the_batch_and_numbers_stay(monkeypatch):
    first, data = np.zeros((8, 1), np.float32), np.arange(1, 9, dtype=np.float32)[:, None]
    whole = minimise(steep, moved, first, data, (), steps=2000, rate=0.02, tol=1e-4)
    sizes, real = [], optimise.CompiledAdam._call

    def called(adam, carry, *given):
        sizes.append(len(carry.active))
        return real(adam, carry, *given)

    monkeypatch.setattr(optimise, "_WORTH", 0)
    monkeypatch.setattr(optimise.CompiledAdam, "_call", called)
    parts = minimise(steep, moved, first, data, (), steps=2000, rate=0.02, tol=1e-4)
    assert sizes == sorted(sizes, reverse=True) and set(sizes) >= {8, 4, 2}
    np.testing.assert_allclose(parts.parameters, whole.parameters, rtol=1e-6)
    assert parts.steps.tolist() == whole.steps.tolist() and parts.stopped.all()
    for k, taken in enumerate(whole.steps):
        np.testing.assert_allclose(
            parts.history["objective"][:taken, k], whole.history["objective"][:taken, k], rtol=1e-5
        )
