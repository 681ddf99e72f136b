"""The scripts of `examples` run with what they say they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
# A module that is None cannot be imported: as if the extras `neural` and `data` were absent.
WITHOUT = "import sys; sys.modules.update(dict.fromkeys(['jax', 'pandas', 'equinox', 'optax', 'blackjax']))"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    code = f"{WITHOUT}; import runpy; runpy.run_path({str(EXAMPLES / 'demo.py')!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=300, check=True
    )
    return folder, done.stdout


def test_the_demo_needs_no_extra_but_plot_and_draws_its_pictures(demo):
    folder, _ = demo
    for name in ("heating.png", "faults.png"):
        assert (folder / "out" / name).read_bytes().startswith(b"\x89PNG")


def test_the_demo_compares_methods_that_answer(demo):
    _, shown = demo
    assert "refused" not in shown
    rows = [line.split() for line in shown.splitlines() if line.startswith("   ") and "e" in line]
    assert {"junction-tree", "bp", "trw"} <= {row[0] for row in rows}


def test_the_demo_finds_the_leak(demo):
    _, shown = demo
    assert "refrigerant_leak is at fault" in shown


def test_the_picture_of_the_first_page_is_small_enough():
    assert (EXAMPLES.parent / "docs" / "images" / "asia.png").stat().st_size < 150_000
