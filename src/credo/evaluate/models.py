r"""Several models, one data set, one table of how well they explain it.

    log-lik.   highest log-likelihood found
    BIC        log-likelihood - d/2 log N
    Laplace    around the most probable parameters
    exact      log evidence in closed form, where there is one
    VB         free energy: below the log evidence
    p(model)   posterior probability of the model, all alike before; from the best column that all fill
    CV         log-likelihood per row of held-out parts, under parameters learned from the others
    nested p   likelihood-ratio test of the model before against this one

What a model cannot offer is "-", with the reason below the table. Higher is better everywhere but in p.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from ..core import check
from ..core.display import Listing, Shown, data_frame, finite
from ..core.errors import ModelError, OptionError, UnsupportedError
from ..learning.evidence import NestedTest, bic, model_posterior, nested_test
from ..optimise.driver import UNKNOWN, Outcome, Step, drive
from ..optimise.run import Budget, Run
from .candidates import Candidate, candidate

__all__ = ["ModelComparison", "ModelRow", "compare_models"]

_CRITERIA = ("bic", "laplace", "exact", "vb", "cv")


@dataclass(frozen=True)
class ModelRow:
    """One model's line of the table; None where there is nothing to say."""

    model: str
    parameters: int  # free numbers
    log_likelihood: float | None = None  # the highest found
    bic: float | None = None  # log-likelihood - d/2 log N
    laplace: float | None = None  # log evidence, approximately
    exact: float | None = None  # log evidence
    vb: float | None = None  # log evidence, from below
    posterior: float | None = None  # probability of the model among those of the table
    cv: float | None = None  # held-out log-likelihood per row
    cv_error: float | None = None  # standard error of it over the folds
    nested: NestedTest | None = None  # against the model of the row before
    seconds: float = 0.0  # wall time
    reasons: Mapping[str, str] = field(default_factory=dict)  # criterion -> why it is missing


@dataclass(frozen=True, repr=False)
class ModelComparison(Shown):
    """The table made by `compare_models`; print it, or read `rows`."""

    rows: tuple[ModelRow, ...]
    rows_of_data: int  # N of BIC
    basis: str | None = None  # the column the posterior is made from
    level: float = 0.05  # of the nested tests

    @property
    def best(self) -> str:
        """The most probable model; of the highest held-out likelihood, if there is no evidence."""
        key = "posterior" if self.basis is not None else "cv"
        known = [row for row in self.rows if getattr(row, key) is not None]
        if not known:
            raise OptionError("best: no column is filled by which models could be ordered; ask for vb or cv")
        return max(known, key=lambda row: getattr(row, key)).model

    @property
    def chosen(self) -> str:
        """Going up the nested models, the last one before a test does not reject."""
        if not any(row.nested is not None for row in self.rows):
            raise OptionError("chosen: no nested tests were made; ask for nested=True")
        last = self.rows[0].model
        for row in self.rows[1:]:
            if row.nested is None or not row.nested.rejects(self.level):
                break
            last = row.model
        return last

    def bayes_factor(self, one: str, other: str) -> float:
        """Ratio of the evidences of two models."""
        if self.basis is None:
            raise OptionError("bayes_factor: no column of evidence is filled for all models")
        return float(np.exp(getattr(self[one], self.basis) - getattr(self[other], self.basis)))

    def __getitem__(self, model: str) -> ModelRow:
        for row in self.rows:
            if row.model == model:
                return row
        raise OptionError(f"no row '{model}'; there are {[row.model for row in self.rows]}")

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[ModelRow]:
        return iter(self.rows)

    @property
    def columns(self) -> list[str]:
        """Titles of the columns; those that no row fills are left out."""
        return [title for title, _ in self._layout]

    @property
    def _layout(self) -> list[tuple[str, str]]:
        names = [
            ("model", "model"), ("params", "parameters"), ("log-lik.", "log_likelihood"), ("BIC", "bic"),
            ("Laplace", "laplace"), ("exact", "exact"), ("VB", "vb"), ("p(model)", "posterior"),
            ("CV per row", "cv"), ("nested p", "nested"), ("seconds", "seconds"),
        ]  # fmt: skip
        return [n for n in names if any(getattr(row, n[1]) is not None for row in self.rows)]

    def cells(self) -> list[list[str]]:
        """The text of every cell, row by row."""
        return [[_cell(row, key) for _, key in self._layout] for row in self.rows]

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dictionary of plain values per row; infinite numbers become text."""
        found = []
        for row in self.rows:
            plain = {key: finite(getattr(row, key)) for key in ModelRow.__dataclass_fields__}
            plain["nested"] = None if row.nested is None else row.nested.p
            plain["reasons"] = dict(row.reasons)
            found.append(plain)
        return found

    def to_json(self) -> str:
        """The rows as a JSON list."""
        return json.dumps(self.to_dicts(), indent=2)

    def to_frame(self) -> Any:
        """A pandas data frame with the model as index."""
        rows = self.to_dicts()
        columns = {key: [row[key] for row in rows] for key in rows[0] if key != "reasons"}
        return data_frame(columns).set_index("model")

    def sentences(self) -> Iterator[str]:
        """What is said below the table: where p(model) is from, and why cells are empty."""
        if any(row.bic is not None for row in self.rows):
            yield f"BIC is log-likelihood - d/2 log N with N = {self.rows_of_data}: higher is better"
        if self.basis is not None:
            yield f"p(model) is made from the column {dict(_TITLES)[self.basis]}"
        for criterion in _CRITERIA:
            said: dict[str, list[str]] = {}
            for row in self.rows:
                if criterion in row.reasons:
                    said.setdefault(row.reasons[criterion], []).append(row.model)
            yield from (f"no {dict(_TITLES)[criterion]} for {', '.join(m)}: {why}" for why, m in said.items())

    def _shown(self) -> Iterable[str | Listing]:
        yield Listing(self.cells(), [title != "model" for title in self.columns], self.columns)
        yield from self.sentences()


_TITLES = (("bic", "BIC"), ("laplace", "Laplace"), ("exact", "exact"), ("vb", "VB"), ("cv", "CV"))


def compare_models(
    models: Mapping[str, Any] | Iterable[Any],
    data: Any,
    *,
    criteria: Sequence[str] | None = None,
    prior: Any = None,
    folds: int = 5,
    nested: bool = False,
    level: float = 0.05,
    restarts: int = 3,
    seed: int | None = 0,
    groups: str | None = None,
    columns: Any = None,
    lengths: Any = None,
    targets: Any = None,
) -> ModelComparison:
    """Weigh models against each other on the same data.

    Parameters
    ----------
    models
        Name -> model, or a list: Bayesian networks (their structure counts, tables are learned), models of
        hidden rows (`HMM`, `SemiMarkov`, `FactorialHMM`, mixtures, families with one member, any
        `Learnable`), or blanks of these, which get columns and states from the data; models of weights, of
        labels, documents and blocks, as `credo.fit` learns them. Conditional likelihoods, of a `CRF`, are
        compared with each other only.
    data
        As in `fit`.
    criteria
        Some of `"bic"`, `"laplace"`, `"exact"`, `"vb"`, `"cv"`; all by default.
    prior
        Of the parameters, in the form the models take: concentrations such as `"bdeu(size=10)"` for
        networks (the default), a conjugate prior for mixtures, `HMMPrior`.
    folds
        Parts of the cross-validation: rows or sequences at random; of fewer sequences than folds
        consecutive steps, each part scored given all other steps.
    nested
        Whether each model contains the one before; then each is tested against it. The test does not
        hold for numbers of components or hidden states, whose smaller models lie on the border.
    level
        Of the nested tests.
    restarts, seed
        Of everything iterative; the seed also deals the rows into folds.
    groups, columns, lengths, targets
        Of the data, as in `fit`.

    Examples
    --------
    >>> import credo
    >>> from credo.evaluate.models import compare_models
    >>> tables = {"a": [0.5, 0.5], "b": [[0.9, 0.1], [0.2, 0.8]]}
    >>> truth = credo.BayesNet({"a": 2, "b": 2}, {"b": ["a"]}, tables)
    >>> apart = credo.BayesNet.random({"a": 2, "b": 2}, seed=0)
    >>> data = credo.sample(truth, 200, seed=0)
    >>> table = compare_models({"apart": apart, "a -> b": truth}, data, nested=True)
    >>> table.best, table.chosen, table.basis
    ('a -> b', 'a -> b', 'exact')

    Two hidden states or three, told from one sequence:

    >>> two, three = credo.HMM.gaussian(states=2), credo.HMM.gaussian(states=3)
    >>> from credo.families import DiagonalGaussian
    >>> far = DiagonalGaussian([[0.0], [4.0]], [[1.0], [1.0]])
    >>> truth = credo.HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], far)
    >>> x, _ = credo.sample(truth, lengths=100, seed=0)
    >>> table = compare_models({"2": two, "3": three}, x, criteria=["bic", "vb", "cv"])
    >>> table.best, table.basis
    ('2', 'vb')
    """
    named = _named(models)
    wanted = _CRITERIA if criteria is None else tuple(criteria)
    for name in wanted:
        check.one_of("criteria", name, _CRITERIA)
    check.whole("folds", folds, 2)
    check.in_range("level", level, 0, 1)
    options = {"prior": prior, "restarts": restarts, "seed": seed, "folds": folds}
    reading = {"groups": groups, "columns": columns, "lengths": lengths, "targets": targets}
    _check_alike(named)
    made = {name: candidate(m, data, **options, **reading) for name, m in named.items()}
    counts = {name: one.rows for name, one in made.items()}
    if len(set(counts.values())) > 1:
        raise ModelError(f"models: expected models that read the same rows, got numbers of rows {counts}")
    todo = _Rows(list(made.items()), wanted, folds, seed)
    rows = drive(todo, None, Budget(max_iter=len(made) - 1))
    if nested:
        rows = _tested(rows)
    rows, basis = _weighed(rows)
    return ModelComparison(tuple(rows), next(iter(made.values())).rows, basis, level)


@dataclass(frozen=True)
class _Rows:
    """The comparison as the driver sees it: a row is a step, and the first one is the least there can be."""

    made: list[tuple[str, Candidate]]
    wanted: tuple[str, ...]
    folds: int
    seed: int | None
    name: ClassVar[str] = "compare-models"

    def start(self, problem: None, run: Run) -> Step:
        return Step((_row(*self.made[0], self.wanted, self.folds, self.seed),))

    def advance(self, problem: None, state: tuple[ModelRow, ...], run: Run) -> Step:
        row = _row(*self.made[len(state)], self.wanted, self.folds, self.seed)
        return Step((*state, row), [UNKNOWN])

    def read(self, problem: None, outcome: Outcome) -> list[ModelRow]:
        return list(outcome.state)


def _check_alike(named: Mapping[str, Any]) -> None:
    """Numbers in one column must be about the same thing."""
    given = [name for name, model in named.items() if getattr(model, "is_conditional", False)]
    if given and len(given) < len(named):
        joint = [name for name in named if name not in given]
        raise ModelError(
            f"models: {given} give probabilities of labels given features, {joint} joint ones, which are no "
            "numbers to compare; compare those of one kind"
        )


def _named(models: Any) -> dict[str, Any]:
    if not isinstance(models, Mapping):
        try:
            listed = list(models)
        except TypeError:
            raise OptionError(f"models: expected several, got one {type(models).__name__}") from None
        models = {f"{k}: {type(m).__name__}": m for k, m in enumerate(listed)}
    if not models:
        raise OptionError("models: expected at least one, got none")
    return {str(name): model for name, model in models.items()}


def _row(name: str, one: Candidate, wanted: tuple[str, ...], folds: int, seed: int | None) -> ModelRow:
    clock = time.perf_counter()
    value = one.likelihood()
    found: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    if "bic" in wanted:
        found["bic"] = bic(value, one.n_parameters, one.rows)
    for criterion in ("laplace", "exact", "vb"):
        if criterion in wanted:
            try:
                found[criterion] = getattr(one, criterion)().value
            except UnsupportedError as error:
                reasons[criterion] = str(error)
    if "cv" in wanted:
        if one.parts < folds:
            reasons["cv"] = f"the data have {one.parts} parts, fewer than folds={folds}"
        else:
            try:
                found["cv"], found["cv_error"] = _cross_validated(one, folds, seed)
            except UnsupportedError as error:
                reasons["cv"] = str(error)
    return ModelRow(
        name, one.n_parameters, value, seconds=time.perf_counter() - clock, reasons=reasons, **found
    )


def _cross_validated(one: Candidate, folds: int, seed: int | None) -> tuple[float, float]:
    """Held-out log-likelihood per row, and its standard error over the folds."""
    order = check.generator(seed).permutation(one.parts)
    values, sizes = [], []
    for fold in range(folds):
        test = np.sort(order[fold::folds])
        train = np.setdiff1d(order, test)
        value, size = one.held_out(train, test)
        values.append(value)
        sizes.append(size)
    per_row = np.array(values) / np.maximum(sizes, 1)
    return float(np.sum(values) / np.sum(sizes)), float(per_row.std(ddof=1) / np.sqrt(folds))


def _tested(rows: list[ModelRow]) -> list[ModelRow]:
    out = rows[:1]
    for before, row in pairwise(rows):
        assert before.log_likelihood is not None and row.log_likelihood is not None
        test = nested_test((before.log_likelihood, before.parameters), (row.log_likelihood, row.parameters))
        out.append(replace(row, nested=test))
    return out


def _weighed(rows: list[ModelRow]) -> tuple[list[ModelRow], str | None]:
    """Posterior probabilities from the best column that every row fills."""
    for basis in ("exact", "vb", "laplace", "bic"):
        values = [getattr(row, basis) for row in rows]
        if all(v is not None for v in values) and np.isfinite(values).any():
            chances = model_posterior(values)
            return [replace(r, posterior=float(p)) for r, p in zip(rows, chances, strict=True)], basis
    return rows, None


def _cell(row: ModelRow, key: str) -> str:
    value = getattr(row, key)
    if value is None:
        return "-"
    if isinstance(value, NestedTest):
        return f"{value.p:.3g}"
    forms = {"posterior": ".4f", "cv": ".5f", "seconds": ".2f"}
    return format(value, "z" + forms.get(key, ".3f")) if isinstance(value, float) else str(value)
