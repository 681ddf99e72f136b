"""What the steps of learners have in common."""

from __future__ import annotations

from credo.learning.runs import arrays, completed
from credo.optimise.run import check, current_run


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
