"""Who is tested: every registered algorithm, and every choice an option offers.

An option declared as a `Literal` or a `bool` adds one specification per value that is not the
default, such as "junction-tree(propagation=hugin)"; a new algorithm or option needs no line here.
Such variants see every third case of the zoo and one kind of evidence; a bound holds after every step, so
theirs take some hundred. What is compiled anew for every structure (`Algorithm.compiles`) sees a few cases,
and few steps; what is made for variables of any domain (their first group is not tables) sees the ugliest
cases. The variants of both have tests of their own.
"""

from __future__ import annotations

import dataclasses
import typing
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import credo
from credo.core.errors import ConvergenceWarning, UnsupportedError
from credo.core.result import Result
from credo.inference.problem.base import algorithms
from credo.inference.problem.contents import Method
from credo.inference.problem.simplest import accepts
from zoo import ZOO, Case

__all__ = [
    "SUBJECTS",
    "ask",
    "compiles",
    "is_sentence",
    "on_zoo",
    "promises",
    "promising",
    "refuses",
    "slopes",
    "takes",
    "trials",
    "try_each",
]

_FEW_CASES = {"grid 3x3"}  # for what is compiled
_UGLY_CASES = {"no variables, one constant", "no factors", "empty scope", "disconnected parts", "xor"}
_FEW_KINDS = ("several",)  # of evidence
_FEW_STEPS = 20
_SOME_STEPS = 200


def _known(spec: str) -> Method:
    return algorithms.entries()[spec.partition("(")[0]]


def _variants(name: str) -> list[str]:
    found = [name]
    if _known(name).compiles or _known(name).groups[0] != "tables":
        return found
    cls = algorithms.get(name)
    hints = typing.get_type_hints(cls)
    for option in dataclasses.fields(cls):  # type: ignore[arg-type]
        choices: tuple[Any, ...] = ()
        if typing.get_origin(hints[option.name]) is typing.Literal:
            choices = typing.get_args(hints[option.name])
        elif hints[option.name] is bool:
            choices = (True, False)
        found += [f"{name}({option.name}={value})" for value in choices if value != option.default]
    return found


SUBJECTS = [spec for name in credo.algorithms() for spec in _variants(name)]


def promises(spec: str) -> frozenset[str]:
    """The words an algorithm's class declares."""
    return frozenset(_known(spec).promises)


def slopes(spec: str) -> bool:
    """Whether sums come with factor marginals."""
    return _known(spec).slopes


def compiles(spec: str) -> bool:
    """Whether every new structure is compiled first."""
    return _known(spec).compiles


def promising(*words: str, task: str = "sum") -> list[str]:
    """The specifications that declare at least one of these words and take on the task."""
    return [spec for spec in SUBJECTS if promises(spec) & set(words) and takes(spec, task)]


def takes(spec: str, task: str) -> bool:
    """Whether the algorithm accepts the simplest problem of a kind about tables."""
    return task in accepts(algorithms.resolve(spec))


def _cases(spec: str, cases: list[Case]) -> list[Case]:
    if compiles(spec):
        return [case for case in cases if case.id in _FEW_CASES]
    return [
        case for case in cases if _known(spec).groups[0] == "tables" or case.id in _FEW_CASES | _UGLY_CASES
    ]


def on_zoo(spec: str, cases: list[Case] = ZOO) -> list[tuple[Case]]:
    """What a specification is tried on: every third case for variants."""
    return [(case,) for case in _cases(spec, cases)[:: 3 if "(" in spec else 1]]


def trials(spec: str, cases: list[Case] = ZOO) -> list[tuple[Case, str]]:
    """Cases and kinds of evidence that a specification is tried on."""
    return [
        (case, kind)
        for case in _cases(spec, cases)
        for kind in (["several"] if compiles(spec) else case.evidences)
        if "(" not in spec or kind in _FEW_KINDS
    ]


class Refused(Exception):
    """A method refused a question in a sentence."""


def try_each(tried: Iterable[tuple[Any, ...]], check: Callable[..., None]) -> None:
    """Check all; a failure names what was tried. Some may be refused, but not all of it.

    One test per specification, not per case. Where there is nothing to try, the test is skipped.
    """
    refused, answers = None, 0
    for what in tried:
        try:
            check(*what)
            answers += 1
        except Refused as refusal:
            refused = refusal
        except BaseException as failure:
            failure.add_note(f"tried on: {', '.join(str(getattr(part, 'id', part)) for part in what)}")
            raise
    if answers == 0 and refused is not None:
        pytest.fail(f"takes on this task and answered nothing: {refused}")
    if answers == 0:
        pytest.skip("no case is small enough for this method")


def refuses(spec: str, graph: Any, **question: Any) -> None:
    """A method that does not take on a task says so in a sentence."""
    with pytest.raises(UnsupportedError) as refusal:
        credo.infer(graph, spec, seed=0, **question)
    assert is_sentence(str(refusal.value))


def is_sentence(text: str) -> bool:
    """Whether a message can be read: words, not an empty string or a representation."""
    return len(text.split()) >= 4 and "object at 0x" not in text


def ask(spec: str, graph: Any, **question: Any) -> Result:
    """Run. An exact method must answer; others may stop early, or refuse with a reason (`Refused`)."""
    with warnings.catch_warnings():
        if "exact" not in promises(spec):
            warnings.simplefilter("ignore", ConvergenceWarning)
        if compiles(spec):
            question.setdefault("max_iter", _FEW_STEPS)
        elif "(" in spec and "upper" in promises(spec):
            question.setdefault("max_iter", _SOME_STEPS)
        try:
            return credo.infer(graph, spec, seed=0, **question)
        except UnsupportedError as refusal:
            assert is_sentence(str(refusal)), f"{spec}: {refusal}"
            exact = "exact" in promises(spec) and takes(spec, "sum")  # `gaussian` takes no tables
            assert not exact, f"{spec} promises to be exact: {refusal}"
            raise Refused(f"{spec}: {refusal}") from None
