"""What the steps of learners have in common."""

from __future__ import annotations

import numpy as np
import pytest

from credo.learning.runs import arrays, completed, including, with_start
from credo.optimise.run import Budget, check, current_run


def test_the_start_is_one_more_step():
    assert with_start(Budget(max_iter=0)).max_iter == 1


@pytest.mark.parametrize("tol", [0.0, 1e-6, 2.0])
def test_a_residual_of_exactly_tol_counts_as_none_and_nothing_above_does(tol):
    wider = including(Budget(tol=tol)).tol
    assert tol < wider and not np.nextafter(tol, np.inf) < wider


def test_curves_that_were_never_recorded_are_empty():
    found = arrays({"a": [1.0, 2.0], "other": [3.0]}, ["a", "b"])
    assert set(found) == {"a", "b"} and found["a"].tolist() == [1.0, 2.0] and len(found["b"]) == 0


def test_an_answer_is_completed_unless_somebody_stops_the_work():
    assert completed(1, lambda found: found + 1) == 2

    def stopped(found):
        current_run().root.note(2)
        check()
        return found + 1

    assert completed(1, stopped) == 1
