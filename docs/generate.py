"""Write one page per registered algorithm and per model, from their docstrings.

`make docs` runs this before Sphinx; the tests check that every name gets a page. The pages are
not kept under version control: the source of each is the file it describes.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import sys
import textwrap
from itertools import groupby
from pathlib import Path

import credo
from credo.core.option_notes import option_notes
from credo.inference.problem.base import algorithms
from credo.inference.problem.contents import TASKS, family_title

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

MODEL = """\
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
    """Name -> class, for every public class of `credo.models` that has `to_factor_graph`."""
    package = importlib.import_module("credo.models")
    found = {}
    for info in pkgutil.iter_modules(package.__path__, "credo.models."):
        module = importlib.import_module(info.name)
        for name in getattr(module, "__all__", ()):
            item = getattr(module, name)
            if inspect.isclass(item) and hasattr(item, "to_factor_graph") and item.__module__ == info.name:
                found[name] = item
    return dict(sorted(found.items()))


def algorithm_page(name: str) -> str:
    """Write the page of one algorithm."""
    cls = algorithms.get(name)
    notes = option_notes(cls)
    rows = [
        f"| `{f.name}` | `{f.default!r}` | {notes.get(f.name, '')} |"
        for f in dataclasses.fields(cls)  # type: ignore[arg-type]
        if f.init
    ]
    table = (
        "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])
        if rows
        else "It has no options."
    )
    known = algorithms.entries()[name]
    words = [f"- **{w}**: {PROMISES.get(w, w)}" for w in known.promises]
    return ALGORITHM.format(
        name=name,
        call=name,
        summary=_first(cls),
        theory=_prose(inspect.getmodule(cls)),
        options=table,
        answers=f"{', '.join(map(TASKS.get, known.answers))}; {', '.join(known.reads)} variables.",
        promises="\n".join(words) or "Nothing that the tests could check.",
        module=cls.__module__,
    )


def model_page(name: str) -> str:
    """Write the page of one model."""
    cls = models()[name]
    methods = []
    for member, value in inspect.getmembers(cls):
        if not member.startswith("_") and _first(value):
            called = "" if isinstance(inspect.getattr_static(cls, member), property) else "()"
            methods.append(f"- `{member}{called}`: {_first(value)}")
    return MODEL.format(
        name=name,
        summary=_first(cls),
        theory=_prose(inspect.getmodule(cls)),
        usage=f"```\n{_after_first(cls)}\n```" if _after_first(cls) else "",
        methods="\n".join(methods),
        module=cls.__module__,
    )


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
    found |= {f"models/{name}.md": model_page(name) for name in models()}
    found["models/index.md"] = f"# Models\n\n{_contents(list(models()))}"
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
