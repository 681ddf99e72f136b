"""`credo info`: what a model is made of, and what exact answers would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from .arguments import (
    EvidenceOption,
    JsonOption,
    ModelArgument,
    is_of_rows,
    load_model,
    read_evidence,
    with_graph,
)
from .output import print_json, print_pairs

if TYPE_CHECKING:
    from ..core.factor_graph import FactorGraph

__all__ = ["run"]


def run(model: ModelArgument, evidence: EvidenceOption = None, as_json: JsonOption = False) -> None:
    """Describe a model: variables, states, factors, structure, and the cost of exact answers."""
    loaded = load_model(model)
    if is_of_rows(loaded):
        _tell_rows(loaded, evidence, as_json)
        return
    whole = with_graph(loaded, model).to_factor_graph()
    observed = read_evidence(whole.variables, evidence)
    graph = _unobserved(whole, observed) if observed else whole
    facts: dict[str, Any] = {
        "model": type(loaded).__name__,
        "observed": len(observed),
        "variables": len(whole.variables),
    }
    is_discrete = whole.variables.is_discrete
    facts |= {**_facts(graph), **_forecast(graph)} if is_discrete else _hybrid_facts(graph)
    if as_json:
        print_json(facts)
    else:
        print_pairs(_lines(facts) if is_discrete else _hybrid_lines(facts))


def _tell_rows(loaded: Any, evidence: list[str] | None, as_json: bool) -> None:
    """A model of rows or sequences: what it is, and how many parameters it has."""
    if evidence:
        raise typer.BadParameter(
            f"a {type(loaded).__name__} has rows, no variables to observe: no --evidence"
        )
    facts = {"model": type(loaded).__name__, "description": repr(loaded)}
    count = getattr(loaded, "n_parameters", None)
    if count is not None:
        facts["parameters"] = count
    if as_json:
        print_json(facts)
    else:
        print_pairs([(name, str(value)) for name, value in facts.items()])


def _unobserved(whole: FactorGraph, observed: dict[str, Any]) -> FactorGraph:
    """The conditioned graph; without the observed variables where some are continuous."""
    from ..inference.portfolio.question import Question
    from ..inference.problem.reading import compact

    if whole.variables.is_discrete:
        return whole.condition(observed)
    return compact(Question.of(whole, observed).problem((), None, None)).problem.graph


def _hybrid_facts(graph: FactorGraph) -> dict[str, Any]:
    """What a graph with continuous variables is made of; observed ones are not in it."""
    from collections import Counter

    return {
        "domains": dict(Counter(d.kind for d in graph.variables.domains)),
        "factors": graph.n_factors,
        "kinds": dict(Counter(type(f).__name__ for f in graph.factors)),
        "largest_scope": max((len(f.scope) for f in graph.factors), default=0),
        "shape": "forest" if graph.is_forest else "loopy",
    }


def _hybrid_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    told = {
        part: ", ".join(f"{count:,} {kind}" for kind, count in facts[part].items())
        for part in ("domains", "kinds")
    }
    return [
        ("model", facts["model"]),
        ("variables", f"{_variables(facts)}: {told['domains'] or 'none left'}"),
        ("factors", f"{facts['factors']:,} over at most {facts['largest_scope']} variables: {told['kinds']}"),
        ("structure", facts["shape"]),
    ]


def _variables(facts: dict[str, Any]) -> str:
    return f"{facts['variables']:,}" + (f" ({facts['observed']} observed)" if facts["observed"] else "")


def _facts(graph: FactorGraph) -> dict[str, Any]:
    from ..structures import connected_components, primal_graph, without_constants

    sizes, arity = graph.variables.sizes, graph.scope_start[1:] - graph.scope_start[:-1]
    primal = primal_graph(without_constants(graph))  # observed variables join nothing
    return {
        "states": {
            "min": int(sizes.min()) if len(sizes) else 0,
            "max": int(sizes.max(initial=0)),
            "total": int(sizes.sum()),
        },
        "factors": graph.n_factors,
        "largest_scope": int(arity.max(initial=0)),
        "largest_table": int(graph.table_size.max(initial=0)),
        "table_entries": int(graph.table_size.sum()),
        "edges": len(graph.scope),
        "neighbours": primal.n_edges,
        "parts": int(connected_components(primal).max(initial=-1)) + 1,
        "shape": _shape(graph),
    }


def _shape(graph: FactorGraph) -> str:
    """The narrowest word that fits."""
    from ..structures import is_chain, is_forest, is_tree

    tests = {"chain": is_chain, "tree": is_tree, "forest": is_forest}
    return next((word for word, test in tests.items() if test(graph)), "loopy")


def _forecast(graph: FactorGraph) -> dict[str, Any]:
    """What the junction tree would cost; nothing of that size is allocated."""
    from ..inference.exact.junction_tree import forecast

    cost = forecast(graph)
    return {
        "width": int(cost.width),
        "log2_entries": float(cost.log2_entries),
        "gigabytes": float(cost.gigabytes),
        "log2_operations": float(cost.log2_operations),
    }


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    states = facts["states"]
    low, high = states["min"], states["max"]
    span = f"{low}" if low == high else f"{low} to {high}"
    return [
        ("model", facts["model"]),
        ("variables", _variables(facts)),
        ("states", f"{span} per variable, {states['total']:,} in all"),
        (
            "factors",
            f"{facts['factors']:,} over at most {facts['largest_scope']} variables, {facts['edges']:,} edges",
        ),
        ("tables", f"{facts['table_entries']:,} entries, the largest has {facts['largest_table']:,}"),
        (
            "structure",
            f"{facts['shape']}, {_count(facts['parts'], 'connected part')}, "
            f"{_count(facts['neighbours'], 'pair')} of neighbours",
        ),
        (
            "junction tree",
            f"width {facts['width']}, 2^{facts['log2_entries']:.1f} table entries "
            f"({_size(facts['gigabytes'])}), 2^{facts['log2_operations']:.1f} operations",
        ),
    ]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _size(gigabytes: float) -> str:
    """A size with a unit a person would choose."""
    for unit, factor in (("GB", 1.0), ("MB", 1e3), ("kB", 1e6)):
        if gigabytes * factor >= 1:
            return f"{gigabytes * factor:.3g} {unit}"
    return f"{gigabytes * 1e9:.0f} bytes"
