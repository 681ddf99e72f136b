"""`credo learners`, models to be learned by name, and the completion of both."""

from __future__ import annotations

import dataclasses

import pytest

import credo
from credo.cli import completion
from credo.learning import LEARNERS
from credo.learning.base import learners
from credo.models.by_name import BLANKS
from shell_words import Typed, modules_after


def test_all_learners_and_models_to_be_learned_are_listed(run):
    text = run("learners").out
    for name, entry in LEARNERS.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
        assert entry.summary in line
    assert all(entry.summary in text for entry in BLANKS.contents.values())
    assert "hmm(states)" in text


def test_one_learner_is_shown_with_its_options_and_their_meaning(run):
    text = run("learners", "em").out
    assert "objective never falls  yes" in text
    for option in dataclasses.fields(learners.get("em")):
        assert f"\n{option.name} " in text
    assert run("learners", "baum-welch").out == text
    assert "no learner named 'emm'; did you mean 'em'?" in run("learners", "emm").err


def test_everything_goes_to_json(run):
    listed = {entry["name"]: entry for entry in run("learners", "--json").json}
    assert set(listed) == set(LEARNERS)
    (em,) = run("learners", "em", "--json").json
    assert em == listed["em"]
    assert em["monotone"] and em["checkpoints"] and em["streams"]
    restarts = next(option for option in em["options"] if option["name"] == "restarts")
    assert (restarts["default"], restarts["type"]) == (1, "int") and restarts["meaning"]


def test_tab_offers_learners_blanks_and_experiments_without_arrays():
    assert dict(completion.complete_learner("e")) == {"em": LEARNERS["em"].summary}
    assert [name for name, _ in completion.complete_blank("h")] == ["hmm", "heating"]
    code = (
        "from credo.cli.completion import *; "
        "complete_learner('e'), complete_blank('h'), complete_model('a'), complete_experiment('r')"
    )
    assert not modules_after(code) & {"numpy", "credo.learning.base", "credo.models.hmm", "rich"}


def test_tab_offers_experiments_with_what_they_show(monkeypatch, tmp_path):
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "_common.py").write_text("")
    (tmp_path / "experiments" / "small_table.py").write_text('"""A small table.\n\nMore."""\n')
    monkeypatch.chdir(tmp_path)
    assert completion.complete_experiment("sm") == [("small-table", "A small table.")]
    assert completion.complete_experiment("x") == []


def test_tab_offers_columns_of_the_table_named_before(tmp_path):
    path = str(tmp_path / "few.csv")
    credo.data.write_table({"size": [1.0], "site": [2.0], "kind": ["moth"]}, path)
    assert completion.complete_column(Typed(data=path), "si") == ["size", "site"]
    assert completion.complete_column(Typed("mixture(2)", path), "size,k") == ["size,kind"]
    assert completion.complete_column(Typed(rest=["mixture(1)", "mixture(2)", path]), "k") == ["kind"]
    packed = str(tmp_path / "few.parquet")
    credo.data.write_table({"size": [1.0]}, packed)
    assert completion.complete_column(Typed(data=packed), "") == ["size"]
    assert completion.complete_column(Typed(data="nothing.csv"), "") == []
    assert completion.complete_column(Typed(), "") == []


@pytest.mark.parametrize(
    ("model", "begun", "offered"),
    [("asia", "d", ["dysp"]), ("umbrella-hmm", "", ["state", "component"]), ("nothing", "a", [])],
)
def test_tab_offers_what_can_be_predicted(model, begun, offered):
    assert completion.complete_target(Typed(model=model), begun) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_program_completes_in_every_shell(shell, monkeypatch, capsys):
    from credo.cli.main import app

    words = "credo fit bayes-net data.csv --learner ve"
    monkeypatch.setenv("_CREDO_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", words.replace("ve", "v"))
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    monkeypatch.setenv("COMP_WORDS", words.replace("ve", "v"))
    monkeypatch.setenv("COMP_CWORD", "5")
    with pytest.raises(SystemExit):
        app(prog_name="credo")
    assert "vb" in capsys.readouterr().out
