"""Public models with known answers (UAI 2014): exact answers where the width allows, refusals elsewhere.

The models lie beside the repository and are never part of it; without them everything here is skipped.
Which models are too wide is decided by their forecasts: the others stay below 2^34 operations and 11 GB.
Slow are those that take more than a second, also those whose forecast takes one.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import credo
from credo.core.errors import TooLargeError, ZeroProbabilityError
from credo.io.uai_results import read_answer, read_evidence, read_query

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "uai14"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="no shared data beside the repository")

SLOW = {
    "2bitcomp_5.cnf",
    "Alchemy_11",
    "DBN_12",
    "DBN_14",
    "DBN_16",
    "Grids_16",
    "Grids_18",
    "Grids_20",
    "Grids_22",
    "ObjectDetection_12",
    "ObjectDetection_14",
    "ObjectDetection_16",
    "ObjectDetection_18",
    "ObjectDetection_20",
    "ObjectDetection_22",
    "c432.isc.cnf",
    "linkage_12",
    "linkage_14",
    "linkage_18",
    "linkage_20",
    "linkage_22",
    "linkage_24",
    "linkage_26",
    "relational_4",
}
TOO_WIDE = {"PR": {"2bitmax_6.cnf", "BN_74", "log-1.cnf", "relational_4"}, "MAR": {"relational_4"}}
# Of the MAP and marginal MAP models only the segmentations are narrow enough.
NARROW = {"Segmentation_12", "Segmentation_14", "Segmentation_16", "Segmentation_18"}
# The reference and the file do not belong together: each has a test of its own.
WRONG = {"relational_2", "sat-grid-pbl-0010.cnf"}


def models(task: str, *, wide: bool) -> list:
    """Names of the models of a task, the heavy ones marked."""
    found = sorted(p.name.removesuffix(".uai.gz") for p in (FOLDER / task).glob("*.uai.gz"))
    too_wide = TOO_WIDE.get(task, set(found) - NARROW)
    return [
        pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
        for name in found
        if name not in WRONG and (name in too_wide) == wide
    ]


def load(task: str, name: str):
    """The model and its evidence."""
    model = credo.load(FOLDER / task / f"{name}.uai.gz")
    return model, read_evidence(FOLDER / task / f"{name}.uai.evid", model.variables)


def reference(task: str, name: str) -> Path:
    return FOLDER / task / f"{name}.uai.{task}"


@cache
def solved(name: str):
    """PR and MAR have the same models, so one run answers both; only the small answers are kept."""
    model, evidence = load("PR", name)
    result = credo.infer(model, "junction-tree", evidence=evidence)
    return result.log_z.value / math.log(10), result.marginals


def last_digit(path: Path) -> float:
    """One unit of the last printed digit; the references were printed with six significant ones or more."""
    value = path.read_text().split()[-1]
    return 10.0 ** -len(value.partition(".")[2])


def test_pr_and_mar_share_their_models():
    for path in sorted((FOLDER / "MAR").glob("*.uai.gz")):
        assert path.read_bytes() == (FOLDER / "PR" / path.name).read_bytes()
        evidence = path.name.replace(".gz", ".evid")
        assert (path.parent / evidence).read_bytes() == (FOLDER / "PR" / evidence).read_bytes()


@pytest.mark.parametrize("name", models("PR", wide=False))
def test_log_z_agrees_with_the_printed_digits(name):
    path = reference("PR", name)
    assert solved(name)[0] == pytest.approx(read_answer(path).log10_z, abs=0.51 * last_digit(path))


@pytest.mark.parametrize("name", models("MAR", wide=False))
def test_marginals_agree_with_the_reference(name):
    expected = read_answer(reference("MAR", name)).marginals
    marginals = solved(name)[1]
    assert len(expected) == len(marginals)
    for vector, variable in zip(expected, marginals, strict=True):
        np.testing.assert_allclose(marginals[variable], vector, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", models("MAP", wide=False))
def test_the_map_assignment_scores_at_least_as_high_as_the_reference(name):
    model, evidence = load("MAP", name)
    graph = model.to_factor_graph()
    result = credo.infer(model, "junction-tree", evidence=evidence, maximise="all")
    states = read_answer(reference("MAP", name)).states
    assert sorted(states) == list(range(len(graph.variables)))
    theirs, ours = graph.log_scores(
        np.array([[states[i] for i in sorted(states)], result.assignment.indices])
    )
    assert ours >= theirs - 1e-9
    assert ours == pytest.approx(result.log_z.value, rel=1e-12)


@pytest.mark.parametrize("name", models("MMAP", wide=False))
def test_the_marginal_map_assignment_scores_at_least_as_high_as_the_reference(name):
    model, evidence = load("MMAP", name)
    query = read_query(FOLDER / "MMAP" / f"{name}.uai.query", model.variables)
    result = credo.infer(model, "junction-tree", evidence=evidence, maximise=query)
    names, positions = model.variables.names, model.variables.positions(query)
    states = read_answer(reference("MMAP", name), query=positions).states
    theirs = {names[i]: k for i, k in states.items()}
    ours = {n: result.assignment.index(n) for n in query}
    values = [
        credo.infer(model, "junction-tree", evidence={**evidence, **chosen}).log_z.value
        for chosen in (theirs, ours)
    ]
    assert values[1] >= values[0] - 1e-9
    assert result.log_z.value == pytest.approx(values[1], rel=1e-12)


@pytest.mark.parametrize(
    ("task", "name"),
    [
        pytest.param(task, *entry.values, marks=entry.marks)
        for task in ("PR", "MAR", "MAP", "MMAP")
        for entry in models(task, wide=True)
    ],
)
def test_a_model_that_is_too_wide_is_refused_with_its_forecast(task, name):
    model, evidence = load(task, name)
    maximise = {"MAP": "all"}.get(task, ())
    if task == "MMAP":
        maximise = read_query(FOLDER / "MMAP" / f"{name}.uai.query", model.variables)
    says = r"exact inference needs width \d+, .* GB, 2\^[\d.]+ operations: more than the limit of "
    with pytest.raises(TooLargeError, match=says):
        # Searching for a better order cannot bring these within reach.
        credo.infer(model, "junction-tree(effort=0.01)", evidence=evidence, maximise=maximise)


def relational_2_in_closed_form(graph, evidence) -> tuple[float, dict[int, np.ndarray]]:
    """Log10 of Z and the marginals of x and y, by hand.

    The model is 250 separate parts x, y, r_1 ... r_50 with factors over (x, r_k, y), (x, y) and each
    variable alone; given x and y the r_k are independent.
    """
    n, log_z, marginals = len(graph.variables), 0.0, {}
    observed = {graph.variables.position(name): state for name, state in evidence.items()}
    unary = {int(graph.scope_of(a)[0]): graph.log_table(a) for a in range(n)}
    weight = {i: np.exp(table) for i, table in unary.items()}
    for i, state in observed.items():
        weight[i] = weight[i] * np.eye(2)[state]
    part = {i: np.outer(weight[i], weight[n - 250 + i]) for i in range(250)}
    for a in range(n, graph.n_factors):
        x, *r, y = map(int, graph.scope_of(a))
        assert y == n - 250 + x
        table = np.exp(graph.log_table(a))
        part[x] = part[x] * (np.einsum("xry,r->xy", table, weight[r[0]]) if r else table)
    for i, table in part.items():
        log_z += math.log10(table.sum())
        marginals[i] = table.sum(axis=1) / table.sum()
        marginals[n - 250 + i] = table.sum(axis=0) / table.sum()
    return log_z, marginals


def test_the_references_of_relational_2_are_impossible_and_ours_equal_the_closed_form():
    """Evidence removes configurations, so log Z with evidence cannot exceed log Z without: printed it does.

    The printed marginals are one number for all x, whether or not the y beside them is observed.
    """
    model, evidence = load("PR", "relational_2")
    graph = model.to_factor_graph()
    printed = read_answer(reference("PR", "relational_2")).log10_z
    free, _ = relational_2_in_closed_form(graph, {})
    assert printed == 6397.048
    assert free == pytest.approx(6250.92, abs=0.01)
    assert printed > free + 100
    assert credo.infer(model, "junction-tree").log_z.value / math.log(10) == pytest.approx(free, rel=1e-12)

    log10_z, marginals = relational_2_in_closed_form(graph, evidence)
    found = credo.infer(model, "junction-tree", evidence=evidence)
    assert log10_z == pytest.approx(6242.6616, abs=1e-4)
    assert found.log_z.value / math.log(10) == pytest.approx(log10_z, rel=1e-12)
    for i, vector in marginals.items():
        np.testing.assert_allclose(found.marginals[graph.variables.names[i]], vector, rtol=0, atol=1e-10)

    theirs = read_answer(reference("MAR", "relational_2")).marginals
    beside_observed, beside_free = 7, 0
    assert graph.variables.names[len(graph.variables) - 250 + beside_observed] in evidence
    assert theirs[beside_observed].tolist() == theirs[beside_free].tolist()
    assert abs(marginals[beside_observed] - marginals[beside_free]).max() > 0.09


def test_a_model_that_lost_the_variables_of_some_factors_is_named_a_contradiction():
    """The file holds factors without variables and with weight zero, so nothing in it is possible.

    Without them the sum still differs from the printed one, so their content is lost, not just zero.
    """
    model, _ = load("PR", "sat-grid-pbl-0010.cnf")
    graph = model.to_factor_graph()
    lost = [a for a in range(graph.n_factors) if len(graph.scope_of(a)) == 0]
    assert len(lost) == 118
    assert all(graph.log_table(a) == -np.inf for a in lost)
    says = "the model gives every configuration weight zero: its factors contradict each other"
    with pytest.raises(ZeroProbabilityError, match=says):
        credo.infer(model, "junction-tree")
    rest = graph.select(np.setdiff1d(np.arange(graph.n_factors), lost))
    printed = read_answer(reference("PR", "sat-grid-pbl-0010.cnf")).log10_z
    assert credo.infer(rest, "junction-tree").log_z.value / math.log(10) > printed + 7


@pytest.mark.parametrize("name", ["Promedas_12", "Promedas_14"])
def test_the_reference_of_some_wide_marginal_map_models_is_impossible(name):
    """Given the reference states and the evidence, every configuration has weight zero."""
    model, evidence = load("MMAP", name)
    query = read_query(FOLDER / "MMAP" / f"{name}.uai.query", model.variables)
    states = read_answer(reference("MMAP", name), query=model.variables.positions(query)).states
    chosen = {model.variables.names[i]: k for i, k in states.items()}
    with pytest.raises(ZeroProbabilityError, match="the evidence has probability zero under this model"):
        credo.infer(model, "junction-tree", evidence={**evidence, **chosen})
