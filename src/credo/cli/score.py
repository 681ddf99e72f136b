"""`credo score`: the UAI 2022 score of a result file against a reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import JsonOption, MethodOption, load_discrete
from .output import print_json, print_pairs

if TYPE_CHECKING:
    from ..core.factor_graph import FactorGraph
    from ..evaluate.scoring import Score
    from ..io.uai_results import UaiAnswer

__all__ = ["run"]


def run(
    result: Annotated[str, typer.Argument(metavar="RESULT", help="The result file to judge.")],
    reference: Annotated[str, typer.Argument(metavar="REFERENCE", help="The result file to trust.")],
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="The model; needed for MAP and MMAP.")
    ] = None,
    evidence: Annotated[
        str | None, typer.Option("--evidence", "-e", metavar="FILE", help="The UAI evidence file.")
    ] = None,
    query: Annotated[
        str | None, typer.Option("--query", metavar="FILE", help="The query file of MMAP.")
    ] = None,
    method: MethodOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a UAI result file against a reference, as in the UAI 2022 competition."""
    from ..core.errors import FormatError
    from ..io.uai_results import read_answer, read_evidence, read_query

    if model is None and (evidence is not None or query is not None):
        raise typer.BadParameter("--evidence and --query need --model MODEL")
    graph = None if model is None else load_discrete(model).to_factor_graph()
    variables = None if graph is None else graph.variables
    observed = read_evidence(evidence, variables) if evidence is not None and variables is not None else {}
    asked = None
    if query is not None and variables is not None:
        asked = variables.positions(read_query(query, variables)).tolist()
    found, truth = (read_answer(path, query=asked) for path in (result, reference))
    if found.task != truth.task:
        raise FormatError(f"{result}: expected an answer to {truth.task} like {reference}, got {found.task}")
    score, details = _score(found, truth, graph, observed, method)
    facts = {
        "task": score.task,
        "score": score.score,
        "error": score.error,
        "trivial_error": score.trivial_error,
        "trivial_solver": score.trivial,
        **details,
    }
    if as_json:
        print_json(facts)
        return
    words = {k: f"{v:.6g}" if isinstance(v, float) else str(v) for k, v in facts.items()}
    print_pairs([(k.replace("_", " "), v) for k, v in words.items()])


def _score(
    found: UaiAnswer,
    truth: UaiAnswer,
    graph: FactorGraph | None,
    observed: Mapping[str, int],
    method: str | None,
) -> tuple[Score, dict[str, Any]]:
    from ..evaluate.scoring import score_marginals, score_partition, trivial_log10_z

    if found.log10_z is not None and truth.log10_z is not None:
        guess = None if graph is None else trivial_log10_z(graph.condition(observed))
        return score_partition(found.log10_z, truth.log10_z, guess), {}
    if found.marginals is not None and truth.marginals is not None:
        seen = [] if graph is None else [graph.variables.position(name) for name in observed]
        return score_marginals(found.marginals, truth.marginals, seen), {}
    return _assignments(found, truth, graph, observed, method)


def _assignments(
    found: UaiAnswer,
    truth: UaiAnswer,
    graph: FactorGraph | None,
    observed: Mapping[str, int],
    method: str | None,
) -> tuple[Score, dict[str, Any]]:
    from ..core.errors import QueryError
    from ..evaluate.scoring import score_assignment, trivial_assignment, value_of

    if graph is None:
        raise QueryError(f"{found.task}: the value of an assignment depends on the model; give --model MODEL")
    ours, theirs = (_name(answer, graph) for answer in (found, truth))
    if set(ours) != set(theirs):
        raise QueryError(
            f"{found.task}: expected states of the {len(theirs)} variables of the reference, "
            f"got {len(ours)} variables"
        )
    trivial = trivial_assignment(graph.condition(observed), theirs)
    values = [value_of(graph, a, evidence=observed, method=method) for a in (ours, theirs, trivial)]
    differ = sum(ours[name] != theirs[name] for name in theirs)
    details = {"log_value": values[0], "reference_log_value": values[1], "differs": differ}
    return score_assignment(values[0], values[1], values[2], found.task), details


def _name(answer: UaiAnswer, graph: FactorGraph) -> dict[str, str]:
    """Name -> label of an assignment given by positions."""
    from ..core.errors import QueryError

    named = {}
    for i, state in (answer.states or {}).items():
        if not 0 <= i < len(graph.variables) or not 0 <= state < graph.variables.sizes[i]:
            raise QueryError(f"{answer.task}: the model has no variable {i} with a state {state}")
        named[graph.variables.names[i]] = graph.variables[i].label(state)
    return named
