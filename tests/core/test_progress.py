"""Progress bars: on a terminal or in a notebook, after a while, and nowhere else."""

from __future__ import annotations

import io
import sys
from types import ModuleType

import numpy as np
import pytest

import credo
from credo import FactorGraph
from credo.core import progress
from credo.core.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is moved."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    return now


@pytest.fixture
def bars(monkeypatch):
    """What is asked of Rich's bars, without drawing."""
    said = []

    class Bar:
        def __init__(self, **options):
            said.append(("made", options["transient"]))

        def start(self):
            said.append(("start",))

        def add_task(self, label, total):
            said.append(("task", label, total))
            return 7

        def update(self, task, completed, description):
            said.append(("update", task, completed, description))

        def stop(self):
            said.append(("stop",))

    monkeypatch.setattr("rich.progress.Progress", Bar)
    return said


class KernelStream(io.StringIO):
    """What a notebook's kernel puts in the place of standard error."""

    __module__ = "ipykernel.iostream"


@pytest.fixture
def notebook(monkeypatch):
    """What a notebook is asked to show, first and later."""
    shown = []

    class Handle:
        def update(self, bundle, raw):
            shown.append(("update", bundle, raw))

    def display(bundle, raw, display_id):
        shown.append(("display", bundle, raw, display_id))
        return Handle()

    package, module = ModuleType("IPython"), ModuleType("IPython.display")
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return shown


def test_nothing_is_drawn_without_a_terminal(clock, bars, monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    with Progress("bp", 10) as bar:
        clock[0] += 60
        bar.update(5, "change 1e-3")
    assert bars == []
    assert out.getvalue() == ""


def test_short_work_draws_nothing_on_a_terminal_either(clock, bars, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress("bp", 10) as bar:
        clock[0] += 1.9
        bar.update(5)
    assert bars == []


def test_a_bar_opens_after_two_seconds_and_closes_with_the_work(clock, bars, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress("bp", 10) as bar:
        bar.update(1)
        clock[0] += 2.1
        bar.update(5, "change 1.0e-03")
        bar.update(6)
    assert bars == [
        ("made", True),
        ("start",),
        ("task", "bp", 10),
        ("update", 7, 5, "bp change 1.0e-03"),
        ("update", 7, 6, "bp"),
        ("stop",),
    ]


def test_a_bar_is_closed_when_the_work_fails(clock, bars, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(RuntimeError, match="broken"), Progress("bp", None) as bar:
        clock[0] += 3
        bar.update(1)
        raise RuntimeError("broken")
    assert bars[-1] == ("stop",)


def test_a_real_bar_is_drawn_and_wiped(clock, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with Progress("bp", 10) as bar:
        clock[0] += 3
        bar.update(5, "change 1.0e-03")
    assert "bp" in terminal.getvalue()


def test_a_long_run_reports_its_residual(bars, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(progress, "_PATIENCE", -1.0)
    rng = np.random.default_rng(0)
    pairs = np.array([[0, 1], [1, 2], [2, 0]])
    graph = FactorGraph.from_arrays(np.full(3, 2), (pairs, rng.standard_normal((3, 2, 2))), log=True)
    credo.infer(graph, "bp")
    updates = [entry for entry in bars if entry[0] == "update"]
    assert updates
    assert updates[-1][3].startswith("bp residual ")
    bars.clear()
    credo.infer_many(graph, [{"x0": 0}, {"x0": 1}], "junction-tree")
    assert ("update", 7, 2, "junction-tree") in bars


def test_a_notebook_shows_one_output_that_changes_and_is_empty_at_the_end(clock, bars, notebook, monkeypatch):
    monkeypatch.setattr(sys, "stderr", KernelStream())
    with Progress("bp", 8) as bar:
        clock[0] += 1.5
        bar.update(1)
        clock[0] += 1.5
        bar.update(4, "change < 1e-3")
        clock[0] += 0.1
        bar.update(5)  # too soon after the last one
        clock[0] += 0.2
        bar.update(6)
    (first, *between, last) = notebook
    assert first == ("display", {"text/plain": "bp"}, True, True)
    assert [bundle["text/plain"] for _, bundle, _ in between] == [
        f"bp change < 1e-3  |{'█' * 15}{' ' * 15}| 50%  3 s",
        f"bp  |{'█' * 22}{' ' * 8}| 75%  3 s",
    ]
    assert between[0][1]["text/html"] == (
        '<progress max="1" value="0.5000"></progress> bp change &lt; 1e-3 50% 3 s'
    )
    assert last == ("update", {"text/plain": "", "text/html": ""}, True)
    assert bars == []
    assert sys.stderr.getvalue() == ""


def test_a_notebook_is_told_the_time_where_no_end_is_known(clock, notebook, monkeypatch):
    monkeypatch.setattr(sys, "stderr", KernelStream())
    with Progress("gibbs", None) as bar:
        clock[0] += 65
        bar.update(1234)
    assert notebook[1][1] == {"text/plain": "gibbs  65 s", "text/html": "<progress></progress> gibbs 65 s"}


def test_a_notebook_whose_standard_error_is_redirected_shows_nothing(clock, notebook, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with Progress("bp", 10) as bar:
        clock[0] += 60
        bar.update(5)
    assert notebook == []


def test_a_bar_inside_another_stays_silent(clock, notebook, monkeypatch):
    monkeypatch.setattr(sys, "stderr", KernelStream())
    with Progress("outer", 2) as outer, Progress("inner", 5) as inner:
        clock[0] += 10
        inner.update(3)
        assert notebook == []
        outer.update(1)
    assert len(notebook) == 3
    assert all("inner" not in bundle["text/plain"] for _, bundle, *_ in notebook)
