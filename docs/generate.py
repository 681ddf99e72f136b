"""Write one page per algorithm, learner, model and estimator, and a list of sample models, from docstrings.

`make docs` runs this before Sphinx; the tests check that every name gets a page. The pages are
not kept under version control: the source of each is the file it describes.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import textwrap
from itertools import groupby
from pathlib import Path

import credo
from credo.core.option_notes import options_with_notes
from credo.datasets.catalogue import SAMPLES
from credo.inference.problem.base import algorithms
from credo.inference.problem.contents import TASKS, family_title
from credo.learning.base import learners
from credo.models.by_name import BLANKS

HERE = Path(__file__).resolve().parent

ALGORITHM = """\
# {name}

{summary}

{theory}

## How to call it

```
credo.infer(model, "{call}")
```

```
credo infer model.uai "{call}"
```

## Options

{options}

## What it answers

{answers}

## What it promises

{promises}

Defined in `{module}`.
"""

LEARNER = """\
# {name}

{summary}

{theory}

## How to call it

```
credo.fit(model, data, "{name}")
```

```
credo fit MODEL DATA --learner {name}
```

## Options

{options}

## What it promises

{promises}

Defined in `{module}`.
"""

CLASS = """\
# {name}

{summary}

{theory}

## Making one

{usage}

## Methods

{methods}

Defined in `{module}`.
"""

PROMISES = {
    "exact": "the answer is exact on every problem it accepts",
    "exact on trees": "the answer is exact when the factor graph has no cycle",
    "consistent": "factor marginals agree with variable marginals",
    "lower": "log Z is a lower bound",
    "upper": "log Z is an upper bound",
    "monotone": "the objective never gets worse from one iteration to the next",
    "order free": "the order of variables and factors does not matter",
}


def models() -> dict[str, type]:
    """Name -> class, for every public class of `credo.models`."""
    return _classes("credo.models")


def estimators() -> dict[str, type]:
    """Name -> class, for every public class of `credo.estimators`."""
    return _classes("credo.estimators")


def _classes(room: str) -> dict[str, type]:
    package = importlib.import_module(room)
    found = {name: getattr(package, name) for name in package.__all__}
    return {name: item for name, item in sorted(found.items()) if inspect.isclass(item)}


def algorithm_page(name: str) -> str:
    """Write the page of one algorithm."""
    cls = algorithms.get(name)
    known = algorithms.entries()[name]
    words = [f"- **{w}**: {PROMISES.get(w, w)}" for w in known.promises]
    return ALGORITHM.format(
        name=name,
        call=name,
        summary=_first(cls),
        theory=_prose(inspect.getmodule(cls)),
        options=_options(cls),
        answers=f"{', '.join(map(TASKS.get, known.answers))}; {', '.join(known.reads)} variables.",
        promises="\n".join(words) or "Nothing that the tests could check.",
        module=cls.__module__,
    )


def learner_page(name: str) -> str:
    """Write the page of one learner."""
    cls = learners.get(name)
    promises = {
        "the objective never falls where inference is exact": cls.monotone,
        "runs are kept in checkpoints": cls.checkpoints,
        "it learns from streams, batch by batch": cls.streams,
        "cells may be soft evidence": cls.reads_soft,
    }
    return LEARNER.format(
        name=name,
        summary=_first(cls),
        theory=_prose(inspect.getmodule(cls)),
        options=_options(cls),
        promises="\n".join(f"- {text}" for text, holds in promises.items() if holds) or "A new model.",
        module=cls.__module__,
    )


def class_page(cls: type) -> str:
    """Write the page of one model or estimator."""
    methods = []
    for member, value in inspect.getmembers(cls):
        if not member.startswith("_") and _first(value):
            called = "" if isinstance(inspect.getattr_static(cls, member), property) else "()"
            methods.append(f"- `{member}{called}`: {_first(value)}")
    return CLASS.format(
        name=cls.__name__,
        summary=_first(cls),
        theory=_prose(inspect.getmodule(cls)),
        usage=f"```\n{_after_first(cls)}\n```" if _after_first(cls) else "",
        methods="\n".join(methods),
        module=cls.__module__,
    )


def samples_page() -> str:
    """List the sample models, and those to be learned, with their arguments."""
    parts = ["# Models by name\n"]
    for title, catalogue, how in (
        (
            "Sample models",
            SAMPLES,
            '`credo.datasets.load("NAME")`, and in the shell wherever a model is named.',
        ),
        (
            "Models to be learned",
            BLANKS,
            "In the shell, `credo fit NAME DATA`; in Python each has its class.",
        ),
    ):
        rows = [
            f"| `{entry['call']}` | {entry['description']} | {_arguments(entry['arguments'])} |"
            for entry in map(catalogue.describe, catalogue.names())
        ]
        header = ["| name | what it is | arguments |", "|---|---|---|"]
        parts.append("\n".join([f"## {title}\n\n{how}\n", *header, *rows, ""]))
    return "\n".join(parts)


def _arguments(known: dict[str, str]) -> str:
    return ", ".join(f"`{n}`" if v == "needed" else f"`{n}={v}`" for n, v in known.items()) or "none"


def _options(cls: type) -> str:
    rows = [
        f"| `{option['name']}` | `{option['default']!r}` | {option['meaning']} |"
        for option in options_with_notes(cls)
    ]
    header = ["| option | default | meaning |", "|---|---|---|"]
    return "\n".join([*header, *rows]) if rows else "It has no options."


def _first(item: object) -> str:
    """Put the first paragraph of a docstring on one line."""
    return " ".join((inspect.getdoc(item) or "").partition("\n\n")[0].split())


def _after_first(item: object) -> str:
    return (inspect.getdoc(item) or "").partition("\n\n")[2].strip()


def _prose(item: object) -> str:
    """Turn a docstring into Markdown: indented paragraphs are formulas."""
    parts = []
    for block in (inspect.getdoc(item) or "").split("\n\n"):
        if block.startswith("    "):
            parts.append("```\n" + textwrap.dedent(block).rstrip() + "\n```")
        else:
            parts.append(block)
    return "\n\n".join(parts)


def pages() -> dict[str, str]:
    """Path below `docs/` -> content."""
    found = {f"algorithms/{name}.md": algorithm_page(name) for name in credo.algorithms()}
    found |= {f"learners/{name}.md": learner_page(name) for name in learners.names()}
    found["learners/index.md"] = f"# Learners\n\n{_contents(learners.names())}"
    for folder, classes in (("models", models()), ("estimators", estimators())):
        found |= {f"{folder}/{name}.md": class_page(cls) for name, cls in classes.items()}
        found[f"{folder}/index.md"] = f"# {folder.capitalize()}\n\n{_contents(list(classes))}"
    found["datasets/index.md"] = samples_page()
    parts = []
    for family, group in groupby(algorithms.entries().items(), key=lambda item: item[1].family):
        parts.append(f"## {family_title(family)}\n\n{_contents([name for name, _ in group])}")
    found["algorithms/index.md"] = "\n".join(["# Algorithms\n", *parts])
    return found


def _contents(names: list[str]) -> str:
    listed = "\n".join(names)
    return f"```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"


def main(target: Path = HERE) -> None:
    """Write all pages."""
    for path, content in pages().items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
