"""Pictures of models: Bayesian networks as arrows, other models as factor or pairwise graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from ..core import check
from ..core.errors import QueryError, UnsupportedError
from ..core.evidence import Evidence
from ..core.factor_graph import Model
from ..core.result import Marginals, Result
from ..core.variable import Variables
from .arrange import Scopes, arrange_arrows, arrange_factors, arrange_pairs
from .beliefs import marginals_of
from .nodes import BeliefBox, DotMark, Node, Oval, mixed_colour, rows_of
from .style import Size

__all__ = ["plot_model"]

Style = Literal["auto", "directed", "factors", "pairwise"]

MOST_VARIABLES = 2000
MOST_LABELS = 150  # with more variables than this they are dots without names
MOST_BOXES = 60  # with more variables than this beliefs are colours instead of bars


def plot_model(
    model: Model,
    *,
    style: Style = "auto",
    evidence: Mapping[str, Any] | None = None,
    beliefs: Result | Marginals | None = None,
    positions: Mapping[str, tuple[float, float]] | None = None,
    ax: Any = None,
    figsize: Size | None = None,
) -> Any:
    """Draw the structure of a model, and what is believed about its variables.

    Parameters
    ----------
    model
        Anything with `to_factor_graph()`.
    style
        "directed": arrows from parents to children (the model must have `parents`);
        "factors": round variables and square factors; "pairwise": variables joined when they
        share a factor. "auto" takes arrows if the model has parents, lines if no factor has
        more than two variables and there are more than twelve variables, squares otherwise.
    evidence
        Observed variables are drawn dark, with their state.
    beliefs
        An answer about the model: each variable shows its marginal, as bars while there are at
        most 60 variables, else as the mixture of its states' colours, pale where undecided
        (real variables then stay plain).
    positions
        Name -> (x, y) in inches, y upwards; by default the layout is found from the graph, in
        layers if directed, and grids numbered row by row are drawn as grids.
    ax
        Matplotlib axes to draw into; by default a new figure is made.
    figsize
        Width and height of the new figure in inches; by default what the drawing needs.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import credo
    >>> model = credo.datasets.sprinkler()
    >>> seen = {"wet": "yes"}
    >>> figure = credo.plotting.plot_model(model, evidence=seen, beliefs=credo.infer(model, evidence=seen))
    >>> [text.get_text() for text in figure.axes[0].texts][:3]
    ['cloudy', 'no', '42.4']
    """
    check.one_of("style", style, ("auto", "directed", "factors", "pairwise"))
    graph = model.to_factor_graph()
    variables = graph.variables
    if len(variables) > MOST_VARIABLES:
        raise UnsupportedError(
            f"plot_model: expected at most {MOST_VARIABLES} variables, got {len(variables)}; "
            "draw a part of the model"
        )
    scopes = _scopes(graph)
    chosen = _choose(model, scopes, len(variables)) if style == "auto" else style
    nodes = _nodes(variables, evidence, None if beliefs is None else marginals_of(beliefs))
    places = _given(variables, positions)
    if chosen == "directed":
        drawing = arrange_arrows(_arrows(model, variables), nodes, places)
    else:
        arrange = arrange_pairs if chosen == "pairwise" else arrange_factors
        drawing = arrange(scopes, nodes, places)
    coloured = beliefs is not None and len(variables) > MOST_BOXES
    return drawing.paint(nodes, _key(variables) if coloured else (), ax, figsize)


def _scopes(graph: Any) -> Scopes:
    return [scope.tolist() for scope in graph.scopes]


def _choose(model: Model, scopes: Scopes, count: int) -> Style:
    if hasattr(model, "parents"):
        return "directed"
    widest = max((len(scope) for scope in scopes), default=0)
    return "pairwise" if widest <= 2 and count > 12 else "factors"


def _arrows(model: Any, variables: Variables) -> list[tuple[int, int]]:
    if not hasattr(model, "parents"):
        raise UnsupportedError(
            f"plot_model: style 'directed' needs a model with parents, got {type(model).__name__}; "
            "use style='factors'"
        )
    position = variables.position
    return [(position(p), position(child)) for child, names in model.parents.items() for p in names]


def _nodes(variables: Variables, evidence: Mapping[str, Any] | None, beliefs: Marginals | None) -> list[Node]:
    """How each variable looks: with few of them all is said, with many a colour is."""
    seen = Evidence.of(variables, evidence)
    soft = {i for i, _ in seen.likelihoods}
    nodes: list[Node] = []
    many, most_states = len(variables) > MOST_LABELS, int(variables.sizes.max(initial=0))
    for i, variable in enumerate(variables):
        name, value = variable.name, seen.value(i)
        observed = value is not None or i in soft
        belief = None if beliefs is None else _belief(variable, beliefs)
        label = name if value is None else f"{name} = {_value(variable, value)}"
        if belief is not None and len(variables) <= MOST_BOXES:
            states = variable.states if variable.is_discrete else ()
            nodes.append(BeliefBox(label, observed, rows_of(states, belief)))
            continue
        colour = None if belief is None else mixed_colour(belief, most_states)
        nodes.append(DotMark(observed, colour) if many else Oval(label, observed, colour))
    return nodes


def _value(variable: Any, value: Any) -> str:
    if variable.is_discrete:
        return str(variable.label(int(value)))
    return ", ".join(f"{x:.4g}" for x in np.ravel(value))


def _belief(variable: Any, beliefs: Marginals) -> Any:
    belief = beliefs[variable.name]
    if variable.is_discrete and np.shape(belief) != (variable.size,):
        raise QueryError(
            f"plot_model: expected beliefs about the {variable.size} states of '{variable.name}', "
            f"got {_kind(belief)}; give an answer to this model"
        )
    return belief


def _kind(belief: Any) -> str:
    return f"{len(belief)} numbers" if np.ndim(belief) else "a density"


def _key(variables: Variables) -> list[str]:
    """Names of the states whose colours are shown: labels if all variables have the same, else numbers."""
    labels = {variable.states for variable in variables if variable.is_discrete}
    if not labels:
        raise UnsupportedError(
            f"plot_model: beliefs about more than {MOST_BOXES} variables are colours of states, and none of "
            f"these {len(variables)} variables has states; use plot_densities(answer, names=[...])"
        )
    most = max(len(states) for states in labels)
    return list(labels.pop()) if len(labels) == 1 else [f"state {k}" for k in range(most)]


def _given(variables: Variables, positions: Mapping[str, tuple[float, float]] | None) -> np.ndarray | None:
    if positions is None:
        return None
    absent = [name for name in variables.names if name not in positions]
    if absent:
        raise QueryError(f"plot_model: expected a position for every variable, got none for '{absent[0]}'")
    return np.array([positions[name] for name in variables.names], dtype=np.float64).reshape(-1, 2)
