r"""Normal-form (Forney) graphs: variables are branches, and messages run both ways along each.

Every branch carries a forward message f (along its arrow) and a backward message b; its belief is their
normalised product. Parts compute what leaves them from what enters (see `normal_form_parts`):

    block      f_Y ~ theta' f_X,   b_X ~ theta b_Y
    diverter   each arm: product of what enters on the others

On a forest the messages are exact after one pass to a root and one back, or after as many synchronous steps
as the graph's diameter. Graphs with cycles are refused.

    p(x) = (1/Z) prod_blocks theta(x_in, x_out) prod_sources theta(x_out),   arms of a diverter being equal

Z is 1 when no diverter is entered by more than one branch; it is a constant for product spaces, and depends
on the matrices where several learned blocks meet in a diverter (the separable form).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.display import LIMIT
from ..core.errors import ModelError, QueryError, ZeroProbabilityError
from ..core.factor_graph import FactorGraph
from ..core.naming import NamedModel
from ..core.records import register
from ..core.result import Samples
from ..core.variable import Variables
from ..kernels.normal_form import flood, sample_states, two_pass
from .normal_form_evidence import at_open_ends
from .normal_form_messages import Messages, started
from .normal_form_parts import Block, Diverter, Part, Source, cut
from .normal_form_wiring import NormalFormWiring, check_parts, joined

__all__ = ["Block", "Diverter", "NormalForm", "Source"]


@register("NormalForm", fields=["branches", "parts"])
class NormalForm(NamedModel):
    """A normal-form graph; immutable.

    Parameters
    ----------
    branches
        Variables, or a mapping branch name -> states (a count or labels).
    parts
        `Source`, `Block` and `Diverter` objects. A branch leaves at most one part and enters at most one;
        an end without a part is a terminal, where evidence comes in.

    Examples
    --------
    >>> from credo.models.normal_form import Block, Diverter, NormalForm, Source
    >>> graph = NormalForm(
    ...     {"S": 2, "S1": 2, "S2": 2, "X": 2, "Y": 2},
    ...     [
    ...         Source("S", [0.6, 0.4]),
    ...         Diverter("S", ["S1", "S2"]),
    ...         Block("S1", "X", [[0.9, 0.1], [0.2, 0.8]]),
    ...         Block("S2", "Y", [[0.7, 0.3], [0.4, 0.6]]),
    ...     ],
    ... )
    >>> graph
    NormalForm(5 branches, 2 blocks, 1 sources, 1 diverters; terminals X, Y)
    >>> graph.messages({"X": [0, 1]}).beliefs["Y"].round(4)
    array([[0.6613, 0.3387],
           [0.4474, 0.5526]])
    """

    def __init__(self, branches: Any, parts: Sequence[Part]) -> None:
        self._branches = Variables.of(branches)
        self._parts = tuple(parts)
        check_parts(self._branches, self._parts)
        self._wiring = NormalFormWiring.of(self._branches, self._parts)
        self._position = {part.name: u for u, part in enumerate(self._parts)}

    @property
    def n_parameters(self) -> int:
        """Free numbers of the rows that are learned, those that are shared once; zeros are not free."""
        learned = {p.parameter: p.theta for p in self._parts if not isinstance(p, Diverter) and not p.fixed}
        return int(sum(np.count_nonzero(theta) - len(theta) for theta in learned.values()))

    @property
    def branches(self) -> Variables:
        """All branches as variables, inner ones and terminals."""
        return self._branches

    @property
    def parts(self) -> tuple[Part, ...]:
        """Sources, blocks and diverters."""
        return self._parts

    @property
    def wiring(self) -> NormalFormWiring:
        """Index arrays of the structure."""
        return self._wiring

    @property
    def diameter(self) -> int:
        """Synchronous steps after which the messages are exact, whatever they were at the start."""
        return self._wiring.diameter

    @cached_property
    def terminals(self) -> tuple[str, ...]:
        """Branches with an open end."""
        is_open = (self._wiring.tail < 0) | (self._wiring.head < 0)
        return tuple(self._branches.names[int(i)] for i in np.flatnonzero(is_open))

    def part(self, name: str) -> Part:
        """A part by name."""
        if name not in self._position:
            raise QueryError(f"no part named {name!r}; there are {sorted(self._position)}")
        return self._parts[self._position[name]]

    @cached_property
    def parameters(self) -> dict[str, np.ndarray]:
        """Name -> matrix of every block and source; tied ones appear once, a source as one row."""
        return {part.parameter: part.theta for part in self._parts if not isinstance(part, Diverter)}

    @cached_property
    def learnable(self) -> dict[str, tuple[str, ...]]:
        """Parameter -> names of the blocks or sources that share it, without the fixed ones."""
        found: dict[str, tuple[str, ...]] = {}
        for part in self._parts:
            if not isinstance(part, Diverter) and not part.fixed:
                found[part.parameter] = (*found.get(part.parameter, ()), part.name)
        return found

    def with_parameters(self, parameters: Mapping[str, Any]) -> NormalForm:
        """The same graph with some matrices replaced."""
        for name in parameters:
            if name not in self.parameters:
                raise QueryError(f"no parameter named {name!r}; there are {sorted(self.parameters)}")
        made = object.__new__(NormalForm)
        made._branches, made._wiring, made._position = self._branches, self._wiring, self._position
        made._parts = tuple(
            part
            if isinstance(part, Diverter) or part.parameter not in parameters
            else replace(part, theta=parameters[part.parameter])
            for part in self._parts
        )
        for old, new in zip(self._parts, made._parts, strict=True):
            if not isinstance(new, Diverter) and new.theta.shape != old.theta.shape:  # type: ignore[union-attr]
                shape = old.theta.shape  # type: ignore[union-attr]
                raise ModelError(f"{new.name}: expected a matrix of shape {shape}, got {new.theta.shape}")
        return made

    def randomised(
        self, seed: int | np.random.Generator | None = None, concentration: float = 1.0
    ) -> NormalForm:
        """The same graph with every learnable row drawn from a symmetric Dirichlet distribution."""
        rng = check.generator(seed)
        shapes = {name: self.parameters[name].shape for name in self.learnable}
        return self.with_parameters(
            {name: rng.dirichlet(np.full(m, concentration), size=rows) for name, (rows, m) in shapes.items()}
        )

    def tap(self, branch: str, name: str = "") -> NormalForm:
        """Cut a branch and put a diverter there, with a new terminal to read from or to put evidence on.

        Parameters
        ----------
        branch
            Any branch; it keeps its name on the side of the part it leaves, or on that of its open end.
        name
            Of the new terminal; the branch's name and " tap" by default.

        Examples
        --------
        >>> from credo.models.normal_form import Block, NormalForm, Source
        >>> chain = NormalForm({"X": 2, "Y": 2}, [Source("X", [0.5, 0.5]), Block("X", "Y", [[1, 0], [0, 1]])])
        >>> chain.tap("X").messages({"X tap": [[0.9, 0.1]]}).beliefs["Y"]
        array([[0.9, 0.1]])
        """
        is_end = self._wiring.head[self._branches.position(branch)] < 0
        return NormalForm(*cut(self._branches, self._parts, branch, name or f"{branch} tap", bool(is_end)))

    @cached_property
    def _theta(self) -> tuple[np.ndarray, np.ndarray]:
        flat, start, at = [], [], 0
        for part in self._parts:
            start.append(at)
            if not isinstance(part, Diverter):
                flat.append(part.theta.ravel())
                at += part.theta.size
        return np.concatenate([*flat, np.zeros(0)]), np.array(start, dtype=np.int64)

    def open_messages(self, evidence: Any = None, floor: float = 0.0) -> Messages:
        """Messages of the open ends only: the evidence; all others are uniform.

        `Messages.log_z` is the log of what the evidence was divided by to be normalised.
        """
        check.at_least("floor", floor, 0)
        return Messages(self, *at_open_ends(self._branches, self._wiring, evidence, floor))

    def messages(
        self,
        evidence: Any = None,
        *,
        schedule: Literal["two-pass", "flooding"] = "two-pass",
        steps: int | None = None,
        start: np.ndarray | None = None,
        floor: float = 0.0,
    ) -> Messages:
        """All messages, for all samples of the evidence at once.

        Parameters
        ----------
        evidence
            Branch -> a state, a state per sample (-1 or None where missing), or likelihoods
            (samples, states); also a data frame or `Samples`. Or the `Messages` of `open_messages`, which
            saves reading it again.
        schedule
            "two-pass" goes to a root and back; "flooding" sends all messages at once, `steps` times.
        steps
            Of flooding; the diameter by default, after which messages are exact.
        start
            (samples, flat) messages at the start of flooding; uniform by default.
        floor
            Likelihoods below this are raised to it.
        """
        check.one_of("schedule", schedule, ("two-pass", "flooding"))
        given = evidence if isinstance(evidence, Messages) else self.open_messages(evidence, floor)
        w = self._wiring
        theta, theta_start = self._theta
        parts = (w.message_start, theta, theta_start, w.kind, w.arm_start, w.arm_in, w.arm_out)
        flat = given.flat.copy()
        if schedule == "two-pass":
            log_z = two_pass(flat, *parts, w.order, w.towards, w.roots) + given.log_z
            self._refuse_impossible(log_z)
            return Messages(self, flat, log_z, given.observed)
        flat, new = started(w, flat, start), flat
        for _ in range(self.diameter if steps is None else steps):
            flood(flat, new, *parts)
            flat, new = new, flat
        found = Messages(self, flat, given.log_z, given.observed)
        return replace(found, log_z=given.log_z + found.settled_log_z())

    def _refuse_impossible(self, log_z: np.ndarray) -> None:
        bad = np.flatnonzero(np.isneginf(log_z))
        if len(bad):
            more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
            raise ZeroProbabilityError(
                f"evidence: sample {bad[0]}{more} has probability zero under this graph; "
                "check it, or give zeros a floor"
            )

    @cached_property
    def log_z(self) -> float:
        """Log of the weight without evidence; 0 unless branches meet in a diverter."""
        return float(self.messages().log_z[0])

    def log_likelihoods(self, evidence: Any) -> np.ndarray:
        """(samples,) log-probability of the evidence of each sample, jointly over all its branches."""
        return self.messages(evidence).log_z - self.log_z

    def sample(self, count: int, seed: int | None = None, evidence: Any = None) -> Samples:
        """Exact joint samples of all variables: a state at a root, then outwards through all parts.

        Parameters
        ----------
        count
            How many; with evidence for several samples, it must be their number.
        seed
            The same seed gives the same samples.
        evidence
            As in `messages`.
        """
        check.whole("count", count, 0)
        messages = self.messages(evidence)
        if len(messages) not in (1, count):
            raise QueryError(f"sample: expected evidence for 1 or {count} samples, got {len(messages)}")
        w = self._wiring
        theta, theta_start = self._theta
        draws = check.generator(seed).random((count, len(w.roots) + len(self._parts)))
        states = np.zeros((count, len(self._branches)), dtype=np.int64)
        parts = (w.message_start, theta, theta_start, w.kind, w.arm_start, w.arm_in)
        sample_states(messages.flat, *parts, w.order, w.towards, w.roots, draws, states)
        first = [self._branches.position(name) for name in self.variables.names]
        return Samples(self.variables, states[:, first])

    @cached_property
    def variable_of(self) -> dict[str, str]:
        """Branch -> variable; branches joined by diverters are one variable, named like the first of them."""
        return joined(self._branches, self._parts)

    @cached_property
    def variables(self) -> Variables:
        """One variable per set of branches joined by diverters."""
        return Variables.of([v for v in self._branches if self.variable_of[v.name] == v.name])

    def to_factor_graph(self) -> FactorGraph:
        """A table per block and source over the variables; the same object at every call."""
        return self._factor_graph

    @cached_property
    def _factor_graph(self) -> FactorGraph:
        tables = [part for part in self._parts if not isinstance(part, Diverter)]
        scopes = [[self.variable_of[x] for x in part.inputs + part.outputs] for part in tables]
        scope_start = np.concatenate([[0], np.cumsum([len(s) for s in scopes])]).astype(np.int64)
        scope = self.variables.positions([name for s in scopes for name in s])
        with np.errstate(divide="ignore"):
            return FactorGraph.from_flat(self.variables, scope_start, scope, np.log(self._theta[0]))

    def _columns(self) -> Mapping[str, Callable[[int], str]]:
        names = self.variables.names
        branches = {name: [b for b, v in self.variable_of.items() if v == name] for name in names[:LIMIT]}
        return {"branches": lambda i: ", ".join(branches[names[i]])}

    def __repr__(self) -> str:
        counts = [sum(isinstance(p, kind) for p in self._parts) for kind in (Block, Source, Diverter)]
        shown = ", ".join(self.terminals[:8]) + (", ..." if len(self.terminals) > 8 else "")
        return (
            f"NormalForm({len(self._branches)} branches, {counts[0]} blocks, {counts[1]} sources, "
            f"{counts[2]} diverters; terminals {shown or 'none'})"
        )
