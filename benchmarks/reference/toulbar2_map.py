"""One MAP problem by toulbar2 with its default options: python toulbar2_map.py MODEL EVIDENCE SECONDS.

Runs in an environment that has pytoulbar2 and needs nothing else. The last line is JSON: the states, how
far the bound is from their cost (natural logarithm), whether they are proven optimal, and the times of
solving without reading. Costs are rounded to 1e-7, the default; the limit is CPU time.
"""

import json
import sys
import time
from pathlib import Path

import pytoulbar2

DIGITS = 1e7  # cost units per natural logarithm


def main() -> None:
    """Read, solve, print."""
    model, evidence, seconds = sys.argv[1:]
    network = pytoulbar2.CFN()
    network.Read(model)
    words = [int(word) for word in Path(evidence).read_text().split()]
    for i, k in zip(words[1::2], words[2::2], strict=True):
        network.Assign(i, k)
    cpu, wall = time.process_time(), time.perf_counter()
    found = network.Solve(timeLimit=int(float(seconds)))
    spent = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    lower, upper = network.GetDDualBound(), network.GetUB()
    answer = {
        "states": None if found is None else [int(k) for k in found[0]],
        "gap": max(0.0, (upper - lower) / DIGITS),
        "proven": found is not None and lower >= upper,
        "nodes": network.GetNbNodes(),
        **spent,
    }
    print("\n" + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
