"""`credo reproduce`."""

import pytest

from credo.cli import reproduce

SCRIPT = '''"""Shows where things go."""
import sys
print(sys.argv[1:])
'''


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def experiments(folder):
    home = folder / "experiments"
    home.mkdir()
    (home / "_common.py").write_text("")
    (home / "renn_grid.py").write_text(SCRIPT)


def test_without_the_sources_it_says_where_they_are(run, monkeypatch, folder):
    monkeypatch.setattr(reproduce, "__file__", str(folder / "lib" / "a" / "b" / "reproduce.py"))
    for arguments in ([], ["renn-grid"]):
        answer = run("reproduce", *arguments)
        assert (answer.status, answer.out) == (1, "")
        assert answer.err == (
            "credo: the experiments are part of the sources, not of the installed package, and there is no "
            "folder 'experiments' here; run `credo reproduce` in a checkout of the sources\n"
        )


def test_results_go_to_the_current_folder(run, experiments):
    assert run("reproduce", "renn-grid").out == "['--out', 'out/experiments']\n"
    shown = run("reproduce", "renn-grid", "--out", "here", "--seed", "3", "--quick").out
    assert shown == "['--seed', '3', '--out', 'here', '--quick']\n"


def test_experiments_are_listed_with_what_they_show(run, experiments):
    assert run("reproduce").out.splitlines()[1].split(None, 1) == ["renn-grid", "Shows where things go."]


def test_a_misspelt_experiment_gets_a_hint(run, experiments):
    answer = run("reproduce", "renn-gird")
    assert answer.status == 1
    assert "no experiment named 'renn-gird'; did you mean 'renn-grid'? `credo reproduce` lists" in answer.err
