"""Flows: a training step and densities of a RealNVP, beside flowjax, and what more members and layers cost.

    python benchmarks/flows.py [--dimension 784] [--rounds 5]

One flow has 8 affine couplings whose conditioners have two layers of 256; a step is one of Adam on 100 rows.
The two libraries take turns in one process, and the best of all rounds is shown: wall milliseconds and CPU
milliseconds. Compiling is shown apart. Members are those of a mixture, all in one program.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax

from credo.families import Flow
from credo.families.family_forms import FamilyForm
from credo.learning.climb_step import ClimbStep, climb_carry, climb_rows
from credo.nn.adam import Rates
from credo.nn.batches import Batches, CompiledRows
from credo.nn.chunks import StepProgram

STEPS, BATCH, ROWS = 8, 100, 1000


def clocks() -> np.ndarray:
    """Wall and CPU seconds."""
    return np.array([time.perf_counter(), time.process_time()])


def our_steps(spec: str, d: int, members: int, x: np.ndarray) -> tuple[np.ndarray, Callable[[], None], Any]:
    """Seconds of compiling, a call of so many steps, and the flow."""
    flow = Flow.started(spec, d, members)
    q = {"volume": np.full((len(x), members), 1 / members), "base": np.full((len(x), members), 1 / members)}
    rows, carry = CompiledRows.of(climb_rows(flow, x, q)), climb_carry(flow, Rates(1e-3))
    program = StepProgram((ClimbStep(FamilyForm(flow)),)).compiled
    numbers, weights = Batches(BATCH, 0).rows(len(x), 0, 0, STEPS)
    whose, place = np.zeros(STEPS, np.int32), np.zeros(3, np.uint32)
    arguments = jax.tree.map(jax.numpy.asarray, (carry, rows.tree, numbers, weights, whose, place))

    def run(many: int = STEPS) -> None:
        jax.block_until_ready(program(*arguments, np.int32(many), room=STEPS))

    before = clocks()
    run(1)
    return clocks() - before, run, flow


def their_steps(d: int, x: np.ndarray) -> tuple[np.ndarray, Callable[[], None], Any]:
    """The same of flowjax: a scan of its own negative log-likelihood."""
    import equinox as eqx
    import paramax
    from flowjax.bijections import Affine
    from flowjax.distributions import Normal
    from flowjax.flows import coupling_flow

    base, key = Normal(jax.numpy.zeros(d)), jax.random.key(0)
    flow = coupling_flow(key, base_dist=base, transformer=Affine(), flow_layers=8, nn_width=256, nn_depth=2)
    free, rest = eqx.partition(
        flow, eqx.is_inexact_array, is_leaf=lambda leaf: isinstance(leaf, paramax.NonTrainable)
    )
    adam = optax.adam(1e-3)
    data = jax.numpy.asarray(x, np.float32).reshape(-1, BATCH, d)[:STEPS]

    def loss(free: Any, rows: Any) -> Any:
        return -paramax.unwrap(eqx.combine(free, rest)).log_prob(rows).mean()

    @jax.jit
    def steps(free: Any, state: Any, data: Any) -> Any:
        def step(carry: Any, rows: Any) -> Any:
            free, state = carry
            moves, state = adam.update(jax.grad(loss)(free, rows), state)
            return (optax.apply_updates(free, moves), state), None

        return jax.lax.scan(step, (free, state), data)[0]

    state = adam.init(free)

    def run() -> None:
        jax.block_until_ready(steps(free, state, data))

    before = clocks()
    run()
    density = jax.jit(lambda rows: paramax.unwrap(eqx.combine(free, rest)).log_prob(rows))
    return clocks() - before, run, density


def best(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, np.ndarray]:
    """Name -> least wall and CPU seconds, the calls taking turns."""
    found = {name: np.full(2, np.inf) for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            before = clocks()
            call()
            found[name] = np.minimum(found[name], clocks() - before)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dimension", type=int, default=784)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    d = options.dimension
    x = np.random.default_rng(0).normal(size=(ROWS, d))
    spec = "coupling(layers=8, width=256, activation=relu)"
    compiled: dict[str, np.ndarray] = {}
    calls: dict[str, Callable[[], Any]] = {}
    compiled["credo, step"], calls["credo, step"], flow = our_steps(spec, d, 1, x)
    try:
        compiled["flowjax, step"], calls["flowjax, step"], density = their_steps(d, x)
        rows = jax.numpy.asarray(x, np.float32)
        calls["flowjax, densities of 1000 rows"] = lambda: jax.block_until_ready(density(rows))
    except ImportError:
        print("flowjax is not installed")
    calls["credo, densities of 1000 rows"] = lambda: flow.log_density(x)
    compiled["credo, 10 members, step"], calls["credo, 10 members, step"], _ = our_steps(spec, d, 10, x)
    deep = "coupling(layers=32, width=256, activation=relu)"
    compiled["credo, 32 layers, step"], calls["credo, 32 layers, step"], _ = our_steps(deep, d, 1, x)
    for call in calls.values():
        call()
    found = best(calls, options.rounds)
    lines = [["", "compile CPU s", "wall ms", "CPU ms"]]
    for name, seconds in found.items():
        per = 1e3 * seconds / (STEPS if name.endswith("step") else 1)
        told = f"{compiled[name][1]:.1f}" if name in compiled else ""
        lines.append([name, told, f"{per[0]:.1f}", f"{per[1]:.1f}"])
    widths = [max(len(line[k]) for line in lines) for k in range(4)]
    for line in lines:
        print(
            line[0].ljust(widths[0]),
            *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True)),
            sep="  ",
        )


if __name__ == "__main__":
    main()
