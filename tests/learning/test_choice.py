"""The learner of a task when none is named, and options given to the call."""

from __future__ import annotations

import numpy as np
import pytest

import credo
from credo.core.errors import OptionError, UnsupportedError

NET = credo.datasets.sprinkler()
ROWS = credo.sample(NET, 200, seed=0)


def columns(*names):
    frame = ROWS.to_frame()
    return {name: frame[name].tolist() for name in names or frame.columns}


def test_complete_rows_of_a_network_are_counted():
    found = credo.fit(NET, columns())
    assert found.learner == "counts"
    assert found.notes[0].startswith("counts was chosen: the data are complete")


def test_a_hidden_or_missing_value_is_learned_by_em():
    data = columns()
    data["rain"][0] = None
    found = credo.fit(NET, data)
    assert found.learner == "em" and "hidden or missing" in found.notes[0]


def test_weights_are_learned_by_their_likelihood():
    net = credo.MarkovNet({"a": 2, "b": 2}, {("a", "b"): [[1, 1], [1, 1]]})
    found = credo.fit(net, {"a": [0, 0, 0, 1], "b": [0, 0, 1, 1]})
    assert found.learner == "likelihood" and found.notes[0].startswith("likelihood was chosen")


def test_a_run_that_is_to_be_kept_goes_to_a_learner_that_keeps_it(tmp_path):
    found = credo.fit(NET, columns(), checkpoint=tmp_path / "run.ckpt")
    assert found.notes[0] == "em was chosen: its runs can be kept, those of counts cannot"
    np.testing.assert_allclose(found.model.flat_tables, credo.fit(NET, columns()).model.flat_tables)


def test_a_named_learner_is_not_commented_on():
    assert not credo.fit(NET, columns(), "counts").notes


def test_what_no_learner_can_treat_is_refused_with_all_reasons():
    class Own:
        def to_factor_graph(self):
            return NET.to_factor_graph()

    with pytest.raises(UnsupportedError, match=r"no learner can treat this Own: counts: .*em: "):
        credo.fit(Own(), columns())


def test_options_of_the_call_are_those_of_the_learner():
    given = credo.fit(NET, columns(), prior="bdeu(size=10)")
    inside = credo.fit(NET, columns(), "counts(prior=bdeu(size=10))")
    assert given.learner == inside.learner
    assert np.array_equal(given.model.flat_tables, inside.model.flat_tables)


def test_an_option_that_the_learner_does_not_have_is_refused_with_those_that_do():
    with pytest.raises(OptionError, match=r"counts has no option 'restarts'; .*\['blocks', 'em'"):
        credo.fit(NET, columns(), "counts", restarts=3)


def test_a_fit_goes_on_with_its_learner():
    data = columns()
    data["rain"][:50] = [None] * 50
    with pytest.warns(credo.core.errors.ConvergenceWarning):
        first = credo.fit(NET, data, "em", max_iter=2, tol=1e-9)
    second = credo.fit(first, data, tol=1e-9)
    whole = credo.fit(NET, data, "em", tol=1e-9)
    assert second.learner == "em" and second.objective[0] == pytest.approx(first.objective[-1], abs=1e-12)
    assert second.objective[-1] == pytest.approx(whole.objective[-1], abs=1e-9)
