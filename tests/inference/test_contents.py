"""The tables of contents say what the algorithms are, and importing them imports no algorithm."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from typing import ClassVar

import pytest

import credo.inference
from credo.inference.portfolio.question import Question
from credo.inference.problem.base import Algorithm, algorithms, register
from credo.inference.problem.contents import FAMILIES, TASKS, Method, family_title, methods
from credo.inference.problem.simplest import accepts, method_of


@pytest.mark.parametrize("name", list(methods()))
def test_the_entry_of_an_algorithm_is_what_its_class_says_and_accepts(name):
    cls = algorithms.get(name)
    assert cls.name == name
    assert methods()[name] == method_of(cls)


@pytest.mark.parametrize("name", list(methods()))
def test_what_an_algorithm_answers_it_answers_on_every_domain_it_reads(name):
    entry, algorithm = methods()[name], algorithms.resolve(name)
    assert entry.answers and entry.reads
    for domain in entry.reads:
        possible = [task for task in entry.answers if domain == "discrete" or task != "query"]
        assert accepts(algorithm, domain) == possible  # joint tables are of states


def test_every_registered_class_of_this_package_has_an_entry():
    for module in pkgutil.walk_packages(credo.inference.__path__, "credo.inference."):
        importlib.import_module(module.name)
    own = {n for n, cls in algorithms._classes.items() if cls.__module__.startswith("credo.")}
    assert own == set(methods())


def test_every_folder_of_algorithms_is_a_family_with_a_heading():
    folders = {m.name for m in pkgutil.iter_modules(credo.inference.__path__) if m.ispkg}
    assert folders == {*FAMILIES, "problem"}
    assert {entry.family for entry in methods().values()} == set(FAMILIES)
    assert family_title("exact") == "Exact inference"
    assert len({family_title(family) for family in FAMILIES}) == len(FAMILIES)


def test_an_algorithm_from_elsewhere_is_listed_last_with_what_it_accepts():
    @dataclass(frozen=True)
    class Shrug(Algorithm):
        """It could be anything.

        Who knows.
        """

        name: ClassVar[str] = "shrug"
        promises: ClassVar[frozenset[str]] = frozenset({"lower"})

        def why_not(self, problem):
            return None if problem.is_max else "it knows maxima only"

        def run(self, problem, budget, rng):
            raise NotImplementedError

    register(Shrug)
    try:
        entries = algorithms.entries()
        assert list(entries)[-1] == "shrug"
        expected = Method(__name__, "It could be anything.", answers=("max",), promises=("lower",))
        assert entries["shrug"] == expected
        assert (expected.family, family_title(expected.family)) == ("other", "Other methods")
    finally:
        algorithms._classes.pop("shrug")


@pytest.mark.parametrize(
    ("task", "asked"),
    [
        ("sum", {}),
        ("max", {"maximise": "all"}),
        ("mixed", {"maximise": ["a"]}),
        ("powered", {"temperatures": {"a": 0.5}}),
        ("powered", {"maximise": ["a"], "temperatures": {"b": 0.5}}),
        ("query", {"query": ["a"]}),
        ("samples", {"samples": 3}),
    ],
)
def test_a_problem_knows_its_kind(task, asked):
    graph = credo.FactorGraph({"a": 2, "b": 3}, {("a", "b"): [[1, 2, 3], [3, 2, 1]]})
    asked = {"maximise": (), "temperatures": None, "order": None} | asked
    assert Question.of(graph, None).problem(**asked).task == task
    assert task in TASKS
