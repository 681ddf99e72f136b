"""What exact inference refuses, and in which words."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import credo
from credo import FactorGraph, datasets
from credo.core import machine
from credo.core.errors import (
    ConvergenceWarning,
    CredoError,
    OptionError,
    QueryError,
    TooLargeError,
    UnsupportedError,
)
from credo.inference.exact.junction_tree import forecast
from credo.inference.problem import tree as tree_module
from credo.inference.problem.base import algorithms
from credo.inference.problem.tree import Forecast, Limits

# A module that is first imported while a function is replaced would keep the replacement for good.
for _name in algorithms.names():
    algorithms.get(_name)

METHODS = ["junction-tree", "junction-tree(propagation=hugin)", "elimination"]


def grid(n, states=2):
    at = np.arange(n * n).reshape(n, n)
    across = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    down = np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)
    pairs = np.concatenate([across, down])
    return FactorGraph.from_arrays(np.full(n * n, states), (pairs, np.eye(states) + 1))


def with_options(method, **options):
    name, _, rest = method.partition("(")
    parts = [rest.rstrip(")")] if rest else []
    return f"{name}({','.join(parts + [f'{k}={v}' for k, v in options.items()])})"


@pytest.mark.parametrize("method", METHODS)
def test_a_forty_gigabyte_junction_tree_is_refused_before_anything_is_allocated(method, monkeypatch):
    monkeypatch.setattr(tree_module, "machine_gigabytes", lambda: 64.0)
    allocated = []
    monkeypatch.setattr(tree_module, "climb", lambda *a, **k: allocated.append(a))
    with pytest.raises(TooLargeError) as refusal:
        credo.infer(grid(31), with_options(method, effort=0))
    found = re.search(r"needs width (\d+), ([\d.e+]+) GB, 2\^([\d.]+) operations", str(refusal.value))
    width, gigabytes, operations = (float(x) for x in found.groups())
    assert 31 <= width <= 60
    assert gigabytes > 40
    assert operations > 33
    assert "more than the limit of 32 GB (option memory_gb)" in str(refusal.value)
    assert not allocated


@pytest.mark.parametrize("method", METHODS)
def test_the_memory_limit_is_an_option(method):
    with pytest.raises(
        TooLargeError, match=r"needs width \d+, .*: more than the limit of 1e-06 GB \(option memory_gb\)"
    ):
        credo.infer(grid(8), with_options(method, memory_gb=1e-6))
    assert credo.infer(grid(8), with_options(method, memory_gb=1.0)).converged


@pytest.mark.parametrize("method", METHODS)
def test_the_number_of_operations_is_an_option(method):
    says = r"more than the limit of 2\^5 operations \(option max_log2_operations\)"
    with pytest.raises(TooLargeError, match=says):
        credo.infer(grid(6), with_options(method, max_log2_operations=5))


def test_the_default_limit_is_half_of_the_memory(monkeypatch):
    monkeypatch.setattr(tree_module, "machine_gigabytes", lambda: 1e-5)
    with pytest.raises(TooLargeError, match=r"more than the limit of 5e-06 GB"):
        credo.infer(grid(8), "junction-tree")


def test_a_machine_that_does_not_tell_its_memory_is_taken_for_a_modest_one(monkeypatch):
    assert machine.machine_gigabytes() > 0.1

    def unknown(name):
        raise ValueError(name)

    monkeypatch.setattr(machine.os, "sysconf", unknown)
    assert machine.machine_gigabytes() == 8.0


def test_too_large_is_a_credo_error_and_a_memory_error():
    assert issubclass(TooLargeError, CredoError)
    assert issubclass(TooLargeError, MemoryError)
    assert issubclass(TooLargeError, UnsupportedError)
    with pytest.raises(MemoryError):
        credo.infer(grid(30), "junction-tree(effort=0,memory_gb=0.01)")


@pytest.mark.parametrize("maximise", ["all", ["x0", "x1"]], ids=["max", "some"])
def test_maxima_are_refused_like_sums(maximise):
    with pytest.raises(TooLargeError, match="exact inference needs width"):
        credo.infer(grid(45), "junction-tree(effort=0)", maximise=maximise)


def test_queries_and_samples_are_refused_like_marginals():
    wide = grid(45)
    for ask in (
        lambda: credo.query(wide, ["x0", "x77"], method="junction-tree(effort=0)"),
        lambda: credo.query(wide, "x0", method="elimination(effort=0)"),
        lambda: credo.sample(wide, 3, method="junction-tree(effort=0)"),
    ):
        with pytest.raises(TooLargeError, match=r"exact inference needs width \d+, 2\^\d+ GB"):
            ask()


def test_marginal_map_may_be_too_wide_where_the_sum_is_not():
    # Summing over the centre of a star before its leaves are maximised joins all of them.
    n = 60
    scopes = np.stack([np.zeros(n, dtype=np.int64), np.arange(1, n + 1)], axis=1)
    star = FactorGraph.from_arrays(np.full(n + 1, 2), (scopes, np.eye(2) + 1))
    assert credo.infer(star, "junction-tree").converged
    with pytest.raises(TooLargeError, match="needs width 60"):
        credo.infer(star, "junction-tree(effort=0)", maximise=[f"x{i}" for i in range(1, n + 1)])


@pytest.mark.parametrize(
    ("task", "ask"),
    [
        ("sum", lambda method: credo.infer(grid(8), method)),
        ("max", lambda method: credo.infer(grid(8), method, maximise="all")),
        ("mixed", lambda method: credo.infer(grid(8), method, maximise=["x0", "x9"])),
        ("powered", lambda method: credo.infer(grid(8), method, temperatures={"x0": 0.5})),
        ("samples", lambda method: credo.sample(grid(8), 3, method=method, seed=0)),
    ],
)
@pytest.mark.filterwarnings("ignore::credo.core.errors.ConvergenceWarning")
def test_the_way_out_names_a_few_methods_and_each_answers_the_question(task, ask):
    with pytest.raises(TooLargeError) as refusal:
        ask("junction-tree(memory_gb=0)")
    names = re.findall(r"'([\w-]+)'", str(refusal.value).partition("an approximate method such as ")[2])
    assert 1 <= len(names) <= 6
    for name in names:
        assert "exact" not in algorithms.get(name).promises
        assert ask(name) is not None


def test_where_nothing_approximate_answers_the_way_out_says_so():
    says = r"no approximate method answers this \(joint tables\): raise the limit, or add evidence"
    with pytest.raises(TooLargeError, match=says):
        credo.query(grid(8), ["x0", "x63"], method="elimination(memory_gb=0)")


@pytest.mark.parametrize(
    ("log2_entries", "text"),
    [(3, "64 bytes"), (10, "8 kB"), (20, "8 MB"), (29.5, "5.66 GB"), (32.4, "42.2 GB"), (90, "2^63 GB")],
)
def test_sizes_are_written_for_people(log2_entries, text):
    assert str(Forecast(12, 8.0, log2_entries, 33.26)) == f"width 12, {text}, 2^33.3 operations"


def test_a_forecast_within_the_limits_is_not_refused():
    assert not Limits(1.0, 40.0).excess(Forecast(10, 10, 26.9, 39.9))
    assert "1 GB" in Limits(1.0, 40.0).excess(Forecast(10, 10, 27.1, 39.9))
    assert "2^40 operations" in Limits(1.0, 40.0).excess(Forecast(10, 10, 26.9, 40.1))
    assert Limits(1e30, 1e9).excess(Forecast(70, 63, 63, 64))  # no address reaches that far


def triples(n=24):
    """A wide model whose factors join three variables, some entries zero: not for every method."""
    rng = np.random.default_rng(0)
    scopes = [tuple(f"x{i}" for i in rng.choice(n, 3, replace=False)) for _ in range(4 * n)]
    tables = rng.uniform(0.1, 1, size=(len(scopes), 2, 2, 2)) * (
        rng.uniform(size=(len(scopes), 2, 2, 2)) > 0.05
    )
    return FactorGraph({f"x{i}": 2 for i in range(n)}, dict(zip(scopes, tables, strict=True)))


QUESTIONS = {
    "sum": {},
    "max": {"maximise": "all"},
    "mixed": {"maximise": ["x0"]},
    "powered": {"temperatures": {"x0": 0.5}},
}


@pytest.mark.parametrize("task", QUESTIONS)
@pytest.mark.parametrize("model", [grid(12), triples(), datasets.potts_grid(8, states=5, seed=0)], ids=repr)
def test_every_method_named_as_a_way_out_takes_the_question_on(task, model):
    with pytest.raises(TooLargeError) as refusal:
        credo.infer(model, "junction-tree(max_log2_operations=5)", **QUESTIONS[task])
    named = re.findall(r"'([a-z-]+)'", str(refusal.value))
    assert named
    for name in named:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert credo.infer(model, name, max_iter=2, seconds=0.3, seed=0, **QUESTIONS[task]).status


def test_samples_of_a_wide_model_have_a_way_out():
    with pytest.raises(TooLargeError, match=r"approximate method such as .*'gibbs'"):
        credo.sample(grid(60), 3)


def test_naming_a_way_out_does_not_look_at_the_factors_of_large_models(monkeypatch):
    asked = []
    monkeypatch.setattr("credo.core.factor_list.FactorList._make", lambda *of: asked.append(of))
    with pytest.raises(TooLargeError, match="such as 'bp'"):
        credo.infer(grid(60), "junction-tree")
    assert not asked


def test_methods_named_for_continuous_models_take_them_on():
    x, y = credo.Variable("x", credo.Real()), credo.Variable("y", 2)
    net = credo.HybridNet([x, y], [credo.GaussianFactor([x], [[1.0]]), credo.TableFactor([y], [1, 2])])
    for question in ({}, {"maximise": "all"}):
        with pytest.raises(UnsupportedError, match="works on discrete variables") as refusal:
            credo.infer(net, "bp", **question)
        named = re.findall(r"'([a-z-]+)'", str(refusal.value).partition("; use ")[2])
        assert named and "gaussian" not in named
        for name in named:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                assert credo.infer(net, name, max_iter=2, seed=0, **question).status


def test_the_forecast_of_a_model_can_be_asked_for():
    asia = forecast(datasets.asia())
    assert asia.width == 2
    assert asia.log2_largest == 3
    scopes = np.stack([np.zeros(9, dtype=np.int64), np.arange(1, 10)], axis=1)
    star = FactorGraph.from_arrays(np.full(10, 2), (scopes, np.eye(2) + 1))
    assert forecast(star).width == 1
    assert forecast(star, levels=np.minimum(np.arange(10), 1)).width == 9  # the centre goes first
    assert forecast(grid(60)).gigabytes > 1e9


@pytest.mark.parametrize("method", ["junction-tree", "elimination"])
def test_wrong_options_are_refused_in_a_sentence(method):
    graph = grid(2)
    with pytest.raises(OptionError, match="effort must be at least 0, got -1"):
        credo.infer(graph, f"{method}(effort=-1)")
    with pytest.raises(OptionError, match="memory_gb must be at least 0, got -2"):
        credo.infer(graph, f"{method}(memory_gb=-2)")


def test_unknown_propagation_is_refused():
    with pytest.raises(
        OptionError, match=r"propagation must be one of \['hugin', 'shafer-shenoy'\], got 'lazy'"
    ):
        credo.infer(grid(2), "junction-tree(propagation=lazy)")


def test_a_joint_table_too_large_to_enumerate_is_refused():
    with pytest.raises(OptionError, match="max_entries must be at least 1, got 0"):
        credo.infer(grid(2), "enumerate(max_entries=0)")
    says = r"the joint table has 2\^25.0 entries, more than max_entries=4194304"
    with pytest.raises(UnsupportedError, match=says):
        credo.infer(grid(5), "enumerate")
    assert credo.infer(grid(3), "enumerate(max_entries=512)").converged


def test_what_a_method_does_not_do_is_said():
    graph = grid(2)
    hugin = "junction-tree(propagation=hugin)"
    says = "Hugin propagation gives marginals and log Z; use propagation=shafer-shenoy"
    for ask in (
        lambda: credo.infer(graph, hugin, maximise="all"),
        lambda: credo.query(graph, "x0", method=hugin),
        lambda: credo.sample(graph, 1, method=hugin),
    ):
        with pytest.raises(UnsupportedError, match=says):
            ask()
    with pytest.raises(
        UnsupportedError, match=r"it gives .* joint tables, and the question asks for samples"
    ):
        credo.sample(graph, 1, method="elimination")


def test_questions_that_make_no_sense_are_refused():
    graph = grid(2)
    with pytest.raises(QueryError, match=r"query: a variable is named twice in \['x0', 'x0'\]"):
        credo.query(graph, ["x0", "x0"])
    with pytest.raises(QueryError, match=r"query: a variable is named twice"):
        credo.query(graph, "x0", given="x0")
    with pytest.raises(QueryError, match="maximise: expected 'all' or a list of names, got 'x0'"):
        credo.infer(graph, "junction-tree", maximise="x0")
    with pytest.raises(QueryError, match="order: expected each of the 4 variables once, got 1 names"):
        credo.infer(graph, "junction-tree", order=["x0"])


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda m: credo.infer(m, maximise=None), "list of names"),
        (lambda m: credo.infer(m, order=5), "list of names"),
        (lambda m: credo.infer(m, temperatures=[1, 2]), "temperatures: expected a mapping"),
        (lambda m: credo.infer_models(m, "bp"), "expected a list of models"),
        (lambda m: credo.query(m, 5), "name or a list of names"),
        (lambda m: credo.query(m, []), "at least one variable"),
    ],
)
def test_arguments_of_the_wrong_kind_get_a_sentence(call, what):
    with pytest.raises(QueryError, match=what):
        call(credo.datasets.sprinkler())
