"""`credo methods`, and the completion of methods."""

from __future__ import annotations

import re

import credo
from credo.cli.completion import complete_method
from credo.inference.problem.contents import FAMILIES, TASKS, family_title, methods
from shell_words import modules_after


def test_all_methods_are_listed_by_family_with_what_they_answer_and_promise(run):
    text = run("methods").out
    headings = [text.index(f"{family_title(family)}:\n") for family in FAMILIES]
    assert headings == sorted(headings)
    for name, known in methods().items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
        assert line.split("  ")[0] == name
        assert ", ".join(known.answers) in line and known.summary in line
    assert all(f"{word}: {meaning}" in text for word, meaning in TASKS.items())


def test_one_method_is_shown_with_its_options_and_their_meaning(run):
    text = run("methods", "enumerate").out
    assert (
        "answers       marginals and log Z, MAP, marginal MAP, powered sums, powered sums in a given order"
        in text
    )
    assert re.search(r"max_entries +4194304 +\w+", text)
    assert "promises      exact" in text


def test_a_misspelt_method_gets_its_near_misses_and_not_all_names(run):
    answer = run("methods", "Junction Tree")
    assert answer.status == 1
    says = (
        "credo: no algorithm named 'Junction Tree'; did you mean 'junction-tree'? `credo methods` lists all"
    )
    assert answer.err == f"{says} {len(credo.algorithms())}\n"


def test_everything_goes_to_json_for_all_methods_or_one(run):
    listed = {entry["name"]: entry for entry in run("methods", "--json").json}
    assert set(listed) == set(credo.algorithms())
    for name, known in methods().items():
        assert tuple(listed[name]["answers"]) == known.answers
        assert (listed[name]["family"], listed[name]["description"]) == (known.family, known.summary)
    (bp,) = run("methods", "bp", "--json").json
    assert bp == listed["bp"]
    damping = next(option for option in bp["options"] if option["name"] == "damping")
    assert (damping["default"], damping["type"]) == (0.0, "float")
    assert damping["meaning"]


def test_methods_are_completed_with_what_they_do():
    offered = dict(complete_method("mea"))
    assert offered == {"mean-field": methods()["mean-field"].summary}
    assert len(complete_method("")) == len(methods())


def test_completing_methods_imports_no_arrays_and_listing_them_no_algorithm():
    found = modules_after("from credo.cli.completion import complete_method; complete_method('b')")
    assert "credo.inference.problem.contents" in found
    assert not found & {"numpy", "credo.inference.problem.base"}
    listed = modules_after("from credo.cli.methods import run; run()")
    assert not listed & {"rich", *(known.module for known in methods().values())}


def test_commands_that_take_methods_by_position_complete_them():
    from typer.main import get_command

    from credo.cli.main import app

    commands = get_command(app).commands
    for command, parameter in [("infer", "positional"), ("compare", "methods"), ("methods", "method")]:
        (found,) = [p for p in commands[command].params if p.name == parameter]
        offered = found.shell_complete(
            commands[command].make_context(command, [], resilient_parsing=True), "gib"
        )
        assert [item.value for item in offered] == ["gibbs"]
