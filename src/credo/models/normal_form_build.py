r"""Ways to make normal-form graphs: from Bayesian networks, embeddings, product spaces and chains.

From a network, every variable is a branch of its own name (its terminal, unless it is hidden):

    several children        a diverter with a copy X^1, X^2, ... for each, and the terminal
    several parents         "product": fixed blocks map each parent into the product space (A,B), the mapped
                            branches (A,B)^1, (A,B)^2 meet in a diverter, one block leads on to the child
                            "separable": a block from each parent, whose outputs meet in a diverter at the
                            child; p(child | parents) ~ prod_i p(child | parent_i), no interaction of parents

A network whose parts close a cycle is refused, with the cycle named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.errors import ModelError, QueryError
from ..core.numbers import float_array
from ..core.variable import Variable, Variables
from .bayes_net import BayesNet
from .normal_form import Block, Diverter, NormalForm, Source
from .normal_form_parts import Part, from_product, to_product

__all__ = ["embedding", "from_bayes_net", "hidden_chain", "product_latent", "to_bayes_net"]


class _Sketch:
    """Branches and parts while a graph is drawn; names are kept apart."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self.branches: dict[str, Variable] = {}
        self.parts: list[Part] = []
        self._reserved = set(reserved)

    def branch(self, name: str, states: Any) -> str:
        """Declare a branch; a name that is taken gets primes."""
        while name in self.branches:
            name += "'"
        self.branches[name] = Variable(name, states)
        return name

    def copy(self, name: str, states: Any) -> str:
        """Declare a branch that must not take the name of a variable."""
        while name in self._reserved:
            name += "'"
        return self.branch(name, states)

    def graph(self) -> NormalForm:
        return NormalForm(list(self.branches.values()), self.parts)


def from_bayes_net(
    net: BayesNet,
    *,
    hidden: Iterable[str] = (),
    form: Literal["product", "separable"] = "product",
) -> NormalForm:
    """The normal-form graph of a Bayesian network without undirected cycles.

    Parameters
    ----------
    net
        The network; its tables are where learning starts.
    hidden
        Variables that are never observed; they get no terminal. One without children keeps its end.
    form
        What becomes of a child with several parents; see the module's description. The matrices of the
        separable form start as means of the table over the other parents.

    Examples
    --------
    >>> import credo
    >>> from credo.models.normal_form_build import from_bayes_net
    >>> net = credo.BayesNet(
    ...     {"a": 2, "b": 2, "c": 2},
    ...     {"c": ["a", "b"]},
    ...     {"a": [0.5, 0.5], "b": [0.9, 0.1], "c": [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]},
    ... )
    >>> graph = from_bayes_net(net)
    >>> graph.messages({"c": 0, "a": 1}).beliefs["b"]
    array([[0., 1.]])
    """
    check.one_of("form", form, ("product", "separable"))
    hidden = {hidden} if isinstance(hidden, str) else set(hidden)
    for name in hidden:
        net.variables.position(name)
    names = list(net.variables.names)
    children: dict[str, list[str]] = {name: [] for name in names}
    for child, parents in net.parents.items():
        for parent in parents:
            children[parent].append(child)
    sketch = _Sketch(names)
    for variable in net.variables:
        sketch.branch(variable.name, variable.domain)
    made: dict[str, str] = {}  # variable -> branch its table leads to
    copies: dict[tuple[str, str], str] = {}  # (variable, child) -> branch that leads there
    for variable in net.variables:
        _replicate(sketch, variable, children[variable.name], variable.name in hidden, made, copies)
    for name in names:
        arms = [copies[parent, name] for parent in net.parents[name]]
        given = [net.variables[net.variables.position(parent)] for parent in net.parents[name]]
        _conditional(sketch, name, made[name], given, arms, net.tables[name], form)
    return sketch.graph()


def _replicate(
    sketch: _Sketch,
    variable: Variable,
    children: list[str],
    hidden: bool,
    made: dict[str, str],
    copies: dict[tuple[str, str], str],
) -> None:
    """One branch per use of a variable, joined by a diverter if there are several."""
    name, shown = variable.name, not hidden or not children
    made[name] = name
    if len(children) + shown < 2:
        copies.update({(name, child): name for child in children})
        return
    arms = [sketch.copy(f"{name}^{k + 1}", variable.domain) for k in range(len(children))]
    copies.update({(name, child): arm for child, arm in zip(children, arms, strict=True)})
    if shown:
        made[name] = sketch.copy(f"{name}^0", variable.domain)
        sketch.parts.append(Diverter(made[name], (*arms, name), name=f"={name}"))
    else:
        sketch.parts.append(Diverter(name, tuple(arms), name=f"={name}"))


def _conditional(
    sketch: _Sketch,
    child: str,
    output: str,
    given: list[Variable],
    arms: list[str],
    table: np.ndarray,
    form: str,
) -> None:
    """The parts that say how a child depends on its parents."""
    label = ",".join(v.name for v in given)
    if not given:
        sketch.parts.append(Source(output, table, name=f"p({child})"))
    elif len(given) == 1:
        sketch.parts.append(Block(arms[0], output, table, name=f"p({child}|{label})"))
    elif form == "product":
        _product_space(sketch, child, output, given, arms, table)
    else:
        votes = [sketch.copy(f"{child}<{v.name}", sketch.branches[output].domain) for v in given]
        for k, (v, arm, vote) in enumerate(zip(given, arms, votes, strict=True)):
            mean = table.mean(axis=tuple(j for j in range(len(given)) if j != k))
            sketch.parts.append(Block(arm, vote, mean, name=f"p({child}|{v.name})"))
        sketch.parts.append(Diverter(tuple(votes), output, name=f"=({child}<{label})"))


def _product_space(
    sketch: _Sketch, child: str, output: str, given: list[Variable], arms: list[str], table: np.ndarray
) -> None:
    sizes = [v.size for v in given]
    label = ",".join(v.name for v in given)
    cells = int(np.prod(sizes))
    space = sketch.copy(f"({label})", cells)
    mapped = [sketch.copy(f"({label})^{k + 1}", cells) for k in range(len(given))]
    for k, (v, arm, copy) in enumerate(zip(given, arms, mapped, strict=True)):
        sketch.parts.append(Block(arm, copy, to_product(sizes, k), fixed=True, name=f"{space}<{v.name}"))
    sketch.parts.append(Diverter(tuple(mapped), space, name=f"={space}"))
    rows = np.reshape(table, (cells, -1))
    sketch.parts.append(Block(space, output, rows, name=f"p({child}|{label})"))


def to_bayes_net(graph: NormalForm, net: BayesNet) -> BayesNet:
    """A network like `net` with the tables of the graph that was made from it, in product form."""
    tables = {}
    for name, parents in net.parents.items():
        label = f"p({name}|{','.join(parents)})" if len(parents) else f"p({name})"
        if label not in graph.parameters:
            raise QueryError(
                f"no parameter named '{label}'; expected a graph made from this network in product form"
            )
        tables[name] = graph.parameters[label].reshape(net.tables[name].shape)
    return BayesNet(net.variables, dict(net.parents), tables)


def embedding(
    leaves: Mapping[str, Any] | Variables, states: int, *, name: str = "S", seed: int | None = None
) -> NormalForm:
    """A hidden variable with a learnable block to each leaf (a latent class model), with random matrices.

    Parameters
    ----------
    leaves
        Variables, or a mapping name -> states.
    states
        Of the hidden variable.
    name
        Of the hidden variable.
    seed
        Of the random rows, uniform over the simplex.

    Examples
    --------
    >>> from credo.models.normal_form_build import embedding
    >>> embedding({"X1": 2, "X2": 2, "X3": 3}, 4, seed=0)
    NormalForm(7 branches, 3 blocks, 1 sources, 1 diverters; terminals X1, X2, X3)
    """
    given = Variables.of(leaves)
    parents = {v.name: [name] for v in given}
    net = BayesNet.random({name: states} | {v.name: v.domain for v in given}, parents, seed=seed)
    return from_bayes_net(net, hidden=[name])


def product_latent(
    leaves: Mapping[str, Any] | Variables, *, name: str = "S", prior: Any = None
) -> NormalForm:
    """A hidden variable that is the whole product space of the leaves: only its prior is learnable.

    The blocks to the leaves are fixed matrices that pick one variable each.
    """
    given = Variables.of(leaves)
    sizes = [v.size for v in given]
    cells = int(np.prod(sizes))
    sketch = _Sketch(given.names)
    space = sketch.branch(name, cells)
    table = np.full(cells, 1.0 / cells) if prior is None else np.ravel(prior)
    sketch.parts.append(Source(space, table))
    arms = [space] if len(given) == 1 else [sketch.copy(f"{name}^{k + 1}", cells) for k in range(len(given))]
    if len(arms) > 1:
        sketch.parts.append(Diverter(space, tuple(arms)))
    for k, (v, arm) in enumerate(zip(given, arms, strict=True)):
        leaf = sketch.branch(v.name, v.domain)
        theta = from_product(sizes, k)
        sketch.parts.append(Block(arm, leaf, theta, fixed=True, name=f"p({v.name}|{name})"))
    return sketch.graph()


def hidden_chain(start: Any, transition: Any, emission: Any, steps: int) -> NormalForm:
    """A hidden Markov model over a number of steps: a chain of tied blocks.

    Hidden branches are Z0, Z1, ...; observed ones are X0, X1, ... The parameters are "start", "transition"
    and "emission". Shorter sequences leave their last observations missing.

    Examples
    --------
    >>> from credo.models.normal_form_build import hidden_chain
    >>> chain = hidden_chain([0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]], [[0.1, 0.4, 0.5], [0.6, 0.3, 0.1]], 3)
    >>> round(float(chain.log_likelihoods({"X0": 0, "X1": 1, "X2": 2})[0]), 6)
    -3.392872
    """
    check.whole("steps", steps, 1)
    emission = float_array("emission", emission)
    if emission.ndim != 2:
        raise ModelError(f"emission: expected a matrix (states, symbols), got shape {emission.shape}")
    hidden, symbols = emission.shape
    sketch = _Sketch()
    sketch.parts.append(Source("Z0", start, tie="start"))
    for t in range(steps):
        sketch.branch(f"Z{t}", hidden)
        sketch.branch(f"X{t}", symbols)
        arm = f"Z{t}"
        if t + 1 < steps:
            arm = sketch.branch(f"Z{t}^1", hidden)
            onwards = sketch.branch(f"Z{t}^2", hidden)
            sketch.parts.append(Diverter(f"Z{t}", (arm, onwards)))
            name = f"p(Z{t + 1}|Z{t})"
            sketch.parts.append(Block(onwards, f"Z{t + 1}", transition, name=name, tie="transition"))
        sketch.parts.append(Block(arm, f"X{t}", emission, name=f"p(X{t}|Z{t})", tie="emission"))
    return sketch.graph()
