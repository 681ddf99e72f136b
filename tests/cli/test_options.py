"""`--method` and `--json` mean the same on every command that answers."""

from __future__ import annotations

import pytest
from typer.main import get_command

import credo
from credo.cli.main import app

ASKED = ("infer", "compare", "solve", "certify", "draw", "sample", "fit", "predict", "impute", "score")
TOLD = (
    *(
        "info",
        "infer",
        "compare",
        "solve",
        "certify",
        "bracket",
        "fit",
        "predict",
        "impute",
        "sample",
        "score",
    ),
    *("compare-models", "methods", "learners", "datasets"),
)


def _option(command, name):
    return next((p for p in get_command(app).commands[command].params if name in p.opts), None)


@pytest.mark.parametrize("command", ASKED)
def test_every_command_that_asks_a_method_takes_it_by_one_option(command):
    found = _option(command, "--method")
    assert found is not None and "-m" in found.opts
    context = get_command(app).commands[command].make_context(command, [], resilient_parsing=True)
    assert [item.value for item in found.shell_complete(context, "gib")] == ["gibbs"]


@pytest.mark.parametrize("command", TOLD)
def test_every_command_that_tells_something_has_json(command):
    assert _option(command, "--json").help == "Print JSON."


def test_a_method_is_named_by_position_or_by_option(run, asia):
    words = ["infer", asia, "-q", "lung", "--json"]
    assert run(*words, "-m", "enumerate").json["method"] == "enumerate"
    by_position = run("infer", asia, "enumerate", "-q", "lung", "--json").json
    assert by_position["marginals"] == run(*words, "--method", "enumerate").json["marginals"]
    twice = run("infer", asia, "bp", "--method", "enumerate")
    assert (twice.status, twice.out) == (2, "") and "named twice" in twice.err
    both = run("compare", asia, "enumerate", "-m", "junction-tree", "-m", "bp", "--json").json
    assert [row["method"] for row in both] == ["enumerate", "junction-tree", "bp"]


def test_a_method_of_a_picture_is_the_one_of_its_beliefs(run, asia, tmp_path):
    out = tmp_path / "asia.svg"
    assert run("draw", asia, "--beliefs", "-m", "enumerate", "--out", out).status == 0 and out.exists()
    alone = run("draw", asia, "-m", "enumerate", "--out", out)
    assert (alone.status, alone.out) == (2, "")


def test_solve_tells_names_and_states_as_json(run, asia, tmp_path):
    net = credo.datasets.asia()
    query = tmp_path / "asia.query"
    query.write_text("1 3\n")
    marginals = run("solve", asia, "MAR", "-m", "enumerate", "--json").json
    truth = credo.infer(net, "enumerate")
    assert (marginals["task"], marginals["method"], marginals["status"]) == ("MAR", "enumerate", "exact")
    assert marginals["marginals"]["lung"]["yes"] == pytest.approx(truth.marginals["lung"]["yes"])
    best = run("solve", asia, "MAP", "--json").json
    assert best["assignment"] == dict(credo.infer(net, "enumerate", maximise="all").assignment.items())
    out = tmp_path / "asia.PR"
    told = run("solve", asia, "PR", "--json", "--out", out).json
    assert told["log_z"]["value"] == pytest.approx(truth.log_z.value, abs=1e-9)
    assert out.read_text().startswith("PR\n")
    assert run("solve", asia, "MMAP", "--query", query, "--json").json["assignment"] == {"lung": "no"}


def test_samples_are_columns_in_json(run):
    found = run("sample", "sprinkler", "-n", 3, "--seed", 1, "--json").json
    drawn = credo.sample(credo.datasets.sprinkler(), 3, seed=1)
    assert found == {name: drawn[name].tolist() for name in ("cloudy", "sprinkler", "rain", "wet")}
