"""Exit status, messages and start-up of the program."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import credo
from credo.cli import main


def credo_process(*arguments):
    return subprocess.run(
        [sys.executable, "-c", "from credo.cli.main import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["info", "{folder}/nothing.bif"], "nothing.bif: there is no such file"),
        (["info", "{folder}"], "{folder}: "),
        (["info", "{garbage}"], "garbage.uai, line 1: expected MARKOV or BAYES, got"),
        (["infer", "{asia}", "enumerat"], "no algorithm named 'enumerat'"),
        (["infer", "{asia}", "enumerate(max_entries=x)"], "max_entries must be a whole number, got 'x'"),
        (["infer", "{asia}", "enumerate(max_entries=2)"], "enumerate cannot treat this problem"),
        (["infer", "{asia}", "-e", "asja=yes"], "no variable named 'asja'; did you mean 'asia'"),
        (["infer", "{asia}", "-e", "asia=perhaps"], "variable 'asia' has no state 'perhaps'"),
        (["infer", "{asia}", "-e", "asia=7"], "variable 'asia' has no state '7'"),
        (["infer", "{asia}", "-e", "asia=0.1,x"], "variable 'asia' has no state '0.1,x'"),
        (["infer", "{asia}", "-e", "asia=1,2,3"], "soft evidence on 'asia': expected 2 likelihoods"),
        (["infer", "{asia}", "-e", "asia"], "evidence 'asia': expected NAME=STATE"),
        (["infer", "{asia}", "-e", "asia=yes", "-e", "asia=no"], "variable 'asia' is observed twice"),
        (["infer", "{asia}", "-e", "tub=yes", "-e", "either=no"], "the evidence has probability zero"),
        (["infer", "{asia}", "-q", "lunge"], "no variable named 'lunge'"),
        (["infer", "{asia}", "-q", "lung,lunge"], "no variable named 'lunge'"),
        (["infer", "{asia}", "--maximise", "lunge"], "no variable named 'lunge'"),
        (["infer", "{asia}", "--max-iter", "-1"], "max_iter must be at least 0, got -1"),
        (["convert", "{asia}", "{folder}/asia.doc"], "asia.doc: expected one of the extensions"),
        (["convert", "{asia}", "{folder}/no/asia.uai"], "asia.uai"),
        (["convert", "{asia}", "{folder}/asia.uai", "--to", "word"], "no format named 'word'"),
        (["draw", "{asia}", "--out", "{folder}/asia.doc"], "expected a file name ending in one of"),
        (["sample", "{asia}", "--out", "{folder}/no/data.csv"], "No such file or directory"),
        (["solve", "{asia}", "{folder}/no.evid", "PR"], "no.evid"),
        (["score", "{folder}/a.PR", "{folder}/b.PR"], "a.PR: there is no such file"),
    ],
)
def test_bad_input_gets_one_sentence_and_status_1(run, asia, write, tmp_path, arguments, sentence):
    garbage = write("garbage.uai", "once upon a time")
    known = {"asia": asia, "folder": tmp_path, "garbage": garbage}
    answer = run(*(a.format(**known) for a in arguments))
    assert answer.status == 1
    assert answer.out == ""
    assert answer.err.startswith("credo: ") and answer.err.count("\n") == 1
    assert sentence.format(**known) in answer.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["infer"],
        ["nonsense"],
        ["inferr"],
        ["info", "x", "--nonsense"],
        ["sample", "x", "-n", "-5"],
        ["infer", "x", "--tol", "a"],
    ],
)
def test_wrong_usage_ends_with_status_2(run, arguments):
    answer = run(*arguments)
    assert (answer.status, answer.out) == (2, "")
    assert "Usage" in answer.err


def test_help_and_version(run):
    shown = run("--help").out
    files = {
        path.stem.replace("_", "-")
        for path in Path(main.__file__).parent.glob("*.py")
        if "def run(" in path.read_text()
    }
    assert files == set(main.COMMANDS)
    for command in main.COMMANDS:
        assert f" {command} " in shown
        assert "Usage" in run(command, "--help").out
    assert run("--version").out == f"credo {credo.__version__}\n"


def test_not_enough_memory_is_a_sentence(run, asia, monkeypatch):
    def starve(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr("credo.inference.portfolio.question.infer", starve)
    answer = run("infer", asia)
    assert (answer.status, answer.err.count("\n")) == (1, 1)
    assert "there is not enough memory" in answer.err


def test_running_out_of_iterations_is_an_answer_with_a_note(run, asia, monkeypatch):
    from dataclasses import replace

    from credo.core.result import Status
    from credo.inference.exact.enumerate import Enumerate

    whole = Enumerate.run
    monkeypatch.setattr(
        Enumerate,
        "run",
        lambda self, *rest: replace(whole(self, *rest), status=Status.OUT_OF_ITERATIONS),
    )
    answer = run("infer", asia, "enumerate", "--json")
    assert (answer.status, answer.json["converged"]) == (0, False)
    assert (
        answer.err == "credo: enumerate: out of iterations: max_iter was reached; raise it, or loosen tol\n"
    )


def test_a_terminal_gets_rich_tables(run, asia, monkeypatch):
    monkeypatch.setattr("credo.cli.output.is_terminal", lambda: True)
    monkeypatch.setattr("credo.cli.infer.is_terminal", lambda: True)
    monkeypatch.setattr("credo.cli.compare.is_terminal", lambda: True)
    shown = run("infer", asia, "enumerate", "-q", "smoke").out
    assert "━" in shown or "─" in shown
    assert "█" * 12 in shown
    assert "BayesNet" in run("info", asia).out


@pytest.mark.parametrize("width", [40, 80, 200])
def test_numbers_are_never_folded_however_narrow_the_terminal(run, asia, monkeypatch, width):
    monkeypatch.setattr("credo.cli.output.is_terminal", lambda: True)
    monkeypatch.setattr("credo.cli.compare.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    shown = run("compare", asia, "enumerate", "-e", "dysp=yes").out
    log_z = credo.infer(credo.datasets.asia(), "enumerate", evidence={"dysp": "yes"}).log_z.value
    assert f" {log_z:.6f} " in shown
    assert "enumerate" in shown
    assert ("─" in shown) == (width == 200)


def test_the_program_answers_in_a_process_of_its_own(asia):
    done = credo_process("infer", asia, "enumerate", "--evidence", "dysp=yes", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["marginals"]["dysp"]["yes"] == 1.0


def test_the_program_fails_with_one_sentence_and_no_traceback(asia):
    done = credo_process("infer", asia, "enumerate", "--evidence", "dysp=perhaps")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "credo: variable 'dysp' has no state 'perhaps'; its states are ['no', 'yes']\n"
    assert credo_process("infer").returncode == 2


def test_ctrl_c_ends_with_status_130_and_no_traceback():
    code = (
        "import time, credo.cli.info as c\n"
        "def slow(path): print('ready', flush=True); time.sleep(60)\n"
        "c.load_model = slow\n"
        "from credo.cli.main import main; main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, "info", "x.bif"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "credo: stopped by hand\n"


def test_a_misspelt_command_gets_its_near_miss(run):
    assert "No such command 'inferr'. Did you mean 'infer'" in run("inferr").err


def test_only_the_command_that_runs_is_imported(asia):
    code = (
        "import sys; from credo.cli.main import app; app(['info', sys.argv[1]], standalone_mode=False); "
        "print(sorted(m for m in sys.modules if m in sys.argv[2:]))"
    )
    others = [f"credo.cli.{name.replace('-', '_')}" for name in main.COMMANDS if name != "info"]
    done = subprocess.run(
        [sys.executable, "-c", code, asia, *others], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_start_up_imports_nothing_heavy():
    code = "import sys, credo.cli.main; print([m for m in sys.modules if m in sys.argv[1:]])"
    heavy = ["numpy", "scipy", "numba", "pandas", "matplotlib", "networkx"]
    done = subprocess.run(
        [sys.executable, "-c", code, *heavy], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_reader_that_leaves_early_causes_no_traceback(asia):
    command = (
        f"{sys.executable} -c 'from credo.cli.main import main; main()' sample {asia} -n 200000 | head -1"
    )
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.startswith("asia,tub")
    assert "Traceback" not in done.stderr
