r"""Expectation propagation on models of discrete, real and simplex variables.

Each factor f_a is replaced by a site from an exponential family: Gaussian for real variables, categorical for
discrete ones, Dirichlet for simplex ones. `sites=diagonal` are products over variables; `sites=block` are
Gaussians over all real variables of a factor: q is one joint Gaussian, Gaussian factors are exact as a whole,
also in loops, and chains settle in fewer sweeps, at the price of the inverse of a matrix per batch of
updates. With q the product of all sites,

    cavity         q^{-a} = q / site_a^power
    tilted         f_a^power q^{-a}
    new site       site_a = ( proj[ f_a^power q^{-a} ] / q^{-a} )^(1 / power),

where proj keeps the expected sufficient statistics. power = 1 is expectation propagation; smaller powers are
power EP, which is stabler where factors have several modes. A mapping gives powers to some factors by their
numbers in the model. With power 1 and discrete variables only it is belief propagation, with Gaussian factors
only Gaussian belief propagation. The value is

    log Z ~ log int q + sum_a ( log int f_a^power q^{-a} - log int q ) / power

over the scope of a inside the sum (in natural parameters, not normalised), an estimate. Factors in the
family, and the diagonals of Gaussian factors, are not approximated, and Gaussian factors have no power.
Tilted distributions are summed over the joint states of discrete variables and over Gauss-Hermite points of
real ones; where these are too few, integrals over one or two real variables are adaptive (`ep_points.py`),
across kinks and edges of supports too.

A number that is described by a free coordinate has a Gaussian belief about the coordinate; its marginal is
what the tilted distributions make of that (`ep_marginals.py`).

Nothing guarantees convergence. The residual is the largest change of a site, undamped and in units of the
beliefs; it vanishes where all tilted distributions have the moments of the beliefs. An update is skipped
where the tilted distribution has no integral or its proposal is still far off, or the belief would lose its
integral; the notes say how often. A negative precision of a site is nothing to worry about: couplings need
them. A run whose last sweep skipped updates has stalled, not converged.

Schedules: `sequential` (batches of factors that share no variable, forwards and backwards in turn), `tree`
(leaves to roots of a spanning forest and back), `flooding` (all at once, in parallel), `auto` (tree on
forests, else sequential). A sweep evaluates a few times (joint states) x nodes^(real variables) points per
factor, thousands where integrals are adaptive.

Sources: Minka (2001, 2004).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from ...core import check
from ...core.errors import OptionError, QueryError
from ...core.records import record
from ...core.result import Estimate, Result, Status
from ...optimise.run import check as check_clock
from ..problem.base import IterativeAlgorithm, Problem, register
from ..problem.gaussian_system import refuse_improper
from ..problem.given_states import refuse_improper_states
from .ep_beliefs import SiteBeliefs, beliefs_of
from .ep_marginals import marginals_of
from .ep_sites import SiteGroup, SiteLayout, SiteParameters
from .ep_tilted import Proposal
from .ep_updates import Update, UpdateBatch, batches, log_scale, update

__all__ = ["EP", "EPState"]

_ENDLESS = 1e8  # a standard deviation this many times the first one says that there is no integral


@record("ep", rebuilt=("layout", "order"))
class EPState(NamedTuple):
    """The sites, and where the points of each factor are."""

    layout: SiteLayout  # places of everything
    order: list[UpdateBatch]  # of one sweep
    sites: SiteParameters  # natural parameters of all sites
    proposals: tuple[Proposal, ...]  # per group
    turn: int = 0  # sweeps done
    skipped: int = 0  # updates skipped in the last sweep
    skipped_in_all: int = 0
    endless: int = -1  # the real variable whose variance grows without bound


@register
@dataclass(frozen=True, kw_only=True)
class EP(IterativeAlgorithm[EPState]):
    """Expectation propagation and power EP, with sites per variable or joint ones per factor.

    Examples
    --------
    >>> import credo
    >>> from credo import potentials
    >>> x, s = credo.Variable("x", credo.Real()), credo.Variable("s", ["off", "on"])
    >>> prior = credo.TableFactor([s], [0.5, 0.5])
    >>> model = credo.HybridNet([x, s], [prior, potentials.emission(x, s, [-1.0, 2.0], 1.0)])
    >>> found = credo.infer(model, "ep")
    >>> found.marginals["x"].mean.__round__(6), found.marginals["x"].variance.__round__(6)
    (0.5, 3.25)
    """

    name: ClassVar[str] = "ep"
    warm_starts: ClassVar[bool] = True
    power: float | Mapping[int, float] = 1.0  # of power EP, at most 1, which is EP; or per factor by number
    damping: float = 0.0  # weight of the old site
    schedule: Literal["auto", "flooding", "sequential", "tree"] = "auto"  # the order of the updates
    sites: Literal["diagonal", "block"] = "diagonal"  # per variable, or joint over the reals of a factor
    nodes: int = 20  # Gauss-Hermite points per real variable of a factor
    points: int = 512  # points on the simplex of a factor
    spread: float = 10.0  # first width of variables that no exact factor confines, in those of their profiles

    def __post_init__(self) -> None:
        """Check the options."""
        for a, power in self.power.items() if isinstance(self.power, Mapping) else [(0, self.power)]:
            check.whole("power: the number of a factor", a, 0)
            check.at_least("power", power, 0.01)
            if power > 1:
                raise OptionError(f"power must be at most 1, got {power!r}")
        check.in_range("damping", self.damping, 0, 1)
        check.one_of("schedule", self.schedule, ["auto", "flooding", "sequential", "tree"])
        check.one_of("sites", self.sites, ["diagonal", "block"])
        check.whole("nodes", self.nodes, 2)
        check.whole("points", self.points, 16)
        check.at_least("spread", self.spread, 1e-9)

    def start(self, problem: Problem, rng: np.random.Generator) -> EPState:
        """Sites that say nothing, or next to nothing where a belief needs it, or those of an earlier run."""
        graph = problem.graph
        refuse_improper(graph)
        refuse_improper_states(graph)
        layout = SiteLayout.of(
            graph,
            nodes=self.nodes,
            points=self.points,
            spread=self.spread,
            power=self.power,
            is_block=self.sites == "block",
        )
        if layout.constant == -np.inf:
            raise problem.contradiction()
        schedule: str = self.schedule
        if schedule == "auto":
            schedule = "tree" if graph.is_forest else "sequential"
        sites, order = layout.first, batches(layout, schedule)
        cold = EPState(layout, order, sites, layout.proposals())
        if problem.warm is None:
            return cold
        warm = problem.warm
        if not isinstance(warm, EPState) or _shapes(warm) != _shapes(cold):
            raise QueryError("warm_start: expected the result of ep on the same structure")
        return cold._replace(sites=warm.sites, proposals=warm.proposals)

    def step(self, problem: Problem, state: EPState) -> tuple[EPState, float]:
        """One sweep."""
        sites = state.sites.copy()
        proposals = tuple(Proposal(*(part.copy() for part in p)) for p in state.proposals)
        state = state._replace(sites=sites, proposals=proposals)
        sweep = self._flood if self.schedule == "flooding" else self._sweep
        change, skipped, endless = sweep(problem, state)
        state = state._replace(
            turn=state.turn + 1,
            skipped=skipped,
            skipped_in_all=state.skipped_in_all + skipped,
            endless=endless,
        )
        return state, np.inf if endless >= 0 else change

    def _sweep(self, problem: Problem, state: EPState) -> tuple[float, int, int]:
        """Batch by batch, each from the beliefs after the last."""
        beliefs = beliefs_of(state.layout, state.sites)
        change, skipped = 0.0, 0
        for g, rows in state.order[:: -1 if state.turn % 2 else 1]:
            group = state.layout.groups[g]
            new = self._update(problem, state, g, rows, beliefs, state.sites)
            endless = _endless(state.layout, group, rows, new)
            if endless >= 0:
                return change, skipped, endless
            keep = np.flatnonzero(new.exists)
            skipped += len(rows) - len(keep) + beliefs.put(group, rows[keep], state.sites, new.at(keep))
            change = max(change, float(new.change.max(initial=0.0)))
        return change, skipped, -1

    def _flood(self, problem: Problem, state: EPState) -> tuple[float, int, int]:
        """All from the old beliefs; what would leave a belief without an integral is taken back."""
        layout, sites = state.layout, state.sites
        beliefs, before = beliefs_of(layout, sites), sites.copy()
        change, skipped = 0.0, 0
        for g, rows in state.order:
            group = layout.groups[g]
            new = self._update(problem, state, g, rows, beliefs, before)
            endless = _endless(state.layout, group, rows, new)
            if endless >= 0:
                return change, skipped, endless
            keep = np.flatnonzero(new.exists)
            new.at(keep).write(group, rows[keep], sites)
            change = max(change, float(new.change.max(initial=0.0)))
            skipped += len(rows) - len(keep)
        return change, skipped + beliefs.repair(layout, sites, before), -1

    def _update(
        self,
        problem: Problem,
        state: EPState,
        g: int,
        rows: np.ndarray,
        beliefs: SiteBeliefs,
        sites: SiteParameters,
    ) -> Update:
        check_clock()
        new = update(state.layout.groups[g], rows, beliefs, sites, state.proposals[g], 1 - self.damping)
        if not new.possible:
            raise problem.contradiction()
        return new

    def read(self, problem: Problem, state: EPState, status: Status) -> Result:
        """Beliefs and the value of the approximation."""
        layout, variables = state.layout, problem.graph.variables
        beliefs = beliefs_of(layout, state.sites)
        if state.endless >= 0:
            name = variables.names[int(np.flatnonzero(layout.kinds == "r")[state.endless])]
            sentence = f"the variance of '{name}' grows without bound: the product of the factors seems to "
            return Result(self.name, Status.DIVERGED, notes=(sentence + "have no integral",))
        notes: tuple[str, ...] = ()
        if state.skipped_in_all:
            notes = (
                f"{state.skipped} updates were skipped in the last sweep and {state.skipped_in_all} in all, "
                "where a tilted distribution or belief would have no integral, or points missed the mass; "
                "damping, block sites, more nodes or a smaller power may help",
            )
            if status is Status.CONVERGED and state.skipped:
                status = Status.STALLED
        value = self._log_z(state, beliefs)
        if value == -np.inf:
            raise problem.contradiction()
        if value is None:
            notes = (*notes, "a tilted distribution has no integral, so there is no log Z")
        return Result(
            self.name,
            status,
            log_z=None if value is None else Estimate(value, "estimate"),
            marginals=marginals_of(variables, state, beliefs, problem.vectors),
            notes=notes,
        )

    def _log_z(self, state: EPState, beliefs: SiteBeliefs) -> float | None:
        layout = state.layout
        norms = beliefs.other_log_norms()
        if (norms[0] == -np.inf).any():
            return -np.inf
        total = layout.constant + beliefs.real_log_norm() + float(norms[0].sum() + norms[1].sum())
        for group, proposal in zip(layout.groups, state.proposals, strict=True):
            own = Proposal(*(part.copy() for part in proposal))
            part = log_scale(group, beliefs, state.sites, own, norms)
            if part is None:
                return None
            total += part
        return total


def _endless(layout: SiteLayout, group: SiteGroup, rows: np.ndarray, new: Update) -> int:
    """A real variable whose tilted variance is beyond all bounds, or -1."""
    variables = group.real[0][rows]
    wide = np.argwhere(new.variance > (_ENDLESS * layout.sd[variables]) ** 2)
    return int(variables[wide[0, 0], wide[0, 1]]) if len(wide) else -1


def _shapes(state: EPState) -> list[tuple[int, ...]]:
    parts = [*state.sites, *(part for proposal in state.proposals for part in proposal)]
    return [part.shape for part in parts]
