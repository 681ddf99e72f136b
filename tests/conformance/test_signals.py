"""Ctrl-C at any moment gives an answer, or the sentence that there is none yet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def lines(moments: int, seed: int) -> list[str]:
    script = Path(__file__).parents[1] / "interrupts.py"
    command = [sys.executable, str(script), str(moments), str(seed)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1500)
    return found.stdout.splitlines()


def test_every_method_answers_ctrl_c():
    told = lines(1, 0)
    assert len(told) > 40 and not [line for line in told if "LOST" in line]
    assert sum("answer: interrupted" in line for line in told) > 10


@pytest.mark.slow
def test_every_method_answers_ctrl_c_at_many_moments():
    assert not [line for line in lines(8, 1) if "LOST" in line]
