"""BP with PGMax; runs in an environment of its own (PGMax needs JAX 0.4.26).

    python pgmax_bp.py model.npz tolerance

Prints one JSON object: seconds to import, to build, for the first call and for the best later one: CPU and
wall time from the evidence to the marginals, and CPU time of the message loop alone. PGMax has no stopping
rule, so the iterations that reach the tolerance are counted outside the clock; it runs on one core.
Pairwise factors are its pairwise ones; wider ones list the configurations that are possible in any of them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

LIMIT = 2000  # iterations
REPEATS = 10
PATIENCE = 60.0  # wall seconds for the repeats


def main(file: str, tolerance: float) -> dict[str, Any]:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before JAX counts the cores
    clock = time.perf_counter()
    import jax
    import numpy as np
    from pgmax import infer, vgroup

    imported = time.perf_counter() - clock
    data = np.load(file)
    unary = data["unary"]
    clock = time.perf_counter()
    variables = vgroup.NDVarArray(num_states=unary.shape[1], shape=(len(unary),))
    graph = _graph(variables, data["scope"], data["tables"])
    bp = infer.build_inferer(graph.bp_state, backend="bp")
    built = time.perf_counter() - clock
    evidence = {variables: np.asarray(unary)}

    def run(iterations: int, state: object) -> object:
        return bp.run(state, num_iters=iterations, damping=0.0, temperature=1.0)

    jitted = jax.jit(run, static_argnums=0)
    iterations, reached = _iterations(jitted, bp, evidence, unary.shape[1], tolerance)
    first = _seconds(jax.jit(lambda state: run(iterations, state)), bp, evidence)[1]
    _seconds(lambda state: jitted(iterations, state), bp, evidence)
    started, times = time.perf_counter(), []
    while not times or (len(times) < REPEATS and time.perf_counter() - started < PATIENCE):
        times.append(_seconds(lambda state: jitted(iterations, state), bp, evidence))
    cpu, wall, loop = map(min, zip(*times, strict=True))
    spent = {"import": imported, "build": built, "first": first, "cpu": cpu, "wall": wall, "loop": loop}
    return {**spent, "iterations": iterations, "reached": reached}


def _graph(variables: Any, scope: Any, tables: Any) -> Any:
    import numpy as np
    from pgmax import fgraph, fgroup

    graph = fgraph.FactorGraph(variable_groups=variables)
    members = [[variables[i] for i in row] for row in scope.tolist()]
    if scope.shape[1] == 2:
        group = fgroup.PairwiseFactorBatch(variables_for_factors=members, log_potential_matrix=tables)
    else:
        possible = np.argwhere((tables > -np.inf).any(axis=0))
        entries = tables[(slice(None), *possible.T)]
        group = fgroup.EnumFactorBatch(
            variables_for_factors=members, factor_configs=possible, log_potentials=entries
        )
    graph.add_factors(group)
    return graph


def _iterations(jitted: Any, bp: Any, evidence: dict, states: int, tolerance: float) -> tuple[int, bool]:
    """Iterations until no probability in a message changes by the tolerance, and whether that came."""
    import numpy as np

    state, old = bp.init(evidence_updates=evidence), None
    for step in range(1, LIMIT + 1):
        state = jitted(1, state)
        logs = np.asarray(state.ftov_msgs, dtype=float).reshape(-1, states)
        new = np.exp(logs - logs.max(axis=1, keepdims=True))
        new /= new.sum(axis=1, keepdims=True)
        if old is not None and np.abs(new - old).max() < tolerance:
            return step, True
        old = new
    return LIMIT, False


def _seconds(call: Any, bp: Any, evidence: dict) -> tuple[float, float, float]:
    """CPU and wall seconds from the evidence to the marginals, and CPU seconds of the messages alone."""
    from pgmax import infer

    cpu, wall = time.process_time(), time.perf_counter()
    state = bp.init(evidence_updates=evidence)
    state.evidence.block_until_ready()
    before = time.process_time()
    state = call(state)
    state.ftov_msgs.block_until_ready()
    loop = time.process_time() - before
    for marginals in infer.get_marginals(bp.get_beliefs(state)).values():
        marginals.block_until_ready()
    return time.process_time() - cpu, time.perf_counter() - wall, loop


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], float(sys.argv[2]))))
