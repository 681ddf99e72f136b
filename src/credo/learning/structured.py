r"""Structured prediction: margins, likelihoods and what lies between, with hidden variables.

    minimise  (1/N) sum_n U_n(w) - (1/N) log prior(w)

U_n is the risk of a member of the family of `structured_members`, which `objective` names. The prior is that
of all learners of weights: the constant C of support vector machines, in 1/2 |w|^2 + C sum_n U_n, is scale^2
of `prior="gaussian(scale=...)"`, and the lambda of lambda/2 |w|^2 + (1/N) sum_n U_n is 1 / (N scale^2).

Where `optimiser` is "auto":

    lbfgs                      members that are smooth: eps_y > 0, and eps_h > 0 or nothing is hidden
    frank-wolfe                eps_y = 0 and nothing is hidden, sequences: one compiled pass after another
    bundle                     the same, graphs: all instances in batches (`structured_bundle`)
    cccp(inner=bundle)         kinks, with hidden variables (`structured_cccp`)

The duality gap is the residual of the convex ones.

`subgradient(rate=...)` is the plain descent: with rate R here a step moves weights by R C N times that of the
sum. `adam` and `sgd` take mini-batches.

Hidden variables with weights of their own cannot be told apart where all weights are zero; learning then
starts at small random numbers drawn from the seed, and says so.

The field that is learned notes how its labels are predicted: what `decoding` says of the member.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from ..core import check
from ..core.errors import OptionError, UnsupportedError
from ..core.result import Status
from ..models.crf_inputs import LabelledSequences
from ..optimise.cccp import CCCP, Inner
from ..optimise.driver import drive
from ..optimise.frank_wolfe import FrankWolfe
from ..optimise.optimisers import Optimiser, optimiser_of
from .base import Fit, Task, register_learner
from .gradient import Aim, GradientLearner
from .log_linear import Objective
from .priors import Prior, prior_of
from .structured_blocks import BlockPasses, ChainBlocks, chain_blocks
from .structured_bundle import Bundle
from .structured_cccp import BundledRisk, HiddenRisk, PlanedRisk, Tangents
from .structured_chains import ChainAnswers, SlackAnswers, answers_of, node_charges
from .structured_leaves import LeafAnswers, LeafRisk
from .structured_losses import Hamming, LabelLoss, loss_of
from .structured_members import RiskMember, member_of
from .structured_planes import PlaneParts, PlaneProblem
from .structured_risk import GraphAnswers, StructuredRisk
from .structured_slack import EnumeratedSlack
from .structured_solvers import BlockFrankWolfe, ConcaveConvex, CuttingPlanes, solver_of, square_scale

__all__ = ["StructuredPrediction"]

_MOST = 200  # passes, or steps, of one convex problem
_BLIND = (
    "the steps of the convex problem found nothing lower, which they also do where they are too long: give "
    "them a smaller rate, or use cccp(inner=bundle)"
)


@register_learner
@dataclass(frozen=True, kw_only=True)
class StructuredPrediction(GradientLearner):
    """Margins and likelihoods of labels that depend on each other, hidden variables allowed.

    Examples
    --------
    >>> import credo, numpy as np
    >>> X = [[{"word": "the"}, {"word": "cat"}], [{"word": "the"}, {"word": "dog"}, {"word": "runs"}]]
    >>> y = [["det", "noun"], ["det", "noun", "verb"]]
    >>> found = credo.fit(credo.CRF(), X, "structured(objective=ssvm)", targets=y, tol=1e-2, seed=0)
    >>> credo.predict(found.model, [{"word": "the"}, {"word": "bird"}, {"word": "runs"}])
    array(['det', 'noun', 'verb'], dtype=object)
    """

    name: ClassVar[str] = "structured"
    tol: ClassVar[float] = 1e-4
    objective: str | RiskMember = "hcrf"  # a member, see `structured_members`
    loss: Any = "auto"  # "hamming", ..., a table (right, told), None; auto: hamming where the member has one
    rescaling: Literal["margin", "slack"] = "margin"  # what the loss scales, see `structured_slack`
    optimiser: Any = "auto"  # see above
    prior: str | Prior | None = "gaussian(scale=1)"  # on the weights: the C of margins is scale^2

    def __post_init__(self) -> None:
        """Check the options."""
        member_of(self.objective)
        self.loss_of_member()
        check.one_of("rescaling", self.rescaling, ["margin", "slack"])
        if self.rescaling == "slack" and (self.loss_of_member() is None or member_of(self.objective).eps_y):
            raise OptionError(
                f"rescaling=slack: expected a loss and a maximum over labels, got {self.objective}"
            )
        if self.optimiser != "auto":
            solver_of(self.optimiser)
        prior_of(self.prior)
        for name, value in (("batch", self.batch), ("patience", self.patience)):
            if value is not None:
                check.whole(name, value, 1)
        if self.tie is not None or self.fixed:
            raise OptionError("tie, fixed: all weights of a field of labels are learned; leave out")

    def loss_of_member(self) -> LabelLoss | None:
        """The loss, where `auto` leaves it to the member."""
        if isinstance(self.loss, str) and self.loss == "auto":
            return loss_of("hamming") if member_of(self.objective).has_loss else None
        return loss_of(self.loss)

    def why_not(self, task: Task) -> str | None:
        """Fields of labels given features."""
        if not getattr(task.model, "is_conditional", False) or not hasattr(task.model, "labelled"):
            return f"it learns to predict labels from features, got {task.name}; use a CRF"
        return None

    def answers(self, task: Task) -> Any:
        """Who answers the two questions about every instance: recursions of sequences, or any inference."""
        member, loss = member_of(self.objective), self.loss_of_member()
        if self.rescaling == "slack":
            return self._slack_answers(task)
        if task.inference is None and (found := answers_of(member, loss, task.data)) is not None:
            return found
        return self.graph_answers(task)

    def _slack_answers(self, task: Task) -> Any:
        """Slack rescaling: by counting errors along sequences, or by enumeration."""
        data, member, loss = task.data, member_of(self.objective), self.loss_of_member()
        is_counted = isinstance(loss, Hamming) and task.inference is None
        if isinstance(data, LabelledSequences) and data.is_complete and is_counted:
            return SlackAnswers(member, loss)
        return EnumeratedSlack(member, loss, task.inference, task.inference_budget, task.seed)

    def graph_answers(self, task: Task) -> GraphAnswers:
        """General inference, whatever the structure."""
        member, loss = member_of(self.objective), self.loss_of_member()
        if self.rescaling == "slack":
            return EnumeratedSlack(member, loss, task.inference, task.inference_budget, task.seed)
        return GraphAnswers(member, loss, task.inference, task.inference_budget, task.seed)

    def sees(self, task: Task, weights: Any, rng: np.random.Generator) -> Aim:
        """Minus the mean risk."""
        member = member_of(self.objective)
        curve = (
            "log_likelihood" if member.eps_y == member.eps_h == 1 and not member.has_loss else "minus_risk"
        )
        return Aim(Objective(weights, StructuredRisk(self.answers(task))), curve=curve)

    def begin(self, task: Task, weights: Any, rng: np.random.Generator) -> tuple[np.ndarray, str | None]:
        """The weights given; small random ones where hidden states could not be told apart for ever."""
        if hasattr(weights, "apart"):
            found: tuple[np.ndarray, str | None] = weights.apart(weights.start, rng)
            return found
        return weights.start, None

    def notes(self, seen: Aim) -> list[str]:
        """What was left out, and inference that did not converge."""
        answers = seen.objective.source.answers  # type: ignore[attr-defined]
        return list(answers.report())

    def run(self, task: Task, rng: np.random.Generator) -> Fit:
        """Learn by what suits the member and the data."""
        blank = int((task.data.known_counts == 0).sum())
        if blank == len(task.data):
            raise UnsupportedError("structured: no instance has a label, so nothing says what is right")
        solver = self.solver(task)
        blocks = self._blocks(task, solver)
        if blocks is None and not self._stays_sequences(task, solver):
            task = as_graphs(task)
        if isinstance(answers := self.answers(task), GraphAnswers):
            answers.check(task.data)
        if isinstance(solver, Optimiser):
            found = GradientLearner.run(replace(self, optimiser=solver), task, rng)
        elif blocks is not None:
            found = self._passes(task, blocks, solver, rng)
        else:
            found = self._descend(task, solver, rng)
        member = member_of(self.objective)
        told = [f"{blank} instances without any label say nothing and were left out"] if blank else []
        told.append(f"by {solver.name}: {member.name}")
        decoding = member.prediction(has_hidden=bool(getattr(found.model, "hidden", {})))
        return replace(found, model=found.model.with_decoding(decoding), notes=(*told, *found.notes))

    def _stays_sequences(self, task: Task, solver: Any) -> bool:
        """Whether recursions answer; planes are kept of graphs."""
        inner = solver
        if isinstance(solver, ConcaveConvex):
            inner = self._inner(solver, member_of(self.objective))
        return isinstance(self.answers(task), ChainAnswers) and not isinstance(inner, BlockFrankWolfe)

    def _blocks(self, task: Task, solver: Any) -> ChainBlocks | None:
        """Labelled sequences for the compiled passes, where these can take them."""
        if not isinstance(solver, BlockFrankWolfe) or solver.away:
            return None
        answers = self.answers(task)
        if not isinstance(answers, ChainAnswers) or len(task.data.labels) == 0:
            return None
        size = len(task.model.labels)
        charges = node_charges(answers.loss, task.data, size)
        scale = square_scale(prior_of(self.prior))
        assert scale is not None
        return chain_blocks(self.weights(task).layout, task.data, charges, scale**2)

    def solver(self, task: Task) -> Any:
        """What moves the weights."""
        member, is_hidden = member_of(self.objective), task.data.has_hidden
        if self.optimiser != "auto":
            solver = solver_of(self.optimiser)
        elif member.eps_y > 0 and (member.eps_h > 0 or not is_hidden):
            solver = optimiser_of("lbfgs")
        elif self.rescaling == "slack":
            solver = optimiser_of("subgradient") if is_hidden else CuttingPlanes()
        elif is_hidden:
            solver = ConcaveConvex()
        else:
            is_chain = isinstance(self.answers(task), ChainAnswers)
            solver = BlockFrankWolfe() if is_chain else CuttingPlanes()
            if square_scale(prior_of(self.prior)) is None:
                solver = optimiser_of("subgradient")
        self._check_solver(solver, member, is_hidden=is_hidden)
        return solver

    def _check_solver(self, solver: Any, member: RiskMember, *, is_hidden: bool) -> None:
        inner = self._inner(solver, member) if isinstance(solver, ConcaveConvex) else solver
        if is_hidden and isinstance(solver, (BlockFrankWolfe, CuttingPlanes)):
            raise UnsupportedError(
                f"{solver.name}: the risk is not convex where variables are hidden; use optimiser='cccp'"
            )
        if isinstance(inner, BlockFrankWolfe) and member.eps_y > 0:
            raise UnsupportedError(
                f"frank-wolfe: expected a member with a maximum over labels (eps_y = 0), got {member.name}; "
                "use lbfgs, or cccp(inner=lbfgs)"
            )
        if self.rescaling == "slack" and isinstance(solver, (BlockFrankWolfe, ConcaveConvex)):
            raise UnsupportedError(
                f"{solver.name}: slack rescaling is no difference of convex parts; use "
                "optimiser='bundle' where nothing is hidden, or subgradient(rate=...)"
            )
        has_planes = isinstance(inner, (BlockFrankWolfe, CuttingPlanes))
        if has_planes and square_scale(prior_of(self.prior)) is None:
            raise UnsupportedError(
                f"{inner.name}: expected a prior of squares about zero, such as gaussian(scale=1), which its "
                f"planes need, got {self.prior!r:.60}; use subgradient(rate=...) with others"
            )
        if not isinstance(solver, Optimiser) and (self.batch is not None or self.patience is not None):
            raise OptionError(f"batch, patience: {solver.name} takes all instances in turn; leave out")

    def _inner(self, solver: ConcaveConvex, member: RiskMember) -> Any:
        """What solves the convex problems."""
        if solver.inner != "auto":
            return solver_of(solver.inner)
        if member.is_smooth:
            return optimiser_of("lbfgs")
        has_planes = square_scale(prior_of(self.prior)) is not None
        return CuttingPlanes() if has_planes else optimiser_of("subgradient")

    def _descend(self, task: Task, solver: Any, rng: np.random.Generator) -> Fit:
        weights = self.weights(task)
        seen = self.sees(task, weights, rng)
        start, note = self.begin(task, weights, rng)
        if isinstance(solver, BlockFrankWolfe):
            found = self._planes(task, weights, seen, solver, rng)
        elif isinstance(solver, CuttingPlanes):
            found = self._bundle(task, weights, seen, start)
        else:
            found = self._tangents(task, weights, seen, solver, start, rng)
        told = ([note] if note else []) + self.notes(seen)
        return replace(found, notes=(*found.notes, *told))

    def _passes(self, task: Task, blocks: ChainBlocks, solver: BlockFrankWolfe, rng: Any) -> Fit:
        passes = BlockPasses(average=solver.average, name=self.name)
        outcome = drive(passes, blocks, task.budget, rng)
        trace = {name: np.array(numbers) for name, numbers in outcome.trace.items()}
        model = self.weights(task).model(passes.weights(blocks, outcome.state))
        told = [_within(outcome.residuals[-1])] if outcome.residuals else []
        objective = -trace.pop("objective", np.empty(0))
        trace = {"objective": objective, **trace}
        return Fit(model, outcome.ended, objective, None, trace, notes=tuple(told))

    def _planes(self, task: Task, weights: Any, seen: Aim, solver: BlockFrankWolfe, rng: Any) -> Fit:
        source: Any = seen.objective.source
        parts = PlaneParts(weights, source.answers, task.data)
        scale = square_scale(prior_of(self.prior))
        assert scale is not None
        problem = PlaneProblem(parts, parts.tangent(np.zeros(len(weights.start))), scale)
        outcome = drive(FrankWolfe(name=self.name, away=solver.away), problem, task.budget, rng)
        x = outcome.state.x
        places = [x.w, x.average] if solver.average else [x.w]
        primal = [problem.primal(w) for w in places]
        best = int(np.argmin(primal))
        dual = -problem.value(x)
        value, gap = np.array(outcome.trace.get("value", [])), np.array(outcome.trace.get("gap", []))
        trace = {"objective": np.append(value - gap, -primal[best]), "dual": np.append(-value, dual)}
        trace |= {"gap": np.append(gap, primal[best] - dual)}
        note = _within(primal[best] - dual)
        return Fit(weights.model(places[best]), outcome.ended, trace["objective"], None, trace, notes=(note,))

    def _bundle(self, task: Task, weights: Any, seen: Aim, start: np.ndarray) -> Fit:
        whole = BundledRisk(**self._pieces(task, seen, start), scale=self._scale)
        outcome = drive(Bundle(self.name), whole.bound(whole.begin()), task.budget)
        trace = {name: np.array(numbers) for name, numbers in outcome.trace.items()}
        objective, told = trace.get("objective", np.empty(0)), []
        if len(objective):
            told = [_within(float(trace["gap"][-1]))]
        return Fit(
            weights.model(outcome.state.best), outcome.ended, objective, None, trace, notes=tuple(told)
        )

    @property
    def _scale(self) -> float:
        return square_scale(prior_of(self.prior)) or 1.0

    def _pieces(self, task: Task, seen: Aim, start: np.ndarray) -> dict[str, Any]:
        is_smooth = member_of(self.objective).is_smooth
        prior = prior_of(self.prior)
        given = {"objective": seen.objective, "prior": prior, "batch": task.data}
        return given | {"first": start, "is_smooth": is_smooth}

    def _tangents(
        self, task: Task, weights: Any, seen: Aim, solver: ConcaveConvex, start: np.ndarray, rng: Any
    ) -> Fit:
        inner, given = self._inner(solver, member_of(self.objective)), self._pieces(task, seen, start)
        if prior_of(self.prior).strength():
            raise UnsupportedError(
                "cccp: expected a smooth prior, got one with absolute values; use gaussian"
            )
        problem: HiddenRisk
        descent: Any
        answers = seen.objective.source.answers  # type: ignore[attr-defined]
        if isinstance(answers, LeafAnswers) and isinstance(inner, BlockFrankWolfe) and not inner.away:
            return self._leaves(task, weights, answers, inner, start, rng, steps=solver.steps)
        if isinstance(inner, BlockFrankWolfe):
            parts = PlaneParts(weights, self.graph_answers(task), task.data)
            problem = PlanedRisk(**given, source=parts, scale=self._scale, average=inner.average)
            descent = FrankWolfe(name=self.name, away=inner.away)
        elif isinstance(inner, CuttingPlanes):
            problem, descent = BundledRisk(**given, scale=self._scale), Bundle(self.name)
        else:
            problem, descent = HiddenRisk(**given), Tangents(inner)
        # A descent over kinks knows no residual of a place, only what it gained: it uses all its steps.
        is_blind, tol = type(problem) is HiddenRisk and not problem.is_smooth, task.budget.tol
        ends = {"solved": 0.0, "fall": tol} if is_blind else {"solved": tol / 2}
        looks = Inner(solver.steps, _MOST, **ends)
        outcome = drive(CCCP(solver=descent, inner=looks, name=self.name), problem, task.budget, rng)
        values = np.array([problem.value(problem.begin()), *outcome.trace.get("value", [])])
        trace = {"objective": -values, "change": np.array(outcome.residuals)}
        model = weights.model(problem.weights_of(outcome.state.x))
        note = (_BLIND,) if is_blind and outcome.ended is Status.STALLED else ()
        return Fit(model, outcome.ended, trace["objective"], None, trace, notes=note)

    def _leaves(
        self, task: Task, weights: Any, answers: LeafAnswers, inner: BlockFrankWolfe, start: Any, rng: Any,
        *, steps: int,
    ) -> Fit:  # fmt: skip
        """Chains with a hidden node at each label, by compiled passes."""
        problem = LeafRisk(answers, weights, start, task.data, self._scale**2, inner.average)
        looks = Inner(steps, _MOST, task.budget.tol / 2)
        descent = CCCP(solver=BlockPasses(average=inner.average, name=self.name), inner=looks, name=self.name)
        outcome = drive(descent, problem, task.budget, rng)
        values = np.array([problem.value(problem.begin()), *outcome.trace.get("value", [])])
        trace = {"objective": -values, "change": np.array(outcome.residuals)}
        model = weights.model(problem.theta(outcome.state.x))
        return Fit(model, outcome.ended, trace["objective"], None, trace)


def _within(gap: float) -> str:
    return f"the risk is at most {gap:.3g} per instance above the lowest one"


def as_graphs(task: Task) -> Task:
    """Sequences as graphs."""
    if not hasattr(task.data, "as_graphs"):
        return task
    size = len(task.model.labels)
    held = None if task.validation is None else task.validation.as_graphs(size)
    return replace(task, data=task.data.as_graphs(size), validation=held)
