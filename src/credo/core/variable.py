"""Variables, their domains, and ordered sets of them.

A `Variable` is a name and a domain. `Variables` is the ordered set a graph is built on:
every array of the library is indexed by positions in it. Sets of a million numbered
variables hold two arrays, not a million objects; a `Variable` is made when asked for.
"""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np

from .domain import Continuous, Discrete, Domain, domain_of, unlabelled_states
from .errors import EvidenceError, ModelError, QueryError
from .records import register
from .wiring import starts_of

__all__ = ["Variable", "Variables"]

_MOST_STATES = 1 << 28  # that a file may ask for: no memory has several numbers for each of more


@register("variable", fields={"name": "name", "states": "domain"})
class Variable:
    """A name and a domain: `Variable("rain", ["no", "yes"])`, `Variable("x", 3)`, `Variable("y", Real())`."""

    __slots__ = ("domain", "name")

    def __init__(self, name: str, states: int | Iterable[Any] | Domain = 2) -> None:
        self.name = str(name)
        try:
            self.domain = domain_of(states)
        except ModelError as error:
            raise ModelError(f"variable '{name}': {error}") from None

    @property
    def size(self) -> int:
        """Number of states; 0 if the domain is continuous."""
        return self.domain.size

    @property
    def is_discrete(self) -> bool:
        """Whether the variable has states."""
        return isinstance(self.domain, Discrete)

    @property
    def discrete(self) -> Discrete:
        """The domain of a discrete variable; an error for others."""
        if isinstance(self.domain, Discrete):
            return self.domain
        raise ModelError(f"variable '{self.name}' has no states: its domain is {self.domain!r}")

    @property
    def states(self) -> tuple[str, ...]:
        """State labels, in the order of the table axis."""
        return self.discrete.labels

    def value(self, given: Any) -> Any:
        """What arrays hold for a value given by a user: a state index, a number, or a vector."""
        if isinstance(self.domain, Discrete):
            return self.index(given)
        try:
            return self.domain.value(given)
        except ModelError as error:
            raise EvidenceError(f"variable '{self.name}': {error}") from None

    def index(self, state: Any) -> int:
        """Position of a state given by its label, or by its index if it is an integer."""
        if isinstance(state, (bool, np.bool_)):
            state = self._label_of_bool(bool(state))
        if isinstance(state, (int, np.integer)) or (
            isinstance(state, (float, np.floating)) and float(state).is_integer()
        ):
            if 0 <= state < self.size:
                return int(state)
            # A negative number is no index, but may be a label, as the spins of an Ising model are.
            if state < 0 and str(int(state)) in self.states:
                return self.states.index(str(int(state)))
        elif str(state) in self.states:
            return self.states.index(str(state))
        raise EvidenceError(
            f"variable '{self.name}' has no state {str(state)!r}; its states are {_shorten(self.states)}"
            f"{_near(str(state), self.states)}"
        )

    def find(self, state: Any) -> int:
        """As `index`, for reading an answer: a state that does not exist is a `QueryError`."""
        try:
            return self.index(state)
        except EvidenceError as error:
            raise QueryError(str(error)) from None

    def _label_of_bool(self, state: bool) -> Any:
        """True finds a label such as 'true' or 'yes'; without one it is the index 1."""
        wanted = ("true", "yes", "1") if state else ("false", "no", "0")
        for label in self.states:
            if label.lower() in wanted:
                return label
        return int(state)

    def label(self, i: int) -> str:
        """Label of the state at index `i`."""
        return self.discrete.label(i)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Variable) and self.name == other.name and self.domain == other.domain

    def __hash__(self) -> int:
        return hash((self.name, self.domain))

    def __repr__(self) -> str:
        inner: Any = self.domain
        if isinstance(inner, Discrete):
            inner = inner.size if inner.states is None else list(inner.labels)
        return f"Variable({self.name!r}, {inner})"


def _shorten(items: Sequence[str], limit: int = 12) -> str:
    shown = list(items[:limit])
    return repr(shown) if len(items) <= limit else f"{repr(shown)[:-1]}, ...] ({len(items)} in all)"


def _near(wanted: str, known: Sequence[str]) -> str:
    """The end of a sentence about a name that is not known, empty if nothing is like it."""
    by_case = {name.casefold(): name for name in known[:5000]}
    near = difflib.get_close_matches(wanted.casefold(), by_case, n=3)
    return f"; did you mean {' or '.join(repr(by_case[name]) for name in near)}?" if near else ""


class _NumberedNames(Sequence[str]):
    """The names prefix0, prefix1, ... without storing them."""

    def __init__(self, prefix: str, count: int) -> None:
        self.prefix, self._size = prefix, count

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return tuple(f"{self.prefix}{j}" for j in range(self._size)[i])
        return f"{self.prefix}{range(self._size)[i]}"

    def find(self, name: str) -> int | None:
        digits = name[len(self.prefix) :]
        if not name.startswith(self.prefix) or not digits.isdecimal():
            return None
        i = int(digits)
        return i if i < self._size and str(i) == digits else None


class _SizedDomains(Sequence[Discrete]):
    """Unlabelled domains read off the array of sizes."""

    def __init__(self, sizes: np.ndarray) -> None:
        self.sizes = sizes

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, i: Any) -> Any:
        return unlabelled_states(int(self.sizes[i]))


class _RestrictedDomains(Sequence[Any]):
    """Domains of which only some states are kept, or one value, made when asked for."""

    def __init__(self, base: Variables, keep: np.ndarray, sizes: np.ndarray) -> None:
        self.base, self.keep, self.sizes = base, keep, sizes

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, i: Any) -> Any:
        domain = self.base.domains[i]
        if domain.size == self.sizes[i]:
            return domain
        if domain.size == 0:  # a value was observed
            return unlabelled_states(1)
        start = self.base.state_start[i]
        return domain.restrict(np.flatnonzero(self.keep[start : start + domain.size]))


@register("variables")
class Variables(Sequence[Variable]):
    """An ordered set of variables with distinct names.

    Parameters
    ----------
    names
        One name per variable.
    domains
        One domain per variable.
    """

    def __init__(self, names: Sequence[str], domains: Sequence[Any]) -> None:
        self.names = names
        self.domains = domains
        self.sizes = (
            domains.sizes
            if isinstance(domains, (_SizedDomains, _RestrictedDomains))
            else np.array([d.size for d in domains], dtype=np.int64)
        )

    @classmethod
    def of(cls, variables: Any) -> Variables:
        """Make an ordered set from variables, a mapping name -> states, or an array of sizes."""
        if isinstance(variables, Variables):
            return variables
        if hasattr(variables, "items"):
            variables = [Variable(name, states) for name, states in variables.items()]
        elif isinstance(variables, np.ndarray):
            return cls.numbered(variables)
        variables = list(variables)
        for v in variables:
            if not isinstance(v, Variable):
                raise ModelError(f"expected a Variable, got {v!r}; make it with Variable(name, states)")
        made = cls(tuple(v.name for v in variables), tuple(v.domain for v in variables))
        made._check_names()
        return made

    @classmethod
    def numbered(cls, sizes: Any, prefix: str = "x") -> Variables:
        """Unlabelled variables x0, x1, ... with the given numbers of states."""
        sizes = np.ascontiguousarray(sizes, dtype=np.int64)
        if sizes.ndim != 1:
            raise ModelError(f"sizes: expected one number per variable, got shape {sizes.shape}")
        if len(sizes) and sizes.min() < 1:
            i = int(sizes.argmin())
            raise ModelError(f"variable '{prefix}{i}': a domain needs at least one state, got {sizes[i]}")
        return cls(_NumberedNames(prefix, len(sizes)), _SizedDomains(sizes))

    @classmethod
    def alike(cls, count: int, domain: Domain, names: Sequence[str] | None = None) -> Variables:
        """Many variables of one domain, x0, x1, ... if they have no names."""
        made = cls(_NumberedNames("x", count) if names is None else tuple(map(str, names)), (domain,) * count)
        if len(made.names) != count:
            raise ModelError(f"names: expected {count}, got {len(made.names)}")
        if names is not None:
            made._check_names()
        return made

    def to_parts(self) -> dict[str, Any]:
        """What files keep: names, different domains, and which of these each variable has."""
        names: Any = self.names
        names = names.prefix if isinstance(names, _NumberedNames) else tuple(names)
        if isinstance(self.domains, _SizedDomains):
            return {"names": names, "domains": None, "which": self.sizes}
        numbers: dict[Domain, int] = {}
        which = [numbers.setdefault(domain, len(numbers)) for domain in self.domains]
        return {"names": names, "domains": tuple(numbers), "which": np.array(which, dtype=np.int64)}

    @classmethod
    def from_parts(cls, names: Any, domains: Any, which: Any) -> Variables:
        """The variables of these names; `which` counts the states of each where there are no domains."""
        if not isinstance(which, np.ndarray) or which.dtype != np.int64 or which.ndim != 1:
            raise ModelError("variables: expected one whole number each")
        if domains is None:
            if which.sum(dtype=np.float64) > _MOST_STATES:
                raise ModelError(f"variables: expected at most {_MOST_STATES} states in all, got more")
            found: Sequence[Any] = cls.numbered(which).domains
        else:
            if not all(isinstance(d, (Discrete, Continuous)) for d in domains):
                raise ModelError("variables: expected domains, got something else")
            if len(which) and not (0 <= which.min() and which.max() < len(domains)):
                raise ModelError(f"variables: expected numbers of the {len(domains)} domains, got others")
            found = tuple(domains[k] for k in which.tolist())
        if isinstance(names, str):
            return cls(_NumberedNames(names, len(which)), found)
        made = cls(tuple(names), found)
        if len(names) != len(which) or not all(isinstance(name, str) for name in names):
            raise ModelError(f"variables: expected {len(which)} names, got {len(names)}")
        if made.sizes.sum(dtype=np.float64) > _MOST_STATES:
            raise ModelError(f"variables: expected at most {_MOST_STATES} states in all, got more")
        made._check_names()
        return made

    def _check_names(self) -> None:
        if len(self._position) < len(self.names):
            seen: set[str] = set()
            twice = next(n for n in self.names if n in seen or seen.add(n))  # type: ignore[func-returns-value]
            raise ModelError(f"variable '{twice}' is declared twice; names must differ")

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def is_discrete(self) -> bool:
        """Whether every variable has states."""
        return bool((self.sizes > 0).all())

    @cached_property
    def kinds(self) -> frozenset[str]:
        """What kinds of domains there are."""
        if self.is_discrete:
            return frozenset({"discrete"} if len(self) else ())
        return frozenset({"discrete"} if self.sizes.any() else ()) | {d.kind for d in self.continuous}

    @cached_property
    def continuous(self) -> frozenset[Continuous]:
        """The different domains of variables without states."""
        if self.is_discrete:
            return frozenset()
        different = {id(d): d for d in self.domains}  # many variables share one domain
        return frozenset(d for d in different.values() if not d.size)

    def first_in(self, domains: Container[Continuous]) -> tuple[str, Continuous]:
        """The first variable with one of these domains: its name, and the domain."""
        return next((n, d) for n, d in zip(self.names, self.domains, strict=True) if d in domains)

    @cached_property
    def state_start(self) -> np.ndarray:
        """Position of each variable's first state in flat state arrays, and their length last."""
        return starts_of(self.sizes)

    def position(self, name: str | Variable) -> int:
        """Index of a variable given by name."""
        name = name.name if isinstance(name, Variable) else name
        found = (
            self.names.find(name)
            if isinstance(self.names, _NumberedNames) and isinstance(name, str)
            else self._position.get(name)
        )
        if found is None:
            raise QueryError(f"no variable named {name!r}{self._hint(str(name))}")
        return found

    def positions(self, names: Iterable[str | Variable]) -> np.ndarray:
        """Indices of several variables."""
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise QueryError(f"expected a list of names of variables, got {names!r:.80}")
        return np.array([self.position(n) for n in names], dtype=np.int64)

    def _hint(self, name: str) -> str:
        return _near(name, self.names) or f"; there are {_shorten(self.names)}"

    def select(self, positions: np.ndarray) -> Variables:
        """The variables at these positions, which ascend."""
        if len(positions) == len(self):
            return self
        chosen = positions.tolist()
        return Variables(tuple(self.names[i] for i in chosen), tuple(self.domains[i] for i in chosen))

    def restrict(self, keep: np.ndarray, sizes: np.ndarray) -> Variables:
        """The same variables with only the states marked in `keep` (one flag per flat state)."""
        return Variables(self.names, _RestrictedDomains(self, keep, sizes))

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, i: int) -> Variable: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[Variable, ...]: ...
    def __getitem__(self, i: Any) -> Any:
        """The variable at a position, or a tuple of variables for a slice."""
        if isinstance(i, slice):
            return tuple(self[j] for j in range(len(self))[i])
        return Variable(self.names[i], self.domains[i])

    def __contains__(self, item: object) -> bool:
        try:
            i = self.position(item)  # type: ignore[arg-type]
        except QueryError:
            return False
        return not isinstance(item, Variable) or self[i] == item

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Variables)
            and len(self) == len(other)
            and np.array_equal(self.sizes, other.sizes)
            and all(a == b for a, b in zip(self, other, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Variables({_shorten(self.names)})"
