"""Arguments that several commands share: models, evidence, names."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..core.errors import EvidenceError, FormatError, OptionError, UnsupportedError
from ..core.registry import near_misses, or_else
from .completion import complete_evidence, complete_method, complete_model, complete_variable

if TYPE_CHECKING:
    from ..core.variable import Variable, Variables

__all__ = [
    "MODEL_HELP",
    "EvidenceOption",
    "JsonOption",
    "MaxIterOption",
    "MaximiseOption",
    "MethodOption",
    "ModelArgument",
    "SecondsOption",
    "SeedOption",
    "TolOption",
    "is_of_rows",
    "load_discrete",
    "load_model",
    "load_start",
    "load_whole",
    "read_evidence",
    "read_maximise",
    "with_graph",
]

MODEL_HELP = "A model file, such as alarm.bif, or a sample model, such as asia or 'ising-grid(20)'."
ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help=MODEL_HELP, autocompletion=complete_model)
]
EvidenceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--evidence",
        "-e",
        metavar="NAME=STATE",
        help="What was observed; repeat it. NAME=0.2,0.8 gives likelihoods; a file name a UAI evidence file.",
        autocompletion=complete_evidence,
    ),
]
MaximiseOption = Annotated[
    list[str] | None,
    typer.Option(
        "--maximise",
        "--maximize",
        metavar="NAME",
        help="Maximise this variable; repeat it, or say 'all' for MAP.",
        autocompletion=complete_variable,
    ),
]
MethodOption = Annotated[
    str | None,
    typer.Option(
        "--method",
        "-m",
        metavar="METHOD",
        help="As listed by `credo methods`.",
        autocompletion=complete_method,
    ),
]
MaxIterOption = Annotated[int, typer.Option("--max-iter", help="Most steps of an iterative method.")]
TolOption = Annotated[float, typer.Option("--tol", help="Largest change that counts as converged.")]
SecondsOption = Annotated[
    float | None, typer.Option("--seconds", help="Most wall time of an iterative method, or of a portfolio.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of the random numbers.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def load_model(given: str) -> Any:
    """The model in a file, of a fit its model; if there is no such file, the model of this name."""
    found = load_start(given)
    return found.model if hasattr(found, "learner") else found


def load_start(given: str, **more: Any) -> Any:
    """What a file holds, a fit included, or the sample model or blank of this name.

    Parameters
    ----------
    given
        A file, or a name, perhaps with arguments in brackets.
    more
        Arguments beside those in brackets, such as the edges of a network.
    """
    from ..datasets.catalogue import SAMPLES
    from ..models.by_name import BLANKS

    catalogues = (SAMPLES, BLANKS)
    known = next((c for c in catalogues if c.is_name(given)), None)
    if Path(given).is_file() or (Path(given).exists() and known is None):
        from ..io.formats import load

        if more:
            raise OptionError(f"{given}: {', '.join(more)}: of models by name, and this is a file; leave out")
        return load(given)
    if known is not None:
        return known.make(given, **more)
    names = [name for catalogue in catalogues for name in catalogue.names()]
    near = _near_files(Path(given)) + near_misses(given.partition("(")[0], names)
    hint = f"did you mean {or_else(near)}? " if near else ""
    raise FormatError(
        f"{given}: there is no such file, and no model of this name; {hint}"
        f"`credo datasets` lists all {len(SAMPLES.contents)} sample models, `credo learners` "
        "those to be learned"
    )


def load_whole(given: str) -> Any:
    """The same for commands that ask about a graph, which models of rows and sequences are only with data."""
    model = load_model(given)
    if is_of_rows(model):
        raise UnsupportedError(
            f"{given}: a {type(model).__name__} is a graph only together with data; `credo predict` answers "
            "about the rows of a table, `credo sample` draws new ones"
        )
    return with_graph(model, given)


def with_graph(model: Any, given: str) -> Any:
    """The model, unless a file held something else or what is still to be learned."""
    if not hasattr(model, "to_factor_graph"):
        raise UnsupportedError(
            f"{given}: expected a model with parameters, got a {type(model).__name__}; `credo fit` "
            "learns them"
        )
    return model


def is_of_rows(model: Any) -> bool:
    """Whether a model is one of rows or sequences, with its parameters."""
    from ..core.instance import Template

    if hasattr(model, "to_factor_graph") and not isinstance(model, Template):
        return False  # told without importing what is learned from rows
    from ..families.blank import BlankRows
    from ..families.independent import rows_model

    if isinstance(model, BlankRows):
        return False  # they have no parameters yet
    return isinstance(rows_model(model), Template)


def load_discrete(given: str) -> Any:
    """The same for commands that read tables."""
    model = load_whole(given)
    variables = model.to_factor_graph().variables
    if not variables.is_discrete:
        names = [v.name for v in variables if not v.is_discrete]
        raise UnsupportedError(
            f"{given}: expected a model of discrete variables, got the continuous {names[:3]}; "
            "`credo infer`, `credo compare` and `credo sample` take such models"
        )
    return model


def _near_files(path: Path) -> list[str]:
    """Files of the same folder whose names are spelt alike."""
    if not path.parent.is_dir():
        return []
    names = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    return [str(path.parent / name) for name in difflib.get_close_matches(path.name, names, n=2)]


def read_evidence(variables: Variables, items: Sequence[str] | None) -> dict[str, Any]:
    """Evidence from NAME=STATE, NAME=likelihood,likelihood,... and names of evidence files."""
    found: dict[str, Any] = {}
    for item in items or ():
        pairs = _from_file(variables, item) if _is_file(item) else [_pair(variables, item)]
        for name, value in pairs:
            if name in found:
                raise EvidenceError(f"evidence: variable '{name}' is observed twice; give it once")
            found[name] = value
    return found


def read_maximise(names: Sequence[str] | None) -> Literal["all"] | tuple[str, ...]:
    """`"all"` if it is among the names, else the names."""
    return "all" if names and "all" in names else tuple(names or ())


def _is_file(item: str) -> bool:
    return "=" not in item or Path(item).is_file()


def _from_file(variables: Variables, path: str) -> list[tuple[str, Any]]:
    if not Path(path).is_file():
        raise EvidenceError(
            f"evidence {path!r}: expected NAME=STATE, NAME=likelihood,likelihood "
            "or the name of an evidence file, got none of them"
        )
    from ..io import uai_results

    return list(uai_results.read_evidence(path, variables).items())


def _pair(variables: Variables, item: str) -> tuple[str, Any]:
    """Name and value; of several '=' the first that follows a known name divides."""
    cuts = [k for k, c in enumerate(item) if c == "="]
    cut = next((k for k in cuts if item[:k] in variables), cuts[0])
    name, text = item[:cut], item[cut + 1 :]
    if name not in variables:
        return name, text  # refused with a hint where all evidence is checked
    return name, _value(variables[variables.position(name)], text)


def _value(variable: Variable, text: str) -> Any:
    """A label if there is one of this name, else a state index or numbers: likelihoods, or a vector.

    What is none of them is refused where all evidence is checked. A real value is read there too.
    """
    if variable.is_discrete and text in variable.states:
        return text
    if "," in text:
        try:
            return [float(part) for part in text.split(",")]
        except ValueError:
            return text
    return int(text) if variable.is_discrete and text.isdecimal() else text
