"""XDSL, the format of GeNIe and SMILE (`.xdsl`).

    <smile version="1.0" id="weather"><nodes>
      <cpt id="rain"><state id="no"/><state id="yes"/><probabilities>0.8 0.2</probabilities></cpt>
      <cpt id="wet"><state id="no"/><state id="yes"/><parents>rain</parents>
        <probabilities>0.9 0.1 0.05 0.95</probabilities></cpt>
    </nodes></smile>

In `probabilities` the first parent is slowest and the variable itself fastest. A `deterministic`
variable lists one resulting state per joint state of its parents. A `noisymax` variable is
expanded to its table: with states ordered from strongest to weakest,

    P(x weaker than or equal to k | parents) = leak_k prod_i C_i,k(parent state)

where C_i,k adds up, from the weakest state up to k, the column of parent i. The columns of a
parent follow its `strengths`, and the last one has all weight on the weakest state. Strengths
that are not their own inverse are refused, because the format's description leaves open
whether they list states or ranks. Decisions, utilities, equations and time slices are refused.

GeNIe itself wants identifiers made of letters, digits and underscores; the writer keeps other
names as long as they have no blanks, which this reader and others accept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..models.bayes_net import BayesNet
from .base import Format, register_format, wrong
from .directed import EXACT, Draft, NodeFamily, check_names, network_of, rows_of
from .xml_tree import Element, escape, holds, parse

__all__ = ["read", "write"]


def read(content: bytes, file: str) -> BayesNet:
    """Read a Bayesian network from the bytes of a file, whose name is for messages.

    Examples
    --------
    >>> from credo.io.xdsl import read
    >>> text = b'''<smile version="1.0" id="n"><nodes>
    ...   <cpt id="a"><state id="no"/><state id="yes"/><probabilities>0.8 0.2</probabilities></cpt>
    ... </nodes></smile>'''
    >>> read(text, "a.xdsl").tables["a"]
    array([0.8, 0.2])
    """
    root = parse(content, file)
    nodes = root.first("nodes") if root.tag == "smile" else None
    if nodes is None:
        raise wrong(file, root.line, f"expected <smile> with <nodes> inside, got <{root.tag}>")
    dynamic = root.first("dynamic")
    if dynamic is not None:
        raise wrong(file, dynamic.line, "this is a dynamic network; unroll it in GeNIe before saving")
    draft = Draft(file)
    for node in nodes.children:
        _declare(draft, node)
    for node in nodes.children:
        parents = (_child_text(node, "parents") or "").split()
        family = draft.family(node.attributes["id"], parents, node.line)
        draft.add(_KINDS[node.tag](draft, family, node))
    return draft.finish()


def _declare(draft: Draft, node: Element) -> None:
    name = node.attributes.get("id")
    if node.tag not in _KINDS:
        raise wrong(
            draft.file,
            node.line,
            f"variable '{name}' is a <{node.tag}>; only {', '.join(_KINDS)} can be read",
        )
    states = [state.attributes.get("id") for state in node.all("state")]
    if name is None or None in states:
        raise wrong(
            draft.file, node.line, f"<{node.tag}>: expected an id for it and all its states, got none"
        )
    draft.declare(name, [s for s in states if s is not None], node.line)


def _child_text(node: Element, tag: str) -> str | None:
    child = node.first(tag)
    return None if child is None else child.text


def _tokens(draft: Draft, family: NodeFamily, node: Element, tag: str) -> tuple[list[str], int]:
    """Words in a child element that must be there, and its line."""
    child = node.first(tag)
    if child is None:
        raise wrong(draft.file, node.line, f"table of '{family.name}': expected <{tag}>, got none")
    return child.text.split(), child.line


def _cpt(draft: Draft, family: NodeFamily, node: Element) -> np.ndarray:
    return draft.tabulate(family, *_tokens(draft, family, node, "probabilities"))


def _deterministic(draft: Draft, family: NodeFamily, node: Element) -> np.ndarray:
    labels, line = _tokens(draft, family, node, "resultingstates")
    if len(labels) != family.rows:
        raise wrong(
            draft.file,
            line,
            f"table of '{family.name}': expected {family.rows} resulting states, got {len(labels)}",
        )
    place = {label: k for k, label in enumerate(draft.labels[family.child])}
    unknown = next((label for label in labels if label not in place), None)
    if unknown is not None:
        states = list(place)[:12]
        raise wrong(draft.file, line, f"'{family.name}' has no state '{unknown}'; its states are {states}")
    draft.check_size(family)
    table = np.zeros((family.rows, family.size))
    table[np.arange(family.rows), [place[label] for label in labels]] = 1.0
    return table


def _noisymax(draft: Draft, family: NodeFamily, node: Element) -> np.ndarray:
    """Expand a noisy-max; equations in the module."""
    what = f"noisymax '{family.name}'"
    tokens, line = _tokens(draft, family, node, "parameters")
    expected = (sum(family.sizes) + 1) * family.size
    if len(tokens) != expected:
        raise wrong(draft.file, line, f"{what}: expected {expected} parameters, got {len(tokens)}")
    columns = draft.numbers(what, [tokens], lambda _: line).reshape(-1, family.size)
    if not np.allclose(columns.sum(axis=1), 1, rtol=0, atol=1e-6) or not (columns >= 0).all():
        raise wrong(draft.file, line, f"{what}: expected parameters that are distributions summing to 1")
    orders = _strengths(draft, family, node)
    draft.check_size(family)
    upto = np.cumsum(columns[:, ::-1], axis=1)  # over states from the weakest
    joint = upto[-1].reshape((1,) * len(family.sizes) + (-1,))
    start = 0
    for k, (size, order) in enumerate(zip(family.sizes, orders, strict=True)):
        mine = upto[start : start + size]
        if (columns[start + size - 1, :-1] > EXACT).any():
            raise wrong(
                draft.file,
                line,
                f"{what}: expected all weight of a parent's last column on the last state, "
                f"got {columns[start + size - 1].tolist()}",
            )
        shape = [1] * len(family.sizes) + [family.size]
        shape[k] = size
        joint = joint * mine[np.argsort(order)].reshape(shape)
        start += size
    # Rounding may leave differences a little below zero.
    table: np.ndarray = np.maximum(np.diff(joint, axis=-1, prepend=0.0)[..., ::-1], 0.0)
    return table


def _strengths(draft: Draft, family: NodeFamily, node: Element) -> list[list[int]]:
    """For each parent, the order of its states from strongest to weakest."""
    what = f"noisymax '{family.name}'"
    child = node.first("strengths")
    if child is None:
        return [list(range(size)) for size in family.sizes]
    words = child.text.split()
    orders, start = [], 0
    for size in family.sizes:
        part = words[start : start + size]
        if sorted(part) != sorted(map(str, range(size))):
            raise wrong(
                draft.file, child.line, f"{what}: expected strengths that order {size} states, got {part}"
            )
        order = [int(word) for word in part]
        if [order[k] for k in order] != list(range(size)):
            raise wrong(
                draft.file,
                child.line,
                f"{what}: cannot expand the strengths {part}; change it to a cpt in GeNIe before saving",
            )
        orders.append(order)
        start += size
    if len(words) != start:
        raise wrong(draft.file, child.line, f"{what}: expected {start} strengths, got {len(words)}")
    return orders


_KINDS = {"cpt": _cpt, "deterministic": _deterministic, "noisymax": _noisymax}


def write(model: Any) -> str:
    """Write a `BayesNet`, parents before children as GeNIe wants it.

    Examples
    --------
    >>> from credo import BayesNet
    >>> from credo.io.xdsl import write
    >>> print(write(BayesNet({"a": ["no", "yes"]}, {}, {"a": [0.8, 0.2]})))
    <?xml version="1.0" encoding="UTF-8"?>
    <smile version="1.0" id="unknown" numsamples="10000">
    <nodes>
    <cpt id="a">
      <state id="no" />
      <state id="yes" />
      <probabilities>0.8 0.2</probabilities>
    </cpt>
    </nodes>
    <extensions>
    <genie version="1.0" app="credo" name="unknown">
      <node id="a"><name>a</name></node>
    </genie>
    </extensions>
    </smile>
    <BLANKLINE>
    """
    model = network_of(model, "XDSL")
    check_names(model, "XDSL", _fits, "names without blanks and control characters")
    names = [model.variables.names[i] for i in model.order]
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>\n',
        '<smile version="1.0" id="unknown" numsamples="10000">\n<nodes>\n',
    ]
    for name in names:
        variable = model.variables[model.variables.position(name)]
        states = "".join(f'  <state id="{escape(s)}" />\n' for s in variable.states)
        given = " ".join(escape(p) for p in model.parents[name])
        parents = f"  <parents>{given}</parents>\n" if given else ""
        numbers = " ".join(rows_of(model.tables[name], " "))
        parts.append(
            f'<cpt id="{escape(name)}">\n{states}{parents}'
            f"  <probabilities>{numbers}</probabilities>\n</cpt>\n"
        )
    parts.append('</nodes>\n<extensions>\n<genie version="1.0" app="credo" name="unknown">\n')
    parts.extend(f'  <node id="{escape(n)}"><name>{escape(n)}</name></node>\n' for n in names)
    parts.append("</genie>\n</extensions>\n</smile>\n")
    return "".join(parts)


def _fits(name: str) -> bool:
    return holds(name) and name.split() == [name]


FORMAT = register_format(Format("xdsl", (".xdsl",), read, write))
