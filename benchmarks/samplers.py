"""NUTS beside blackjax called directly: the same model, warm-up steps, draws and chains, compiling apart.

    python benchmarks/samplers.py [--quick] [--seconds 600]

blackjax runs its own window adaptation and its own kernel over four chains in one compiled program. It gets
the log density twice: written by hand for this model, and as credo lays it out, which separates the cost of
the density from that of the sampler. credo's time is that of the whole call: short runs that look for modes,
warm-up, draws, R-hat by step, and the diagnosis of the draws; blackjax's is warm-up and draws alone. They
take turns in one process, so that other work on the machine falls on all of them: CPU seconds, best of turns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import common
import numpy as np

CASES = ("gauss5", "gauss20", "gauss200", "logistic")
WARMUP, DRAWS, CHAINS = 500, 1000, 4
TURNS = 10


def gaussian(n: int) -> tuple[Any, Any, int]:
    """A loop of n real variables, as a model and as a function of a vector."""
    import credo

    rng = np.random.default_rng(0)
    precision, shift = np.diag(2.0 + rng.random(n)), rng.normal(size=n)
    for i in range(n):
        j = (i + 1) % n
        precision[i, j] = precision[j, i] = rng.uniform(-0.6, 0.6)
    return credo.GaussianNet(precision, shift), lambda x: -0.5 * x @ (precision @ x) + shift @ x, n


def logistic(rows: int = 200, n: int = 8) -> tuple[Any, Any, int]:
    """Logistic regression with a normal prior, as a model and as a function of a vector."""
    import jax.numpy as jnp

    import credo
    from credo import potentials

    rng = np.random.default_rng(0)
    x, truth = rng.normal(size=(rows, n)), rng.normal(size=n)
    sign = np.where(rng.random(rows) < 1 / (1 + np.exp(-x @ truth)), 1.0, -1.0)

    def fits(*weights: Any) -> Any:
        score = sum(w[..., None] * x[:, i] for i, w in enumerate(weights))
        return -jnp.logaddexp(0.0, -sign * score).sum(-1)

    variables = [credo.Variable(f"w{i}", credo.Real()) for i in range(n)]
    priors = [potentials.gaussian(v, 0.0, 1.0) for v in variables]
    model = credo.HybridNet(variables, [credo.DensityFactor(variables, fits), *priors])
    return model, lambda w: fits(*w) - 0.5 * w @ w, n


def laid_out(model: Any) -> Callable[[Any], Any]:
    """The log density that credo's samplers call."""
    import jax
    import jax.numpy as jnp

    from credo.core.log_density import LogDensity, log_density
    from credo.inference.problem.starting_places import starting_places

    graph = model.to_factor_graph()
    places = starting_places(graph)
    density = LogDensity.of(graph, places.centre, places.scale)
    arrays = jax.tree.map(jnp.asarray, density.arrays)
    return lambda u: log_density(u, arrays, density.shape)


def direct(density: Callable[[Any], Any], n: int) -> Callable[[int], Any]:
    """Chains by blackjax alone, compiled: draws (chains, draws, n) of a seed."""
    import blackjax
    import jax

    def chain(key: Any, start: Any) -> Any:
        first, second = jax.random.split(key)
        tuning = blackjax.window_adaptation(blackjax.nuts, density)
        (state, found), _ = tuning.run(first, start, num_steps=WARMUP)
        step = blackjax.nuts(density, **found).step

        def one(state: Any, key: Any) -> Any:
            state, _ = step(key, state)
            return state, state.position

        return jax.lax.scan(one, state, jax.random.split(second, DRAWS))[1]

    def run(seed: int) -> Any:
        keys = jax.random.split(jax.random.PRNGKey(seed), CHAINS + 1)
        starts = 2 * jax.random.normal(keys[0], (CHAINS, n))
        return np.asarray(chains(keys[1:], starts))

    chains = jax.jit(jax.vmap(chain))
    return run


def work(task: dict[str, Any]) -> dict[str, Any]:
    import jax

    import credo

    jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]  # credo samples in double precision
    case = task["case"]
    model, density, n = logistic() if case == "logistic" else gaussian(int(case.removeprefix("gauss")))
    method = f"nuts(chains={CHAINS}, warmup={WARMUP}, draws={DRAWS})"
    sides = {
        "credo": lambda seed: credo.infer(model, method, seed=seed),
        "direct": direct(density, n),
        "laid out": direct(laid_out(model), n),
    }
    compiling = {name: _cpu(call, 0)[0] for name, call in sides.items()}
    best: dict[str, float] = {}
    for turn in range(1, TURNS + 1):
        for name, call in sides.items():
            spent, value = _cpu(call, turn)
            best[name] = min(spent, best.get(name, np.inf))
            if name == "credo":
                status, effective = value.status.value, float(value.diagnostics["ess"].min())
    return {"first": compiling, "cpu": best, "status": status, "effective": effective}


def _cpu(call: Callable[[int], Any], seed: int) -> tuple[float, Any]:
    began = time.process_time()
    value = call(seed)
    return time.process_time() - began, value


def shown(answer: dict[str, Any]) -> str:
    cpu = answer["cpu"]
    sides = [f"{name} {common.number(s)} ({cpu['credo'] / s:.2f})" for name, s in cpu.items()]
    return f"{', '.join(sides)}; {answer['status']}, effective draws {answer['effective']:.0f} or more"


if __name__ == "__main__":
    if "--child" in sys.argv:
        common.child(work)
    else:
        common.side_by_side(__file__, __doc__.splitlines()[0], CASES, ("nuts",), shown, 600.0)
