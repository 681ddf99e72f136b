"""XML as a tree whose elements know their line, for the formats that are XML.

The parser is expat, which the standard library's element tree uses too but without lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.parsers import expat

from ..core.errors import FormatError
from .base import wrong

__all__ = ["Element", "escape", "holds", "parse"]

# Characters that XML 1.0 has, without the control characters that it changes while reading.
_CHARACTERS = re.compile("[\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")


class Element:
    """A tag with its attributes, children and text."""

    __slots__ = ("attributes", "children", "line", "pieces", "tag")

    def __init__(self, tag: str, attributes: dict[str, str], line: int) -> None:
        self.tag, self.attributes, self.line = tag, attributes, line
        self.children: list[Element] = []
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        """The text directly in this element, a comment counting as a blank."""
        return "".join(self.pieces)

    def all(self, tag: str) -> Iterator[Element]:
        """Iterate over the children with a tag."""
        return (child for child in self.children if child.tag == tag)

    def first(self, tag: str) -> Element | None:
        """Find the first child with a tag."""
        return next(self.all(tag), None)


def parse(content: bytes, file: str) -> Element:
    """Read XML; returns the outermost element."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    outside = Element("", {}, 1)
    stack = [outside]

    def start(tag: str, attributes: dict[str, str]) -> None:
        element = Element(tag, attributes, parser.CurrentLineNumber)
        stack[-1].children.append(element)
        stack.append(element)

    def entity(name: str, *_: object) -> None:
        raise wrong(file, parser.CurrentLineNumber, f"expected no entities of its own, got '{name}'")

    parser.StartElementHandler = start

    def text(data: str) -> None:
        stack[-1].pieces.append(data)

    parser.EndElementHandler = lambda _: stack.pop()
    parser.CharacterDataHandler = text
    # Two numbers on both sides of a comment are two numbers.
    parser.CommentHandler = lambda _: text(" ")
    parser.EntityDeclHandler = entity
    parser.SkippedEntityHandler = entity
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise wrong(file, error.lineno, f"expected XML, got: {expat.ErrorString(error.code)}") from None
    except FormatError:
        raise
    except (ValueError, LookupError) as error:  # encodings that Python or expat does not know
        raise wrong(file, 1, f"expected XML, got: {error}") from None
    return outside.children[0]


def escape(text: str) -> str:
    """Protect the characters that mean something in XML."""
    for character, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(character, name)
    return text


def holds(name: str) -> bool:
    """Whether a name survives XML: known characters, no blanks at its ends, not empty."""
    return _CHARACTERS.fullmatch(name) is not None and name == name.strip()
