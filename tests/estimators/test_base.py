"""What all estimators share."""

from __future__ import annotations

import re

import numpy as np
import pytest

from credo.core.errors import OptionError
from credo.estimators import ChainCRF, Estimator
from markup import cells


class Scale(Estimator):
    """Divides by the largest entry."""

    def __init__(self, floor: float = 1.0, note: str = "") -> None:
        self.floor, self.note = floor, note

    def fit(self, X):
        self.scale_ = np.maximum(np.abs(X).max(axis=0), self.floor)
        self.table_ = np.ones((3, 4))
        return self


def test_an_estimator_prints_the_options_that_were_given():
    assert repr(Scale()) == "Scale()" and repr(Scale(note="x")) == "Scale(note='x')"


def test_notebooks_show_options_and_what_was_learned():
    new = Scale(note="<b>")
    assert cells(new._repr_html_()) == ["option", "value", "floor", "1.0", "note", "'<b>'"]
    found = cells(new.fit([[2.0, -5.0]])._repr_html_())
    assert found[6:] == ["learned", "value", "scale_", "[2. 5.]", "table_", "array of shape (3, 4)"]


def test_the_estimators_of_the_library_show_their_options():
    shown = cells(ChainCRF(max_iter=7)._repr_html_())
    assert shown[shown.index("max_iter") + 1] == "7"


def test_an_unknown_option_is_refused():
    message = "Scale has no option 'top'; its options are ['floor', 'note']"
    with pytest.raises(OptionError, match=re.escape(message)):
        Scale().set_params(top=1)
