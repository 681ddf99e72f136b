"""One class of discriminative learning: its model as numbers that gradients move, and its answers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.records import record
from ..data.dataset import Dataset
from ..families.family_forms import FamilyForm
from ..families.moved import moved
from ..families.trees import Tree, map_tree
from ..inference.exact.hidden_rows import smooth_rows
from ..nn.adam import Learned, Rates, learned, move
from ..nn.arrays import precision
from ..nn.chunks import step_program
from .climb_step import ClimbStep, climb_carry, is_double
from .hidden_rows import ExpectedHidden

__all__ = ["ClassAnswer", "ClassModel", "ClassNumbers"]

_BLOCK = 256  # rows are filled up to a multiple of this


@record("class numbers")
class ClassNumbers(NamedTuple):
    """What moves."""

    leaves: Any  # carry of `ClimbStep`
    choices: Any = None  # Adam's group of log probabilities; None: they stay


class ClassAnswer(NamedTuple):
    """What a model says about some sequences."""

    model: Any
    part: Dataset
    leaves: Tree
    instance: Any
    found: Any  # log Z per sequence, marginals per row, counts


class ClassModel:
    """A model of hidden rows whose leaves, and perhaps whose choices, are moved by signed weights.

    Parameters
    ----------
    model
        Where it begins.
    data
        All sequences, as it reads them.
    with_choices
        Whether weights of mixtures, start and transition move too; zeros stay.
    """

    def __init__(self, model: Any, data: Dataset, *, with_choices: bool) -> None:
        self.model, self.data, self._with = model, data, with_choices
        self._rows = MovedRows(model.emission)

    def begin(self, rates: Rates, clip: float) -> ClassNumbers:
        """Before the first step."""
        with precision(is_double(self._rows)):
            carry = climb_carry(self._rows, rates, clip=clip)
        if not self._with:
            return ClassNumbers(carry)
        with precision(double=True):
            logs = map_tree(lambda p: np.log(np.where(p > 0, p, 1.0)), self._probabilities())
            return ClassNumbers(carry, learned(logs, rates, clip=clip))

    def _probabilities(self) -> Tree:
        none = np.zeros((0, len(self.model.emission))), np.zeros(1, dtype=np.int64)
        return {"tables": dict(self.model.hidden(*none).tables), "emission": self.model.emission.choices()}

    def at(self, numbers: ClassNumbers) -> Any:
        """The model with these numbers."""
        tree = {} if numbers.choices is None else self._normalised(numbers.choices.parameters)
        emission = GivenEmission(numbers.leaves["model"].parameters, tree.get("emission"))
        fixed = () if tree else tuple(part for part in self.model.parts if part != "emission")
        expected = ExpectedHidden(tree.get("tables", {}), emission, 0.0)
        return self.model.update(expected, fixed=fixed)

    def _normalised(self, logs: Tree) -> Tree:
        def softmax(start: np.ndarray, now: Any) -> np.ndarray:
            wide = np.where(start > 0, np.asarray(now, np.float64), -np.inf)
            shares: np.ndarray = np.exp(wide - wide.max(axis=-1, keepdims=True))
            return shares / shares.sum(axis=-1, keepdims=True)

        found: Tree = map_tree(softmax, self._probabilities(), logs)
        return found

    def answer(self, model: Any, units: np.ndarray) -> ClassAnswer:
        """Posteriors of some sequences under a model of this class."""
        part = self.data.take(units)
        leaves = model.emission.leaves(part.rows())
        instance = model.hidden(np.array(model.emission.combine(leaves)), part.begin)
        again = lambda some: np.array(model.emission.log_density(part.rows()[some]))  # noqa: E731
        return ClassAnswer(model, part, leaves, instance, smooth_rows(instance, again))

    def moved(self, numbers: ClassNumbers, answer: ClassAnswer, signs: np.ndarray) -> ClassNumbers:
        """One step up the sum of signed log-likelihoods, per sequence (Fisher's identity)."""
        rows, (counts, q) = answer.part.rows(), self.shares(answer, signs)
        scale = len(rows) / max(1, len(signs))  # steps divide by rows
        carry = self._climbed(numbers.leaves, rows, map_tree(lambda a: scale * a, q))
        if numbers.choices is None:
            return ClassNumbers(carry)
        slopes = self.choice_slopes(answer, signs, counts, numbers.choices)
        with precision(double=True):
            return ClassNumbers(carry, _plain(move(slopes, numbers.choices)))

    def _climbed(self, carry: Any, rows: np.ndarray, q: Tree) -> Any:
        size = len(rows) + -len(rows) % _BLOCK
        kind = np.float64 if is_double(self._rows) else np.float32
        tree = {"x": self._rows.to_arrays(rows), "q": map_tree(lambda a: np.asarray(a, kind), q)}
        tree = map_tree(lambda a: np.concatenate([a, np.zeros((size - len(a), *a.shape[1:]), a.dtype)]), tree)
        weights = (np.arange(size) < len(rows)).astype(np.float32)[None]
        program = step_program((ClimbStep(FamilyForm(self._rows)),)).compiled
        place = np.zeros(3, np.uint32)
        with precision(is_double(self._rows)):
            numbers, whose = np.arange(size, dtype=np.int32)[None], np.zeros(1, np.int32)
            return _plain(program(carry, tree, numbers, weights, whose, place, np.int32(1), room=1)[0])

    def shares(self, answer: ClassAnswer, signs: np.ndarray) -> tuple[Tree, Tree]:
        """Signed counts of the choices of the emission, and q of its leaves."""
        family, part = answer.model.emission, answer.part
        per_row = np.repeat(signs, np.diff(part.begin))[:, None]
        missing = family.missing(part.rows())[:, None]
        found: tuple[Tree, Tree] = family.divide(
            answer.leaves, np.where(missing, 0.0, answer.found.marginals * per_row)
        )
        return found

    def choice_slopes(self, answer: ClassAnswer, signs: np.ndarray, counts: Tree, group: Learned) -> Tree:
        """Minus the slopes by log probabilities: n - (sum n) p for every row of signed counts n."""
        tables: Any = {name: np.zeros_like(t, dtype=float) for name, t in answer.instance.tables.items()}
        for sign in (1.0, -1.0):
            share = np.maximum(sign * signs, 0.0)
            if share.any():
                scores = np.array(answer.model.emission.combine(answer.leaves))
                found = smooth_rows(answer.model.hidden(scores, answer.part.begin).weighed(share))
                tables = {name: tables[name] + sign * found.counts[name] for name in tables}
        told = {"tables": tables, "emission": counts}

        def slope(p: np.ndarray, n: np.ndarray) -> np.ndarray:
            return np.asarray(n.sum(axis=-1, keepdims=True) * p - n) / max(1, len(signs))

        found_slopes: Tree = map_tree(slope, self._normalised(group.parameters), told)
        return found_slopes


class MovedRows:
    """A family of which all leaves move, as steps read it."""

    def __init__(self, family: Any) -> None:
        self._family, self._moved = family, moved(family)
        self.n_parameters = family.n_parameters
        self.structure = (MovedRows, self._moved.structure)
        self.to_free, self.is_free = self._moved.to_free, self._moved.is_free
        self.pool, self.leaves_at = self._moved.pool, self._moved.leaves_at

    def to_arrays(self, x: np.ndarray) -> Any:
        """Rows as `leaves_at` takes them; missing ones have no weight."""
        found = self._family.to_arrays(x)
        return np.nan_to_num(x) if found is None else found

    def noisy_at(self, x: Tree, key: Any) -> Tree:
        """As the family says."""
        return self._family.noisy_at(x, key)


class GivenEmission:
    """Stands for expected sums of an emission whose numbers and choices are given."""

    def __init__(self, free: Tree, choices: Tree) -> None:
        self._free, self._choices = free, choices

    def update(self, family: Any, prior: Any = None, *, floor: float = 0.0) -> Any:
        """The family with these."""
        chosen = family if self._choices is None else moved(family).update(self._choices)
        return moved(chosen).from_free(self._free)


def _plain(tree: Any) -> Any:
    """NumPy arrays, which checkpoints keep."""
    import jax

    return jax.tree.map(np.asarray, tree)
