r"""What a flow is made of: maps x -> z that can be inverted and whose Jacobian has a known determinant.

    log p(x) = log base(f(x)) + log |det df/dx|

A bijection is its options, frozen and hashable: equal ones share compiled programs. Parameters are a tree of
arrays, made by `start` and given to every call, of ONE member; `vmap` makes the batch. Rows are (rows, d).
`forward` is the direction that learning takes, from data to latent numbers.

All of them map d numbers to d numbers. Where some of these have been modelled already (a split of Glow), they
come last and are standard Gaussian; `kept` says how many before them belong to the base of the flow.

Names and text forms work as everywhere: "coupling(layers=4, width=24)"; " + " chains them in the order from
data to latent. Nothing here imports JAX, the modules of the bijections do.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.errors import OptionError
from ...core.records import register
from ...core.registry import Entry, Registry, describe

__all__ = ["BIJECTIONS", "Chain", "RowBijection", "bijections", "read_bijection", "register_bijection"]

Tree = Any

BIJECTIONS: Mapping[str, Entry] = {
    name: Entry(f"credo.nn.bijections.{module}", summary)
    for name, module, summary in (
        ("actnorm", "actnorm", "A scale and a shift per coordinate, which start from data."),
        ("coupling", "coupling", "Affine couplings: half of a row scales and shifts the other half."),
        ("glow", "glow", "Images through levels of squeeze, flow steps and a split."),
        ("mixing", "mixing", "A matrix that mixes all coordinates."),
        ("maf", "flowjax_maps", "Every coordinate is moved by those before it (flowjax)."),
        ("spline", "flowjax_maps", "Couplings by rational-quadratic splines (flowjax)."),
        ("ode", "ode", "Rows follow a field of velocities that a network gives."),
        ("planar", "planar", "Rows are pushed along one direction, layer after layer."),
        ("radial", "planar", "Rows are pulled to or pushed from one centre, layer after layer."),
        ("permutation", "mixing", "Coordinates in another order, drawn once, or from the last to the first."),
    )
}
_DEFAULT = "actnorm + coupling"


class RowBijection(abc.ABC):
    """Options of an invertible map; the arrays it works with are given to every call."""

    name: ClassVar[str]

    @abc.abstractmethod
    def start(self, d: int, rng: np.random.Generator) -> Tree:
        """Parameters of one member for rows of d numbers, as NumPy arrays, from which learning can start."""

    @abc.abstractmethod
    def forward(self, tree: Tree, x: Any) -> tuple[Any, Any]:
        """Z = f(x), (rows, d), and log |det df/dx|, (rows,)."""

    @abc.abstractmethod
    def backward(self, tree: Tree, z: Any) -> Any:
        """The x whose `forward` is z."""

    def adapt(self, tree: Tree, x: Any, weights: Any) -> Tree:
        """Parameters that suit rows with weights (rows,) before learning; the same ones by default."""
        return tree

    def why_not(self, d: int) -> str | None:
        """Why rows of d numbers cannot be mapped."""
        return None

    def kept(self, d: int) -> int:
        """How many of the d latent numbers, which come first, belong to the base; the rest are Gaussian."""
        return d

    def __str__(self) -> str:
        return describe(self)


bijections: Registry[RowBijection] = Registry("bijection", lambda: BIJECTIONS)
register_bijection = bijections.register


@register("bijection.chain")
@dataclass(frozen=True)
class Chain(RowBijection):
    """Bijections one after the other, from data to latent.

    Only the last of them may keep fewer numbers for the base than there are.
    """

    name: ClassVar[str] = "chain"
    links: tuple[RowBijection, ...]  # from data to latent

    def start(self, d: int, rng: np.random.Generator) -> Tree:
        """A tuple with the parameters of every link."""
        return tuple(link.start(d, rng) for link in self.links)

    def forward(self, tree: Tree, x: Any) -> tuple[Any, Any]:
        """All links in turn."""
        total: Any = 0.0
        for link, own in zip(self.links, tree, strict=True):
            x, volume = link.forward(own, x)
            total = total + volume
        return x, total

    def backward(self, tree: Tree, z: Any) -> Any:
        """All links from the last to the first."""
        for link, own in zip(reversed(self.links), reversed(tree), strict=True):
            z = link.backward(own, z)
        return z

    def adapt(self, tree: Tree, x: Any, weights: Any) -> Tree:
        """Every link to what the links before make of the rows."""
        found = []
        for link, own in zip(self.links, tree, strict=True):
            found.append(link.adapt(own, x, weights))
            x, _ = link.forward(found[-1], x)
        return tuple(found)

    def why_not(self, d: int) -> str | None:
        """What the links say."""
        for place, link in enumerate(self.links):
            if link.kept(d) < d and place + 1 < len(self.links):
                return f"{link} gives numbers away before the last link; put it last"
        return next((reason for link in self.links if (reason := link.why_not(d))), None)

    def kept(self, d: int) -> int:
        """As the last link says."""
        return self.links[-1].kept(d)

    def __str__(self) -> str:
        return " + ".join(str(link) for link in self.links)


def read_bijection(spec: str | RowBijection) -> RowBijection:
    """The bijection that a text describes; an object passes through.

    Examples
    --------
    >>> from credo.nn.bijections import read_bijection
    >>> str(read_bijection("flow"))
    'actnorm + coupling'
    >>> read_bijection("coupling(layers=2) + actnorm").kept(6)
    6
    """
    if isinstance(spec, RowBijection):
        return spec
    if not isinstance(spec, str):
        raise OptionError(f"bijection: expected a name or a RowBijection, got {type(spec).__name__}")
    texts = _links(_DEFAULT if spec.strip() == "flow" else spec)
    links = tuple(bijections.resolve(text) for text in texts)
    return links[0] if len(links) == 1 else Chain(links)


def _links(spec: str) -> list[str]:
    """Parts between the plus signs that are in no brackets."""
    parts, depth = [""], 0
    for c in spec:
        depth += (c in "([{") - (c in ")]}")
        if c == "+" and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts
