"""The learner of structured prediction: optima against other algorithms, what each way promises, refusals."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

import credo
from credo.core.errors import OptionError, UnsupportedError
from credo.core.result import Status
from credo.learning.structured import StructuredPrediction
from credo.learning.structured_losses import loss_of
from credo.learning.structured_members import member_of
from credo.learning.structured_planes import PlaneParts, PlaneProblem
from credo.learning.structured_risk import GraphAnswers, StructuredRisk


def _items(missing=False):
    rng = np.random.default_rng(3)
    x, y = [], []
    for n in range(5):
        x.append((rng.normal(size=(3, 2)), [(0, 1), (1, 2), (2, 0)] if n % 2 else None))
        labels = ["ab"[k] for k in rng.integers(0, 2, 3)]
        if missing:
            labels[n % 3] = None
        y.append(labels)
    return x, y


def _fit(y_missing, spec, **options):
    x, y = _items(y_missing)
    options = {"max_iter": 200, "tol": 1e-4, "seed": 0} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return credo.fit(credo.CRF(), x, spec, targets=y, **options)


def _pieces(missing, objective="ssvm"):
    x, y = _items(missing)
    crf = credo.CRF().filled(x, y)
    batch = crf.read_batch(x, y)
    return batch, crf.score_weights(batch), GraphAnswers(member_of(objective), loss_of("hamming"))


def _quadratic_programme():
    """The lowest value by one constraint per labelling, solved by another hand."""
    batch, weights, answers = _pieces(missing=False)
    source = StructuredRisk(answers)
    rows = []
    unit = np.eye(len(weights.start))
    for n in range(len(batch)):
        own = batch.take(np.array([n]))
        phi = {}
        for state in itertools.product(range(2), repeat=3):
            told = own.__class__(own.graphs, own.nodes, own.edges, np.array(state), own.start, own.edge_start)
            clamped = [answers.clamped(weights.scores(e, told), told).values[0] for e in unit]
            phi[state] = np.array(clamped)
        right = tuple(own.labels)
        rows += [(n, np.sum(np.array(y) != right), f - phi[right]) for y, f in phi.items()]
    unit_of, cost, away = (np.array(part) for part in zip(*rows, strict=True))
    count, n_units = len(weights.start), len(batch)
    found = minimize(
        lambda z: 0.5 * z[:count] @ z[:count] / n_units + z[count:].mean(),
        np.concatenate([np.zeros(count), np.full(n_units, 3.0)]),
        jac=lambda z: np.concatenate([z[:count] / n_units, np.full(n_units, 1 / n_units)]),
        constraints={
            "type": "ineq",
            "fun": lambda z: z[count + unit_of] - cost - away @ z[:count],
            "jac": lambda z: np.hstack([-away, np.eye(n_units)[unit_of]]),
        },
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert found.success
    value = source.values(weights.scores(found.x[:count], batch), batch).mean()
    return found.fun, value + 0.5 * found.x[:count] @ found.x[:count] / n_units


def test_the_gap_of_frank_wolfe_bounds_what_is_missing_to_the_quadratic_programme():
    lowest, at_its_weights = _quadratic_programme()
    assert at_its_weights == pytest.approx(lowest, abs=1e-8)
    for spec in ("frank-wolfe", "frank-wolfe(away=true)", "frank-wolfe(average=false)", "bundle"):
        for passes in (2, 10, 40):
            found = _fit(False, f"structured(objective=ssvm, optimiser={spec})", max_iter=passes)
            missing = -found.objective[-1] - lowest
            assert -1e-9 <= missing <= found.trace["gap"][-1] + 1e-9
            assert found.trace["dual"][-1] <= lowest + 1e-9
    assert missing < 1e-6


def test_compiled_passes_over_sequences_reach_the_optimum_of_graphs():
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(n, 2)) for n in (3, 4, 2)]
    y = [list(rng.choice(["a", "b"], len(part))) for part in x]
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for how in (None, "junction-tree"):
            options = {"inference": how, "seed": 0, "max_iter": 12}
            found.append(credo.fit(credo.CRF(), x, "structured(objective=ssvm)", targets=y, **options))
    for one, other in itertools.permutations(found):
        assert one.trace["dual"][-1] <= -other.objective[-1] + 1e-9
        assert one.trace["gap"][-1] < 0.3


def test_other_ways_come_near_the_same_optimum():
    best = _fit(False, "structured(objective=ssvm)", tol=1e-7)
    assert best.converged
    assert best.trace["gap"][-1] < 1e-7
    for spec, near in (("subgradient(rate=0.3, decay=0.03)", 0.02), ("cccp", 1e-6)):
        found = _fit(False, f"structured(objective=ssvm, optimiser={spec})", tol=1e-7)
        assert best.objective[-1] - near < found.objective[-1] <= best.objective[-1] + 1e-7


@pytest.mark.parametrize(
    "spec",
    [
        "mssvm",
        "lssvm",
        "mllr",
        "hcrf, optimiser=cccp",
        "epsilon(eps=0.5), optimiser=cccp",
    ],
)
def test_the_concave_convex_procedure_never_raises_the_risk(spec):
    found = _fit(True, f"structured(objective={spec})", max_iter=40)
    assert found.converged
    assert (np.diff(found.objective) >= -1e-10).all()
    assert found.objective[-1] > found.objective[0]


@pytest.mark.parametrize("rate", [0.3, 300])
def test_a_descent_over_kinks_that_found_nothing_lower_has_stalled(rate):
    found = _fit(True, f"structured(objective=mssvm, optimiser=cccp(inner=subgradient(rate={rate})))")
    assert found.status is Status.STALLED
    assert any("give them a smaller rate" in note for note in found.notes)
    assert (np.diff(found.objective) >= -1e-10).all()
    best = _fit(True, "structured(objective=mssvm)").objective[-1]
    assert found.objective[-1] == (-2.0 if rate == 300 else pytest.approx(best, abs=2e-3))


def test_its_surrogate_touches_and_lies_above():
    batch, weights, answers = _pieces(missing=True, objective="mssvm")
    rng = np.random.default_rng(0)
    there = rng.normal(size=len(weights.start))
    parts = PlaneParts(weights, answers, batch)
    problem = PlaneProblem(parts, parts.tangent(there), 1.5)

    def risk(w):
        value = StructuredRisk(answers).values(weights.scores(w, batch), batch).mean()
        return value + 0.5 * w @ w / (1.5**2 * len(batch))

    assert problem.primal(there) == pytest.approx(risk(there), abs=1e-12)
    for _ in range(20):
        w = there + rng.normal(size=len(there))
        assert problem.primal(w) >= risk(w) - 1e-12


def test_the_crf_member_is_the_likelihood_learner():
    x, y = _items(True)
    found = _fit(True, "structured(objective=hcrf)", tol=1e-7)
    other = credo.fit(credo.CRF(), x, "likelihood(prior=gaussian(scale=1))", targets=y, tol=1e-7, seed=0)
    assert found.objective[-1] == pytest.approx(other.objective[-1], abs=1e-9)
    value = found.trace["log_likelihood"][-1] * len(x)
    assert value == pytest.approx(float(credo.learning.log_likelihood(found.model, x, targets=y)), abs=1e-6)


def test_an_instance_without_a_label_changes_nothing_but_a_note():
    x, y = _items(True)
    options = {"inference": "junction-tree", "seed": 0, "max_iter": 5, "tol": 1e-2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        more = credo.fit(
            credo.CRF(), [*x, x[0]], "structured(objective=lssvm)", targets=[*y, [None] * 3], **options
        )
    assert any("1 instances without any label" in note for note in more.notes)
    with pytest.raises(UnsupportedError, match="no instance has a label"):
        crf = credo.CRF(["a", "b"], np.zeros((2, 2)), np.zeros((2, 2)))
        credo.fit(crf, x, "structured", targets=[[None] * 3] * 5)


@pytest.mark.parametrize(
    ("missing", "spec", "sentence"),
    [
        (True, "structured(objective=mssvm, optimiser=frank-wolfe)", "not convex where variables are hidden"),
        (False, "structured(objective=crf, optimiser=frank-wolfe)", "a maximum over labels"),
        (False, "structured(objective=ssvm, optimiser=frank-wolfe, prior=laplace)", "a prior of squares"),
        (True, "structured(optimiser=cccp(inner=lbfgs), prior=laplace)", "expected a smooth prior"),
        (True, "structured(objective=epsilon(eps=0.5), inference=x)", "has no option 'inference'"),
        (False, "structured(objective=ssvm, batch=2)", "takes all instances in turn"),
        (False, "structured(optimiser=newton)", "no optimiser named 'newton'"),
        (False, "structured(optimiser=cccp(inner=cccp))", "got cccp itself"),
        (False, "structured(tie=shape)", "all weights of a field of labels are learned"),
    ],
)
def test_refused(missing, spec, sentence):
    with pytest.raises((OptionError, UnsupportedError), match=sentence):
        _fit(missing, spec)


@pytest.mark.parametrize(
    ("method", "spec"),
    [("lp", "mssvm"), ("gbp", "ssvm"), ("trw", "mssvm"), ("bp", "powered(eps_y=0.5, eps_h=1)")],
)
def test_inference_that_cannot_answer_is_refused(method, spec):
    with pytest.raises(UnsupportedError, match="cannot treat this problem"):
        _fit(True, f"structured(objective={spec})", inference=method, max_iter=2)


def test_slack_rescaling_by_counting_is_that_by_enumeration():
    x = [part[0] for part in _items()[0]]
    y = _items()[1]
    spec = "structured(objective=ssvm, rescaling=slack)"
    found = [
        credo.fit(credo.CRF(), x, spec, targets=y, inference=how, tol=1e-5, max_iter=300)
        for how in (None, "junction-tree")
    ]
    assert all(one.converged for one in found)
    assert found[0].objective[-1] == pytest.approx(found[1].objective[-1], abs=1e-5)
    hidden = _fit(True, spec.replace("ssvm", "mssvm"), max_iter=30)
    assert hidden.objective[-1] > hidden.objective[0]


def test_slack_is_refused_where_it_means_nothing():
    for spec, sentence in (
        ("structured(objective=crf, rescaling=slack)", "expected a loss and a maximum"),
        ("structured(objective=ssvm, rescaling=slack, optimiser=cccp)", "no difference of convex parts"),
    ):
        with pytest.raises((OptionError, UnsupportedError), match=sentence):
            _fit(False, spec)
    x, y = [np.ones((13, 1))], [list("ab") * 6 + ["a"]]
    with pytest.raises(UnsupportedError, match="expected at most 4096 labellings"):
        credo.fit(credo.CRF(), x, "structured(objective=ssvm, rescaling=slack)", targets=y, inference="bp")


def test_other_models_are_refused():
    with pytest.raises(UnsupportedError, match="it learns to predict labels from features"):
        credo.fit(credo.datasets.sprinkler(), {"rain": ["yes"]}, StructuredPrediction())


@pytest.mark.parametrize(
    ("missing", "spec"),
    [
        (False, "structured(objective=ssvm)"),
        (False, "structured(objective=ssvm, optimiser=frank-wolfe(away=true))"),
        (True, "structured(objective=mssvm)"),
        (True, "structured(objective=lssvm, optimiser=cccp(inner=frank-wolfe))"),
        (True, "structured(objective=mllr, optimiser=subgradient(rate=0.2))"),
    ],
)
def test_runs_go_on_from_checkpoints(missing, spec, tmp_path):
    whole = _fit(missing, spec, max_iter=6, tol=1e-9, inference="junction-tree")
    path = tmp_path / "run.credo"
    _fit(missing, spec, max_iter=3, tol=1e-9, inference="junction-tree", checkpoint=path, every=0.0)
    again = _fit(missing, spec, max_iter=6, tol=1e-9, inference="junction-tree", checkpoint=path, every=0.0)
    assert again.objective[-1] == pytest.approx(whole.objective[-1], abs=1e-12)
    assert again.model == whole.model
