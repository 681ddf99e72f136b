"""Ctrl-C and SIGTERM at any moment give an answer, or the sentence that there is none yet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def lines(moments: int, seed: int, *parts: str) -> list[str]:
    script = Path(__file__).parents[1] / "interrupts.py"
    command = [sys.executable, str(script), str(moments), str(seed), *parts]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1500)
    return found.stdout.splitlines()


def test_every_method_and_learner_answers_signals():
    told = lines(1, 0, "interpreted")
    assert len(told) > 70 and not [line for line in told if "LOST" in line]
    for name in ("SIGINT", "SIGTERM"):
        assert sum(name in line and "answer: interrupted" in line for line in told) > 10


@pytest.mark.parametrize(
    "part, least",
    [pytest.param("compiled", 10, marks=pytest.mark.slow), ("quickly compiled", 2), ("own", 7)],
)
def test_compiled_methods_and_learners_with_calls_of_their_own_answer_signals(part, least):
    told = lines(1, 0, part)
    assert len(told) >= least and not [line for line in told if "LOST" in line or "refused" in line]
    assert sum("answer: interrupted" in line for line in told) >= least // 2


@pytest.mark.slow
def test_every_method_and_learner_answers_signals_at_many_moments():
    assert not [line for line in lines(8, 1) if "LOST" in line]
