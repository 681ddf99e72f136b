r"""Blanks: models of rows whose columns, states and parameters are still to come from data.

A blank knows how many hidden states or components there are, and perhaps of which family the columns shall
be. `credo.fit` fills it: columns are read, the family is made for them, and members that are apart are chosen
to start from. Where nothing is said, numbers are Gaussian, all of them together with their covariances, and
states are categorical, each column by itself.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import numpy as np

from ..core import check
from ..core.display import Listing, Shown
from ..core.domain import Discrete, Domain, Real
from ..core.errors import DataError, ModelError
from ..core.records import register
from ..data.dataset import Dataset
from ..data.read import read
from ..data.sequences import emitted_columns
from ..data.sources import split_list
from .base import Family
from .categorical import Categorical
from .flow_kinds import flow_members, is_flow
from .gamma import Poisson
from .gaussian import Gaussian, TiedGaussian
from .gaussian_diagonal import DiagonalGaussian, SphericalGaussian
from .independent import IndependentRows
from .mixture import Mixture
from .product import Product
from .starts import distant_members, numbered
from .student import StudentT

__all__ = ["BlankMixture", "BlankRows", "family_of", "members_of"]

Kinds = str | Mapping[Any, str] | None


def _zeros(count: int, width: int) -> np.ndarray:
    return np.zeros((count, width))


_KINDS: dict[str, Callable[[int, int], Family]] = {
    "gaussian": lambda k, d: Gaussian(_zeros(k, d), np.broadcast_to(np.eye(d), (k, d, d))),
    "tied": lambda k, d: TiedGaussian(_zeros(k, d), np.eye(d)),
    "diagonal": lambda k, d: DiagonalGaussian(_zeros(k, d), np.ones((k, d))),
    "spherical": lambda k, d: SphericalGaussian(_zeros(k, d), np.ones(k)),
    "student": lambda k, d: StudentT(_zeros(k, d), np.ones((k, d)), np.full(k, 10.0)),
    "poisson": lambda k, d: Poisson(np.ones(k)),
    "categorical": lambda k, d: Categorical(np.full((k, d), 1.0 / d)),
}
_SINGLE = ("poisson", "categorical")  # families of one column


def members_of(kind: str, members: int, width: int) -> Family:
    """Members of the family of this name, over so many columns or, if it is categorical, states."""
    _check_kind(kind)
    return _KINDS[kind](members, width) if kind in _KINDS else flow_members(kind, members, width)


def _check_kind(kind: Any) -> None:
    """A name of the table, or a flow."""
    if not isinstance(kind, str) or not is_flow(kind):
        check.one_of("emission", kind, [*_KINDS, "flow"])


def family_of(kinds: Kinds, members: int, source: Any, **reading: Any) -> Family:
    """A family for the columns of a source, whatever the parameters of its members.

    Parameters
    ----------
    kinds
        One name for all columns, or column (or a tuple of them, which belong together) -> name: gaussian (any
        covariance), tied (one for all members), diagonal, spherical, student, poisson, categorical, or a flow
        (`flow_kinds`). None lets the columns say.
    members
        How many.
    source, reading
        As for `data.read_sequences`.

    Examples
    --------
    >>> from credo.families.blank import family_of
    >>> family_of(None, 2, {"hr": [60.5, 71.0], "alarm": ["no", "yes"]})
    Product(hr: Gaussian(2 members, dimension 1), alarm: Categorical(2 members, 2 states))
    >>> family_of("diagonal", 3, [[0.0, 1.0], [2.0, 3.0]])
    DiagonalGaussian(3 members, dimension 2)
    """
    if isinstance(source, Dataset):
        names: Any = list(reading.get("columns") or source.names)
    else:
        said = (reading.get(name) for name in ("groups", "columns", "weights"))
        names = emitted_columns(source, *said)
    if names is None:
        return _of_array(kinds, members, source, reading)
    given = _given(kinds, names)
    domains = _domains(given, names, source, reading)
    parts, groups = [], []
    for group, kind in _grouped(given, names, domains):
        width = domains[group[0]].size if kind == "categorical" else len(group)
        parts.append(members_of(kind, members, width))
        groups.append(group)
    labelled = {name: domain for name, domain in domains.items() if isinstance(domain, Discrete)}
    return Product(parts, groups, labelled)


def _given(kinds: Kinds, names: list[str]) -> dict[tuple[str, ...], str]:
    """Groups of columns that were given a family."""
    if kinds is None:
        return {}
    if isinstance(kinds, str):
        alone = kinds in _SINGLE
        return {(n,): kinds for n in names} if alone else {tuple(names): kinds}
    found = {(key,) if isinstance(key, str) else tuple(key): kind for key, kind in kinds.items()}
    for group, kind in found.items():
        lacking = [name for name in group if name not in names]
        if lacking:
            raise DataError(f"emission: no column '{lacking[0]}' in the data; they have {names[:8]}")
        if len(group) > 1 and kind in _SINGLE:
            raise ModelError(f"emission of {group}: expected one column for {kind}, got {len(group)}")
    return found


def _domains(
    given: Mapping[tuple[str, ...], str], names: list[str], source: Any, reading: Mapping[str, Any]
) -> dict[str, Domain]:
    """What the columns hold: numbers where the family says so, otherwise what they show."""
    known = {name: Real() for group, kind in given.items() if kind != "categorical" for name in group}
    open_ = [name for name in names if name not in known]
    found: dict[str, Domain] = dict(known)
    if open_:
        cut = {key: reading.get(key) for key in ("groups", "lengths")}
        table = source.select(open_) if isinstance(source, Dataset) else read(source, columns=open_, **cut)
        found |= {column.name: column.domain for column in table.columns}
    for name in known if isinstance(source, Dataset) else ():
        if source.column(name).is_discrete:
            raise DataError(
                f"emission: column '{name}' shall hold numbers, but it was read as states; read it again "
                f"with schema={{'{name}': credo.Real()}}"
            )
    for group, kind in given.items():
        if kind == "categorical" and not isinstance(found[group[0]], Discrete):
            raise DataError(
                f"emission: column '{group[0]}' shall be categorical, but it holds numbers; give labels, or "
                "the kind gaussian"
            )
    return found


def _grouped(
    given: dict[tuple[str, ...], str], names: list[str], domains: Mapping[str, Domain]
) -> list[tuple[tuple[str, ...], str]]:
    """Groups of columns and their families: those given, then all other numbers together, and states."""
    taken = {name for group in given for name in group}
    rest = [name for name in names if name not in taken]
    reals = tuple(name for name in rest if not isinstance(domains[name], Discrete))
    states = [((name,), "categorical") for name in rest if name not in reals]
    return [*given.items(), *([(reals, "gaussian")] if reals else []), *states]


def _of_array(kinds: Kinds, members: int, source: Any, reading: Mapping[str, Any]) -> Family:
    """A family for columns without names: numbers, or positions of states."""
    if isinstance(kinds, Mapping):
        raise DataError(
            f"emission: expected a table with the columns {list(kinds)[:5]}, such as a data frame, got "
            f"{type(source).__name__}"
        )
    table = read(source, lengths=reading.get("lengths")).rows()
    wholes = table.dtype.names is not None or table.dtype.kind in "iu"
    raw = np.concatenate([np.asarray(part) for part in _parts(source, reading)])
    kind = kinds or ("categorical" if wholes and raw.dtype.kind in "iu" else "gaussian")
    columns = raw.reshape(len(raw), -1)
    if kind not in _SINGLE:
        return members_of(kind, members, columns.shape[1])
    each = [members_of(kind, members, int(max(np.nanmax(column), 0)) + 1) for column in columns.T]
    return each[0] if len(each) == 1 else Product(each, range(len(each)))


def _parts(source: Any, reading: Mapping[str, Any]) -> list[Any]:
    parts = split_list(source) if reading.get("lengths") is None else None
    return [source] if parts is None else parts


class BlankRows(Shown, abc.ABC):
    """A model of rows without parameters; `credo.fit` fills it."""

    def __init__(self, count: int, emission: Kinds, components: int = 1) -> None:
        check.whole(self._counted, count, 1)
        check.whole("components", components, 1)
        kinds = emission.values() if isinstance(emission, Mapping) else [] if emission is None else [emission]
        for kind in kinds:
            _check_kind(kind)
        self._count, self._components = int(count), int(components)
        self._kinds = dict(emission) if isinstance(emission, Mapping) else emission

    _counted: str  # what is counted

    @property
    def count(self) -> int:
        """How many states or components there will be."""
        return self._count

    @property
    def kinds(self) -> Kinds:
        """Families of the columns; None lets the data say."""
        return self._kinds

    @abc.abstractmethod
    def _model(self, emission: Family) -> Any:
        """A model with these members."""

    def fill(
        self, source: Any, rng: np.random.Generator, *, known: np.ndarray | None = None, **reading: Any
    ) -> Any:
        """A model for the columns of a source, from which learning can start.

        Parameters
        ----------
        source, reading
            As for `data.read_sequences`.
        rng
            The generator.
        known
            The state of every row, -1 where it is unknown: members get the numbers of the rows they are near.
        """
        members = self._members(source, reading)
        data = self._model(self._mixed(members)).sequences(source, **reading)
        found = distant_members(members, data.rows(), rng)
        if known is not None and self._components == 1:
            found = found.take(numbered(found, data.rows(), known))
        return self._model(self._mixed(found))

    def _members(self, source: Any, reading: Mapping[str, Any]) -> Family:
        """Members of the right family, whatever their parameters."""
        return family_of(self._kinds, self._count * self._components, source, **reading)

    def _mixed(self, members: Family) -> Family:
        if self._components == 1:
            return members
        return Mixture(np.full((self._count, self._components), 1.0 / self._components), members)

    def _refuse(self) -> NoReturn:
        raise ModelError(
            f"model: this {type(self).__name__} is a blank, it has no parameters; fit it first: "
            "credo.fit(blank, data).model"
        )

    def to_factor_graph(self) -> NoReturn:
        """Refused: there are no parameters."""
        self._refuse()

    def sequences(self, x: Any, **reading: Any) -> NoReturn:
        """Refused: there are no parameters."""
        self._refuse()

    def instantiate(self, x: Any, **reading: Any) -> NoReturn:
        """Refused: there are no parameters."""
        self._refuse()

    @property
    def emission(self) -> NoReturn:
        """Refused: there are no parameters."""
        self._refuse()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def _shown(self) -> Iterable[str | Listing]:
        return [repr(self)]

    def __repr__(self) -> str:
        told = "" if self._kinds is None else f", {self._kinds}"
        more = f" of {self._components} components" if self._components > 1 else ""
        size = f"{self._count} {self._counted}{more}{told}"
        return f"{type(self).__name__}({size}; no parameters yet: fit it first)"


@register("BlankMixture", fields={"components": "components", "emission": "kinds"})
class BlankMixture(BlankRows):
    """How many components, and perhaps their family; see `Mixture.blank`."""

    _counted = "components"

    def __init__(self, components: int, emission: Kinds = None) -> None:
        super().__init__(components, emission)

    @property
    def components(self) -> int:
        """How many there will be."""
        return self._count

    def _model(self, emission: Family) -> IndependentRows:
        return IndependentRows(Mixture(np.full((1, self._count), 1.0 / self._count), emission))
