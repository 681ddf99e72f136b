"""MODEL is a file or the name of a sample model; `credo datasets`; what the Tab key offers."""

import pytest

import credo
from credo import datasets
from credo.cli import completion
from credo.cli.arguments import load_model
from credo.cli.main import app
from shell_words import Typed


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_name_is_a_model_for_every_command(run, folder):
    assert run("info", "asia", "--json").json["variables"] == 8
    found = run("infer", "asia", "enumerate", "--evidence", "dysp=yes", "--json").json
    truth = credo.infer(datasets.asia(), "enumerate", evidence={"dysp": "yes"})
    assert found["marginals"]["lung"]["yes"] == pytest.approx(truth.marginals["lung"]["yes"])
    assert run("compare", "asia", "enumerate").out.startswith("method")
    assert run("sample", "asia", "-n", "2", "-m", "enumerate").out.startswith("asia,tub")
    assert run("certify", "asia").status == 0
    assert run("solve", "asia", "PR", "--method", "enumerate").out.startswith("PR")
    assert run("convert", "asia", "asia.bif").status == 0
    assert credo.load(folder / "asia.bif").to_factor_graph() == datasets.asia().to_factor_graph()


def test_a_name_takes_arguments(run):
    assert run("info", "ising-grid(4, 5, seed=2)", "--json").json["variables"] == 20
    assert run("info", "Random_Tree(7)", "--json").json["shape"] == "tree"


def test_a_file_of_that_name_wins(folder):
    (folder / "asia").mkdir()
    assert len(load_model("asia").variables) == 8  # a folder is no file
    (folder / "asia").rmdir()
    credo.save(datasets.sprinkler(), folder / "asia", "json")
    with pytest.raises(credo.CredoError, match="asia: expected one of the extensions"):
        load_model("asia")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("asja", "asja: there is no such file, and no model of this name; did you mean 'asia'?"),
        ("alram.bif", "did you mean 'alarm.bif'? `credo datasets` lists all"),
        ("deep/sub.uai", "deep/sub.uai: there is no such file, and no model of this name; `credo"),
        ("ising-grid", "ising-grid: missing a required argument: 'rows'"),
        ("ising-grid(3", "sample model: expected 'name' or 'name(option=value)', got 'ising-grid(3'"),
    ],
)
def test_what_is_neither_is_refused_with_near_misses_of_both(run, folder, given, sentence):
    (folder / "alarm.bif").write_text("")
    answer = run("info", given)
    assert (answer.status, answer.out) == (1, "")
    assert sentence in answer.err


@pytest.mark.parametrize("command", [["certify"], ["solve", "PR"]])
def test_commands_that_read_tables_refuse_continuous_variables(run, command):
    answer = run(command[0], "fish", *command[1:])
    assert answer.status == 1
    assert "fish: expected a model of discrete variables, got the continuous ['length', 'bright" in answer.err


def test_a_hybrid_model_is_observed_and_shown_by_mean_and_sd(run):
    truth = credo.infer(datasets.fish(), "ep", evidence={"length": 70.0})
    answer = run("infer", "fish", "ep", "-e", "length=70", "--json").json
    assert answer["marginals"]["length"] == {"mean": 70.0, "sd": 0.0}
    assert answer["marginals"]["brightness"]["mean"] == pytest.approx(truth.marginals["brightness"].mean)
    assert answer["marginals"]["fish"]["salmon"] == pytest.approx(truth.marginals["fish"]["salmon"])
    lines = [line.split() for line in run("infer", "fish", "ep", "-e", "length=70").out.splitlines()]
    assert ["evidence", "length=70"] in lines
    assert ["variable", "mean", "sd"] in lines
    assert ["length", "70", "0"] in lines


def test_a_real_value_that_is_no_number_is_refused(run):
    assert "variable 'length': expected a number, got 'long'" in run("infer", "fish", "-e", "length=long").err


def test_a_simplex_has_a_line_and_a_column_per_coordinate(run, monkeypatch):
    theta = credo.Variable("theta", credo.Simplex(2))
    model = credo.HybridNet([theta], [credo.potentials.dirichlet(theta, [2.0, 6.0])])
    for command, name in (("infer", "load_whole"), ("sample", "load_model")):
        monkeypatch.setattr(f"credo.cli.{command}.{name}", lambda given: model)
    found = run("infer", "theta", "ep", "-e", "theta=0.25,0.75", "--json").json
    assert found["marginals"]["theta"] == {"mean": [0.25, 0.75], "sd": [0.0, 0.0]}
    assert "theta[1]  0.75" in run("infer", "theta", "ep", "-e", "theta=0.25,0.75").out
    drawn = run("sample", "theta", "-n", "2", "-m", "gibbs", "-e", "theta=0.25,0.75").out
    assert drawn == "theta[0],theta[1]\n0.25,0.75\n0.25,0.75\n"


def test_info_counts_domains_and_kinds_of_factors(run):
    facts = run("info", "fish", "-e", "length=70", "--json").json
    assert (facts["model"], facts["variables"], facts["observed"]) == ("HybridNet", 5, 1)
    assert facts["domains"] == {"discrete": 3, "real": 1}
    assert facts["kinds"] == {"TableFactor": 4, "LinearGaussianFactor": 1}  # what is observed becomes a table
    assert facts["shape"] == "forest"
    assert "variables  5: 3 discrete, 2 real" in run("info", "fish").out


def test_a_terminal_shows_the_first_variables_and_says_how_to_see_the_others(run, monkeypatch):
    monkeypatch.setattr("credo.cli.infer.is_terminal", lambda: True)
    shown = run("infer", "random-tree(60)", "junction-tree").out
    assert "x49" in shown and "x50" not in shown
    assert shown.endswith("10 more variables: --query NAME shows one, --json all\n")


def test_datasets_lists_every_name_and_how_to_write_it(run):
    listed = {entry["name"]: entry for entry in run("datasets", "--json").json}
    assert sorted(listed) == datasets.names()
    assert listed["erdos-renyi-ising"]["call"] == "erdos-renyi-ising(n, p)"
    assert all(entry["description"] for entry in listed.values())
    text = run("datasets").out
    assert all(entry["call"] in text and entry["description"] in text for entry in listed.values())


def test_datasets_shows_the_arguments_of_one(run):
    lines = [line.split() for line in run("datasets", "potts_grid").out.splitlines()]
    assert ["model", "potts-grid(rows)"] in lines
    assert ["rows", "needed"] in lines
    assert ["states", "3"] in lines
    assert run("datasets", "asia").out.count("\n") == 2
    assert "no sample model named 'asja'; did you mean 'asia'?" in run("datasets", "asja").err


def test_tab_offers_sample_models():
    assert [name for name, _ in completion.complete_model("s")] == ["sprinkler", "student", "survey"]
    assert completion.complete_model("zzz") == []


def test_tab_offers_variables_and_states_of_the_model():
    asia = Typed(model="asia")
    assert completion.complete_variable(asia, "d") == ["dysp"]
    assert completion.complete_evidence(asia, "b") == ["bronc="]
    assert completion.complete_evidence(asia, "dysp=") == ["dysp=no", "dysp=yes"]
    assert completion.complete_evidence(asia, "dysp=y") == ["dysp=yes"]
    assert completion.complete_evidence(Typed("asia", model=None), "dysp=y") == ["dysp=yes"]
    assert completion.complete_evidence(Typed(model="fish"), "length=") == []


@pytest.mark.parametrize("params", [{}, {"model": None}, {"model": "nothing.bif"}, {"model": "umbrella-hmm"}])
def test_tab_never_complains(params):
    assert completion.complete_evidence(Typed(**params), "a") == []
    assert completion.complete_variable(Typed(**params), "a") == []


def test_the_program_completes_evidence(monkeypatch, capsys):
    """The whole way, as a shell asks: the words so far are in the environment."""
    monkeypatch.setenv("_CREDO_COMPLETE", "complete_zsh")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "credo infer asia --evidence dysp=")
    with pytest.raises(SystemExit):
        app(prog_name="credo")
    shown = capsys.readouterr().out
    assert "dysp=no" in shown and "dysp=yes" in shown
