"""Files and a runner for the command line tests."""

import json

import pytest
from typer.testing import CliRunner

import credo
from credo.cli.main import app

# Z = 10; p(x0) = (0.3, 0.7); p(x1) = (0.4, 0.6); the maximum is 4 at (1, 1).
SQUARE = "MARKOV\n2\n2 2\n1\n2 0 1\n\n4\n 1 2 3 4\n"


@pytest.fixture
def square(tmp_path):
    path = tmp_path / "square.uai"
    path.write_text(SQUARE)
    return str(path)


@pytest.fixture
def asia(tmp_path):
    path = tmp_path / "asia.bif"
    credo.save(credo.datasets.asia(), path)
    return str(path)


@pytest.fixture
def write(tmp_path):
    def make(name, text):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return make


class Ran:
    """Exit status and output of one command."""

    def __init__(self, outcome):
        self.status, self.out, self.err = outcome.exit_code, outcome.stdout, outcome.stderr
        self.exception = outcome.exception

    @property
    def json(self):
        return json.loads(self.out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


@pytest.fixture
def run():
    """Run a command in this process; anything but an answer or a sentence is a failure."""

    def call(*arguments):
        outcome = Ran(CliRunner().invoke(app, [str(a) for a in arguments]))
        if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
            raise outcome.exception
        return outcome

    return call
