"""Calls that are nearly right get the sentence with the right one."""

from __future__ import annotations

import inspect
import re
import warnings

import pytest

import credo
from credo.core.errors import ConvergenceWarning, OptionError, QueryError
from credo.inference.messages.bp import BP

MODEL = credo.FactorGraph({"a": 2, "b": 2}, {("a", "b"): [[1, 2], [3, 4]]})


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (
            lambda: credo.infer(MODEL, {"a": 1}),
            QueryError,
            "method: expected a name or an Algorithm, got {'a': 1}; if this is evidence, "
            "write infer(..., evidence={'a': 1})",
        ),
        (
            lambda: credo.infer(MODEL, method={"a": 1}),
            QueryError,
            "if this is evidence, write infer(..., evidence={'a': 1})",
        ),
        (
            lambda: credo.infer(MODEL, "bp", {"a": 1}),
            QueryError,
            "infer takes model and method by position and all else by name, got 3 by position; "
            "write evidence={'a': 1}",
        ),
        (
            lambda: credo.sample(MODEL, 5, "gibbs"),
            QueryError,
            "sample takes model and count by position and all else by name, got 3 by position; "
            "write method='gibbs'",
        ),
        (
            lambda: credo.query(MODEL, "a", "b"),
            QueryError,
            "query takes model and variables by position and all else by name, got 3 by position; "
            "write the name of what 'b' is",
        ),
        (
            lambda: credo.infer(MODEL, maximize="all"),
            OptionError,
            "infer has no argument 'maximize'; did you mean 'maximise'?",
        ),
        (
            lambda: credo.infer(MODEL, Seed=3),
            OptionError,
            "infer has no argument 'Seed'; did you mean 'seed'?",
        ),
        (
            lambda: credo.infer(MODEL, "bp", damping=0.5),
            OptionError,
            "damping is an option of the method and no argument of infer: write 'bp(damping=0.5)'",
        ),
        (
            lambda: credo.infer(MODEL, "bp(damping_domain=linear)", damping=0.5, schedule="tree"),
            OptionError,
            "write 'bp(damping_domain=linear, damping=0.5, schedule=tree)'",
        ),
        (lambda: credo.infer(MODEL, BP(), damping=0.5), OptionError, "write BP(damping=0.5)"),
        (
            lambda: credo.query(MODEL, "a", method="junction-tree", effort=0),
            OptionError,
            "effort is an option of the method and no argument of query: write 'junction-tree(effort=0)'",
        ),
        (
            lambda: credo.sample(MODEL, 3, thinning=2),
            OptionError,
            "sample has no argument 'thinning'; it has ['count', 'evidence', 'method', 'seed', 'data', "
            "'lengths', 'mask', 'groups', 'columns'], and options of a method are written with its name, as "
            "in 'bp(damping=0.5)'",
        ),
        (lambda: credo.infer(MODEL, 7, thinning=2), OptionError, "infer has no argument 'thinning'"),
        (
            lambda: credo.infer(MODEL, "bp", nonsense=1),
            OptionError,
            "infer has no argument 'nonsense'; it has ['method', 'evidence', ",
        ),
        (
            lambda: credo.infer(MODEL, "bp(dampin=0.5)"),
            OptionError,
            "bp has no option 'dampin'; did you mean 'damping'",
        ),
        (
            lambda: credo.infer(MODEL, "Junction_Tree"),
            OptionError,
            "no algorithm named 'Junction_Tree'; did you mean 'junction-tree'? "
            f"`credo methods` lists all {len(credo.algorithms())}",
        ),
    ],
)
def test_a_call_that_is_nearly_right_gets_the_right_one(call, error, sentence):
    with pytest.raises(error, match=re.escape(sentence)):
        call()


def test_what_the_hints_tell_to_write_works():
    assert credo.infer(
        MODEL, "bp(damping_domain=linear, damping=0.5, schedule=tree)", evidence={"a": 1}
    ).log_z
    assert credo.infer(MODEL, maximise="all").assignment is not None


def test_the_signature_stays_readable():
    assert list(inspect.signature(credo.infer).parameters)[:3] == ["model", "method", "evidence"]
    assert (credo.infer.__doc__ or "").startswith("Answer a question about a model.")


def test_a_warning_points_at_the_line_that_called():
    grid = credo.datasets.ising_grid(4, coupling=2.0, seed=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        credo.infer(grid, "bp", max_iter=1)
        credo.sample(grid, 2, method="gibbs(warmup=1)", seed=0)
    assert caught and all(w.filename == __file__ for w in caught if w.category is ConvergenceWarning)
