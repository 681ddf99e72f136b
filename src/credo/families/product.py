r"""Products over columns: parts of a row that are independent given the member, each of its own family.

    p_k(x) = prod_j p_kj(x_j)

Each part reads its own columns. Rows are a NumPy structured array, whose fields have the types that the parts
want (states as whole numbers, reals as floats), or a plain 2-D array, whose columns go by number. A cell is
missing as its part says, so rows may lack some parts and keep the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.domain import Domain
from ..core.errors import DataError, ModelError
from ..core.records import register
from .base import Family
from .trees import Tree

__all__ = ["Product"]

Columns = str | int | tuple[Any, ...]


@register("Product", fields=["parts", "columns", "domains"])
class Product(Family):
    """Products with one part per group of columns; immutable.

    Parameters
    ----------
    parts
        Families with equally many members.
    columns
        For every part the columns it reads: a name or several (of a structured array), or a number or
        several (of a 2-D array). No column serves two parts.
    domains
        Name -> domain of columns of which more is known than their part says, such as the labels of states.

    Examples
    --------
    >>> import numpy as np
    >>> from credo.families import Categorical, DiagonalGaussian, Product
    >>> both = Product([Categorical([[0.5, 0.5]]), DiagonalGaussian([[0.0]], [[1.0]])], ["alarm", "heat"])
    >>> x = np.array([(1, 0.0), (-1, 0.0), (-1, np.nan)], dtype=[("alarm", int), ("heat", float)])
    >>> both.log_density(x).round(3).ravel()
    array([-1.612, -0.919,  0.   ])
    """

    def __init__(
        self,
        parts: Sequence[Family],
        columns: Sequence[Columns],
        domains: Mapping[str, Domain] | None = None,
    ) -> None:
        self._parts, self._columns = tuple(parts), tuple(_group(each) for each in columns)
        if not self._parts or not all(isinstance(part, Family) for part in self._parts):
            kinds = [type(part).__name__ for part in self._parts]
            raise ModelError(f"parts: expected one family or more, got {kinds}")
        if len({len(part) for part in self._parts}) != 1:
            sizes = [len(part) for part in self._parts]
            raise ModelError(f"parts: expected equally many members in each, got {sizes}")
        if len(self._columns) != len(self._parts):
            raise ModelError(
                f"columns: expected {len(self._parts)} groups, one per part, got {len(self._columns)}"
            )
        names = [name for group in self._columns for name in group]
        self._named = all(isinstance(name, str) for name in names)
        if not (self._named or all(isinstance(n, int) and n >= 0 for n in names)):
            raise ModelError(f"columns: expected names only, or numbers from 0 only, got {names}")
        if len(set(names)) != len(names):
            raise ModelError(f"columns: expected every column once, got {names}")
        self._domains = dict(domains or {})

    def schema(self, names: Sequence[str]) -> dict[str, Domain]:
        """What each part reads, by the names or places of its columns."""
        own = names if not self._named else self.names
        found = {
            name: domain
            for part, group in zip(self._parts, self._columns, strict=True)
            for name, domain in part.schema([n if isinstance(n, str) else own[n] for n in group]).items()
        }
        return {name: self._domains.get(name, domain) for name, domain in found.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, those of the first part first; empty where they have numbers."""
        return tuple(n for group in self._columns for n in group) if self._named else ()

    @property
    def domains(self) -> dict[str, Domain]:
        """Of columns of which more is known than their part says."""
        return dict(self._domains)

    @property
    def parts(self) -> tuple[Family, ...]:
        """The families."""
        return self._parts

    @property
    def columns(self) -> tuple[tuple[Any, ...], ...]:
        """The columns of every part."""
        return self._columns

    def __len__(self) -> int:
        return len(self._parts[0])

    @property
    def n_parameters(self) -> int:
        """Of all parts."""
        return sum(part.n_parameters for part in self._parts)

    def movement(self, new: Product) -> float:
        """The largest of any part."""
        return max(part.movement(other) for part, other in zip(self._parts, new._parts, strict=True))

    def _own(self, x: np.ndarray, group: tuple[Any, ...]) -> np.ndarray:
        """The columns of a part: one as (rows,), several as (rows, columns)."""
        if self._named:
            return x[group[0]] if len(group) == 1 else np.column_stack([x[name] for name in group])
        return x[:, group[0]] if len(group) == 1 else x[:, list(group)]

    def split(self, x: np.ndarray) -> list[np.ndarray]:
        """The rows of every part, of rows as `rows` gives them."""
        return [own for _, own in self._each(x)]

    def _each(self, x: np.ndarray) -> list[tuple[Family, np.ndarray]]:
        """Every part with its rows."""
        return [
            (part, part.rows(self._own(x, group)))
            for part, group in zip(self._parts, self._columns, strict=True)
        ]

    def rows(self, x: Any) -> np.ndarray:
        """The array as it is, once every part has accepted its columns."""
        found = np.asarray(x)
        if self._named:
            found = self._fielded(found)
            lacking = [n for group in self._columns for n in group if n not in (found.dtype.names or ())]
            if lacking or found.ndim != 1:
                raise DataError(
                    f"data: expected a structured array of shape (rows,) with a field {lacking[:1] or ''}, "
                    f"got {found.dtype} of shape {found.shape}; build it with dtype=[(name, type), ...]"
                )
        else:
            width = 1 + max(n for group in self._columns for n in group)
            if found.ndim != 2 or found.shape[1] < width:
                raise DataError(f"data: expected shape (rows, {width}) or wider, got {found.shape}")
        self._each(found)
        return found

    def _fielded(self, x: np.ndarray) -> np.ndarray:
        """A plain array whose columns are those of the parts, in their order, with a field for each."""
        width = 1 if x.ndim == 1 else x.shape[-1]
        if x.dtype.names is not None or x.ndim not in (1, 2) or width != len(self.names):
            return x
        table = x.reshape(len(x), width)
        out = np.empty(len(x), dtype=[(name, table.dtype) for name in self.names])
        for j, name in enumerate(self.names):
            out[name] = table[:, j]
        return out

    def missing(self, x: np.ndarray) -> np.ndarray:
        """Rows of which every part misses its own."""
        return np.all([part.missing(own) for part, own in self._each(x)], axis=0)

    def hide(self, x: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        """A copy in which every part of the marked rows is missing."""
        out = x.copy()
        if not self._named and out.dtype.kind in "iu" and hidden.any():
            out = out.astype(np.float64)  # whole numbers have no NaN, which every part takes as missing
        for (part, own), group in zip(self._each(x), self._columns, strict=True):
            shown = part.hide(own, hidden)
            shown = shown.reshape(len(x), -1) if shown.ndim < 3 else shown
            for j, name in enumerate(group):
                if self._named and out.dtype[name].subdtype is not None:
                    out[name] = shown
                elif self._named:
                    out[name] = shown[:, j]
                else:
                    out[:, name] = shown[:, j]
        return out

    def sample(self, members: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One row from each of the given members; columns that no part reads are NaN."""
        drawn = [part.sample(members, rng) for part in self._parts]
        if self._named:
            return self._fields(drawn, len(members))
        width = 1 + max(n for group in self._columns for n in group)
        out = np.full((len(members), width), np.nan)
        for own, group in zip(drawn, self._columns, strict=True):
            out[:, list(group)] = own.reshape(len(out), -1)
        return out

    def _fields(self, drawn: list[np.ndarray], count: int) -> np.ndarray:
        """A structured array of what the parts drew; one name with several numbers is one field of them."""
        fields, values = [], []
        for own, group in zip(drawn, self._columns, strict=True):
            flat = own[:, 0] if own.ndim == 2 and own.shape[1] == 1 else own
            for j, name in enumerate(group):
                column = flat if len(group) == 1 else flat[:, j]
                fields.append((name, column.dtype, column.shape[1:]))
                values.append(column)
        out = np.empty(count, dtype=fields)
        for (name, *_), column in zip(fields, values, strict=True):
            out[name] = column
        return out

    def leaves(self, x: Any) -> Tree:
        """A tuple with the leaves of every part."""
        return tuple(part.leaves(own) for part, own in self._each(self.rows(x)))

    def combine(self, leaves: Tree) -> np.ndarray:
        """The sum over parts, (rows, members)."""
        logs = [part.combine(own) for part, own in zip(self._parts, leaves, strict=True)]
        return np.add.reduce(logs) if len(logs) > 1 else logs[0]

    def divide(self, leaves: Tree, weights: np.ndarray) -> tuple[Tree, Tree]:
        """Every part divides all of the weight among its own choices."""
        found = [part.divide(own, weights) for part, own in zip(self._parts, leaves, strict=True)]
        return tuple(counts for counts, _ in found), tuple(q for _, q in found)

    def collect(self, x: Any, q: Tree = None) -> Tree:
        """The sums of every part."""
        shares = (None,) * len(self._parts) if q is None else q
        return tuple(
            part.collect(own, w) for (part, own), w in zip(self._each(self.rows(x)), shares, strict=True)
        )

    def update(self, counts: Tree, sums: Tree, prior: Any = None, *, floor: float = 0.0) -> Product:
        """Every part by itself; `prior` is a sequence of one prior, or None, per part."""
        own = (None,) * len(self._parts) if counts is None else counts
        each = zip(self._parts, own, sums, self._priors(prior), strict=True)
        return self.with_parts([part.update(n, s, p, floor=floor) for part, n, s, p in each])

    def log_prior(self, prior: Any) -> float:
        """The sum over the parts."""
        return sum(part.log_prior(p) for part, p in zip(self._parts, self._priors(prior), strict=True))

    def _priors(self, prior: Any) -> Sequence[Any]:
        """One per part."""
        priors = (None,) * len(self._parts) if prior is None else prior
        if not isinstance(priors, (tuple, list)) or len(priors) != len(self._parts):
            raise ModelError(
                f"prior of a product: expected {len(self._parts)} priors, one or None per part, "
                f"got {prior!r:.60}"
            )
        return priors

    def with_parts(self, parts: Sequence[Family]) -> Product:
        """The same columns with other parts."""
        return Product(parts, self._columns, self._domains)

    def take(self, members: Any) -> Product:
        """Some of the members."""
        return self.with_parts([part.take(members) for part in self._parts])

    def initialise(self, x: np.ndarray, rng: np.random.Generator) -> Product:
        """Every part from its own columns."""
        return self.with_parts([part.initialise(own, rng) for part, own in self._each(x)])

    def to_free(self) -> Tree:
        """A tuple of what the parts have; None if none of them has anything."""
        found = tuple(part.to_free() for part in self._parts)
        return None if all(tree is None for tree in found) else found

    def from_free(self, tree: Tree) -> Product:
        """Parts with these free numbers."""
        if tree is None:
            return self
        return self.with_parts([part.from_free(own) for part, own in zip(self._parts, tree, strict=True)])

    @property
    def is_free(self) -> Tree:
        """As the parts say."""
        return None if self.to_free() is None else tuple(part.is_free for part in self._parts)

    @property
    def means(self) -> dict[Any, np.ndarray | None]:
        """By column, None for columns of symbols."""
        found: dict[Any, np.ndarray | None] = {}
        for part, group in zip(self._parts, self._columns, strict=True):
            own = part.means
            if own is not None and own.ndim == 2 and (len(group) > 1 or own.shape[1] == 1):
                found |= zip(group, own.T, strict=True)
            else:
                found |= dict.fromkeys(group, own)
        return found

    @property
    def is_closed(self) -> bool:
        """Where all parts are."""
        return all(part.is_closed for part in self._parts)

    @property
    def structure(self) -> tuple[Any, ...]:
        """The parts, whatever their columns."""
        return Product, *(part.structure for part in self._parts)

    def to_arrays(self, x: np.ndarray) -> Tree:
        """A tuple of rows, one of every part that gradients move."""
        return tuple(part.to_arrays(own) for part, own in self._each(x))

    @property
    def is_noisy(self) -> bool:
        """Whether one of the parts is."""
        return any(part.is_noisy for part in self._parts)

    def refuse(self, x: np.ndarray) -> None:
        """As the parts say."""
        for part, own in self._each(x):
            part.refuse(own)

    def noisy_at(self, x: Tree, key: Any) -> Tree:
        """Every part with a key of its own."""
        import jax

        keys = jax.random.split(key, len(self._parts))
        return tuple(part.noisy_at(own, k) for part, own, k in zip(self._parts, x, keys, strict=True))

    def choices(self) -> Tree:
        """Of every part."""
        return tuple(part.choices() for part in self._parts)

    def choice_value(self, counts: Tree) -> float:
        """The sum over the parts."""
        return sum(part.choice_value(own) for part, own in zip(self._parts, counts, strict=True))

    def pool(self, slopes: Tree) -> Tree:
        """As the parts say."""
        each = zip(self._parts, slopes, strict=True)
        return tuple(None if own is None else part.pool(own) for part, own in each)

    def leaves_at(self, tree: Tree, x: Tree) -> Tree:
        """A tuple of leaves of the parts that gradients move."""
        return tuple(
            None if free is None else part.leaves_at(free, own)
            for part, free, own in zip(self._parts, tree, x, strict=True)
        )

    def __repr__(self) -> str:
        inner = ", ".join(
            f"{'+'.join(map(str, g))}: {p!r}" for p, g in zip(self._parts, self._columns, strict=True)
        )
        return f"Product({inner})"


def _group(columns: Any) -> tuple[Any, ...]:
    """One name or number as a group of one."""
    if isinstance(columns, (str, int, np.integer)):
        return (columns if isinstance(columns, str) else int(columns),)
    return tuple(int(c) if isinstance(c, np.integer) else c for c in columns)
