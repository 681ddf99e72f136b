"""BP on a binary grid with PGMax; runs in an environment of its own (PGMax needs JAX 0.4.26).

    python pgmax_grid.py model.npz tolerance

Prints one JSON object: seconds to import, to build, for the first call and for the best later one.
PGMax has no stopping rule, so the iterations that reach the tolerance are counted outside the clock.
"""

from __future__ import annotations

import json
import sys
import time


def main(file: str, tolerance: float) -> dict[str, float]:
    clock = time.perf_counter()
    import jax
    import numpy as np
    from pgmax import fgraph, fgroup, infer, vgroup

    imported = time.perf_counter() - clock
    data = np.load(file)
    scope, tables, unary = data["scope"], data["tables"], data["unary"]
    clock = time.perf_counter()
    variables = vgroup.NDVarArray(num_states=2, shape=(len(unary),))
    graph = fgraph.FactorGraph(variable_groups=variables)
    graph.add_factors(
        fgroup.PairwiseFactorGroup(
            variables_for_factors=[[variables[int(i)], variables[int(j)]] for i, j in scope],
            log_potential_matrix=tables,
        )
    )
    bp = infer.build_inferer(graph.bp_state, backend="bp")
    built = time.perf_counter() - clock
    evidence = {variables: np.asarray(unary)}

    def run(iterations: int, state: object) -> object:
        return bp.run(state, num_iters=iterations, damping=0.0, temperature=1.0)

    jitted = jax.jit(run, static_argnums=0)
    iterations = _iterations(jitted, bp, evidence, tolerance)
    first = _seconds(jax.jit(lambda state: run(iterations, state)), bp, evidence)
    best = min(_seconds(lambda state: jitted(iterations, state), bp, evidence) for _ in range(10))
    return {"import": imported, "build": built, "first": first, "wall": best, "iterations": iterations}


def _iterations(jitted: object, bp: object, evidence: dict, tolerance: float) -> int:
    import numpy as np

    state, old = bp.init(evidence_updates=evidence), None
    for step in range(1, 2000):
        state = jitted(1, state)
        new = np.tanh(np.asarray(state.ftov_msgs, dtype=float).reshape(-1, 2) @ [0.5, -0.5]) / 2
        if old is not None and np.abs(new - old).max() < tolerance:
            return step
        old = new
    return 2000


def _seconds(call: object, bp: object, evidence: dict) -> float:
    state = bp.init(evidence_updates=evidence)
    clock = time.perf_counter()
    call(state).ftov_msgs.block_until_ready()
    return time.perf_counter() - clock


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], float(sys.argv[2]))))
