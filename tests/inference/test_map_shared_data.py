"""MAP methods on public models (UAI 2014): bounds above the reference, proofs that agree with it.

The models lie beside the repository and are never part of it; without them everything here is skipped.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import credo
from credo.core.result import Status
from credo.io.uai_results import read_answer, read_evidence

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "uai14" / "MAP"

pytestmark = [
    pytest.mark.skipif(not FOLDER.is_dir(), reason="no shared data beside the repository"),
    pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning"),
]

NAMES = sorted(p.name.removesuffix(".uai.gz") for p in FOLDER.glob("*.uai.gz"))


def load(name):
    model = credo.load(FOLDER / f"{name}.uai.gz")
    evidence = read_evidence(FOLDER / f"{name}.uai.evid", model.variables)
    answer = read_answer(FOLDER / f"{name}.uai.MAP").states
    states = np.array([answer[i] for i in range(len(model.variables))], dtype=np.int64)
    return model, evidence, float(model.to_factor_graph().log_scores(states[None, :])[0])


@pytest.mark.parametrize("name", NAMES)
def test_the_bound_is_above_the_reference_states(name):
    model, evidence, reference = load(name)
    found = credo.infer(model, "dual-decomposition", evidence=evidence, maximise="all", max_iter=3)
    assert found.log_z.value >= reference - 1e-6 * max(1.0, abs(reference))
    assert found.score.value <= found.log_z.value + 1e-6 * abs(found.log_z.value)


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith(("Segmentation", "ImageAlignment"))])
def test_easy_vision_models_are_proven_optimal(name):
    model, evidence, reference = load(name)
    found = credo.infer(model, "dual-decomposition", evidence=evidence, maximise="all")
    assert found.status is Status.OPTIMAL
    assert found.score.value >= reference - 1e-6 * abs(reference)
