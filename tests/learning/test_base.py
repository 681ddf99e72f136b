"""The table of learners says what the learners are."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import credo.learning
from credo.core.errors import OptionError
from credo.core.registry import Entry, summary_of
from credo.learning import LEARNERS
from credo.learning.base import learners


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
