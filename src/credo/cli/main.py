"""The program `credo`.

Exit status: 0 with an answer, 1 with one sentence on standard error for bad input, 2 for wrong
usage, 130 after Ctrl-C.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .. import __version__
from ..core.errors import CredoError

__all__ = ["app", "main"]

COMMANDS = (
    "info",
    "infer",
    "compare",
    "solve",
    "certify",
    "bracket",
    "fit",
    "predict",
    "impute",
    "compare-models",
    "sample",
    "convert",
    "draw",
    "methods",
    "learners",
    "datasets",
    "score",
    "reproduce",
    "warm",
)


class _OneByOne(Mapping[str, Any]):
    """Name -> command; its module is imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        module = importlib.import_module(f".{name.replace('-', '_')}", __package__)
        alone.command(name)(module.run)
        return typer.main.get_command(alone)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Commands(TyperGroup):
    """Runs a command and turns what went wrong into one sentence and an exit status."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _OneByOne()  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the help page."""
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # the reader of our output has gone: Typer ends quietly
        except CredoError as error:
            sentence, status = str(error), 1
        except OSError as error:
            sentence, status = f"{error.filename or 'file'}: {error.strerror or error}", 1
        except MemoryError:
            sentence, status = "there is not enough memory; give more evidence, or an approximate method", 1
        except KeyboardInterrupt:
            sentence, status = "stopped by hand", 130
        typer.echo(f"credo: {' '.join(sentence.split())}", err=True)
        raise typer.Exit(status)


app = typer.Typer(
    cls=_Commands,
    name="credo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"credo {__version__}")
        raise typer.Exit()


@app.callback()
def _credo(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Probabilistic graphical models: load one, ask it anything."""


def main() -> None:
    """Run the command given on the command line."""
    try:
        app(prog_name="credo")
    except KeyboardInterrupt:  # pressed before a command began
        sys.exit(130)
