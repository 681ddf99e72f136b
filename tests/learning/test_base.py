"""The table of learners says what the learners are."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import credo
import credo.learning
from credo.core.errors import OptionError
from credo.core.registry import Entry, summary_of
from credo.learning import LEARNERS
from credo.learning.base import learners
from markup import cells, read


@pytest.mark.parametrize("name", list(LEARNERS))
def test_the_entry_of_a_learner_is_what_its_class_says(name):
    cls = learners.get(name)
    assert cls.name == name
    assert LEARNERS[name] == Entry(cls.__module__, summary_of(cls))


def test_every_registered_learner_of_this_package_has_an_entry():
    for module in pkgutil.iter_modules(credo.learning.__path__, "credo.learning."):
        importlib.import_module(module.name)
    own = {n for n, cls in learners._classes.items() if cls.__module__.startswith("credo.")}
    assert own == set(LEARNERS)


def test_a_misspelt_learner_gets_its_near_miss():
    with pytest.raises(OptionError, match=r"^no learner named 'Contrastive'; did you mean 'contrastive-"):
        learners.resolve("Contrastive")


def test_a_fit_shows_the_run_and_the_model_with_its_variables():
    start = credo.MarkovNet({"a<b": ["lo", "hi"], "c": 2}, {("a<b", "c"): [[1, 1], [1, 1]]})
    fit = credo.fit(start, {"a<b": [0, 0, 0, 1], "c": [0, 0, 1, 1]}, validation=0.25, seed=0)
    lines = repr(fit).splitlines()
    assert lines[0].startswith("likelihood: converged (") and lines[4] == "MarkovNet(2 variables, 1 factors)"
    assert lines[1].startswith("objective ") and lines[2].startswith("log-likelihood -")
    assert lines[3].startswith("validation -")
    html = fit._repr_html_()
    assert [text for tag, _, text in read(html) if tag == "div"] == lines
    assert cells(html)[3:6] == ["a<b", "lo, hi", "1"]
