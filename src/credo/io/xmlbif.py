"""XMLBIF 0.3, the XML form of the Interchange Format (`.xmlbif`, `.bifxml`, `.xml`).

    <BIF VERSION="0.3"><NETWORK><NAME>weather</NAME>
      <VARIABLE TYPE="nature"><NAME>rain</NAME><OUTCOME>no</OUTCOME><OUTCOME>yes</OUTCOME></VARIABLE>
      <VARIABLE TYPE="nature"><NAME>wet</NAME><OUTCOME>no</OUTCOME><OUTCOME>yes</OUTCOME></VARIABLE>
      <DEFINITION><FOR>rain</FOR><TABLE>0.8 0.2</TABLE></DEFINITION>
      <DEFINITION><FOR>wet</FOR><GIVEN>rain</GIVEN><TABLE>0.9 0.1 0.05 0.95</TABLE></DEFINITION>
    </NETWORK></BIF>

In a table the first GIVEN is slowest and FOR is fastest. Comments in a table and PROPERTY
elements are skipped; decision and utility variables are refused.
"""

from __future__ import annotations

from typing import Any

from ..models.bayes_net import BayesNet
from .base import Format, register_format, wrong
from .directed import Draft, check_names, network_of, rows_of
from .xml_tree import Element, escape, holds, parse

__all__ = ["read", "write"]


def read(content: bytes, file: str) -> BayesNet:
    """Read a Bayesian network from the bytes of a file, whose name is for messages.

    Examples
    --------
    >>> from credo.io.xmlbif import read
    >>> text = b'''<BIF VERSION="0.3"><NETWORK>
    ...   <VARIABLE TYPE="nature"><NAME>a</NAME><OUTCOME>no</OUTCOME><OUTCOME>yes</OUTCOME></VARIABLE>
    ...   <DEFINITION><FOR>a</FOR><TABLE>0.8 0.2</TABLE></DEFINITION>
    ... </NETWORK></BIF>'''
    >>> read(text, "a.xmlbif").tables["a"]
    array([0.8, 0.2])
    """
    root = parse(content, file)
    network = root.first("NETWORK") if root.tag == "BIF" else None
    if network is None:
        raise wrong(file, root.line, f"expected <BIF> with a <NETWORK> inside, got <{root.tag}>")
    draft = Draft(file)
    for variable in network.all("VARIABLE"):
        _declare(draft, variable)
    for definition in network.all("DEFINITION"):
        _define(draft, definition)
    return draft.finish()


def _declare(draft: Draft, variable: Element) -> None:
    name = _text(draft, variable, "NAME")
    kind = variable.attributes.get("TYPE", "nature")
    if kind != "nature":
        raise wrong(
            draft.file,
            variable.line,
            f"variable '{name}' is of type {kind}; only nature variables can be read, no decision networks",
        )
    draft.declare(name, [o.text.strip() for o in variable.all("OUTCOME")], variable.line)


def _define(draft: Draft, definition: Element) -> None:
    child = _text(draft, definition, "FOR")
    given = [g.text.strip() for g in definition.all("GIVEN")]
    family = draft.family(child, given, definition.line)
    table = definition.first("TABLE")
    if table is None:
        raise wrong(draft.file, definition.line, f"definition of '{child}': expected a <TABLE>, got none")
    if table.children:
        inner = table.children[0]
        raise wrong(draft.file, inner.line, f"table of '{child}': expected numbers, got <{inner.tag}>")
    draft.add(draft.tabulate(family, table.text.split(), table.line))


def _text(draft: Draft, parent: Element, tag: str) -> str:
    """Text of the one child with a tag."""
    found = list(parent.all(tag))
    if len(found) != 1:
        raise wrong(draft.file, parent.line, f"<{parent.tag}>: expected one <{tag}>, got {len(found)}")
    return found[0].text.strip()


_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<BIF VERSION="0.3">
<NETWORK>
<NAME>unknown</NAME>
"""


def write(model: Any) -> str:
    """Write a `BayesNet`.

    Examples
    --------
    >>> from credo import BayesNet
    >>> from credo.io.xmlbif import write
    >>> print(write(BayesNet({"a": ["no", "yes"]}, {}, {"a": [0.8, 0.2]})))
    <?xml version="1.0" encoding="UTF-8"?>
    <BIF VERSION="0.3">
    <NETWORK>
    <NAME>unknown</NAME>
    <VARIABLE TYPE="nature">
      <NAME>a</NAME>
      <OUTCOME>no</OUTCOME>
      <OUTCOME>yes</OUTCOME>
    </VARIABLE>
    <DEFINITION>
      <FOR>a</FOR>
      <TABLE>
        0.8 0.2
      </TABLE>
    </DEFINITION>
    </NETWORK>
    </BIF>
    <BLANKLINE>
    """
    model = network_of(model, "XMLBIF")
    check_names(model, "XMLBIF", holds, "names without control characters and blanks at their ends")
    parts = [_HEAD]
    for variable in model.variables:
        states = "".join(f"  <OUTCOME>{escape(s)}</OUTCOME>\n" for s in variable.states)
        parts.append(
            f'<VARIABLE TYPE="nature">\n  <NAME>{escape(variable.name)}</NAME>\n{states}</VARIABLE>\n'
        )
    for name, table in model.tables.items():
        given = "".join(f"  <GIVEN>{escape(p)}</GIVEN>\n" for p in model.parents[name])
        rows = "".join(f"    {row}\n" for row in rows_of(table, " "))
        parts.append(
            f"<DEFINITION>\n  <FOR>{escape(name)}</FOR>\n{given}  <TABLE>\n{rows}  </TABLE>\n</DEFINITION>\n"
        )
    return "".join([*parts, "</NETWORK>\n</BIF>\n"])


FORMAT = register_format(Format("xmlbif", (".xmlbif", ".bifxml", ".xml"), read, write))
