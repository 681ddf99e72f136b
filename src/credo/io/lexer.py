"""Text of a model file: decoding, comments, quoted names, and the way back to line numbers.

Parsers of bracketed formats look for brackets and separators with compiled expressions. So that
none of them is found inside a quoted name or a comment, `SourceText` replaces both first: comments
become blanks, a quoted name that reads the same without quotes loses them, and any other quoted
name becomes a placeholder that `Source.name` turns back. Line breaks always stay, so a position
in the prepared text has the line number of the file.
"""

from __future__ import annotations

import re

from ..core.errors import FormatError
from .base import wrong

__all__ = ["MARK", "SourceText", "decode"]

# Reads the same with and without quotes, in every format that has quotes.
_PLAIN = re.compile(r"[\w.+<>-]+")
MARK = "\x01"  # begins the placeholder of a quoted name
_NOT_BLANK = re.compile(r"\S")


class SourceText:
    """Prepared text of one file.

    Parameters
    ----------
    content
        The bytes of the file.
    file
        Its name, for messages.
    comment
        Regular expression of a comment.
    marks
        What a comment starts with, as plain text.
    escapes
        Whether a backslash in quotes protects the next character.
    """

    def __init__(
        self, content: bytes, file: str, comment: str, marks: tuple[str, ...], *, escapes: bool = False
    ) -> None:
        self.file = file
        self.text = decode(content, file)
        self._strings: list[str] = []
        self._token: dict[str, str] = {}
        self._escapes = escapes
        self._counted = (0, 1)  # a position and its line number
        # A plain search is much faster than the expression, and most files need no more.
        if any(mark in self.text for mark in ('"', *marks)):
            self._prepare(comment)

    def _prepare(self, comment: str) -> None:
        quoted = r'"(?:[^"\\]|\\.)*+"' if self._escapes else r'"[^"]*+"'
        special = re.compile(f"{quoted}|{comment}", re.DOTALL)
        self.text = special.sub(self._replace, self.text)
        at = self.text.find('"')
        if at >= 0:
            raise self.error(at, f"expected a closing quote, got {self.text[at : at + 20]!r}")

    def _replace(self, match: re.Match[str]) -> str:
        found = match[0]
        breaks = "\n" * found.count("\n")
        if found[0] != '"':
            return " " + breaks
        token = self._token.get(found)
        if token is None:
            string = found[1:-1]
            if self._escapes:
                string = re.sub(r"\\(.)", r"\1", string, flags=re.DOTALL)
            token = string
            if not _PLAIN.fullmatch(string):
                token = f"{MARK}{len(self._strings)}"
                self._strings.append(string)
            self._token[found] = token
        return f" {token} {breaks}"

    def name(self, token: str) -> str:
        """Turn a token back into the name it stands for."""
        return self._strings[int(token[1:])] if token[:1] == MARK else token

    def spellings(self, name: str) -> list[str]:
        """List the tokens that stand for a name."""
        return [name, *(t for t in (self._token.get(f'"{name}"'),) if t and t != name)]

    def readable(self, text: str) -> str:
        """Shorten a piece of the prepared text for a message."""
        shown = re.sub(f"{MARK}(\\d+)", lambda m: f'"{self._strings[int(m[1])]}"', text[:200])
        shown = " ".join(shown.split())
        return shown if len(shown) <= 40 else shown[:40] + "..."

    def line(self, at: int) -> int:
        """Line number of a position in the text; rising positions cost one pass over the text."""
        start, line = self._counted if self._counted[0] <= at else (0, 1)
        self._counted = (at, line + self.text.count("\n", start, at))
        return self._counted[1]

    def error(self, at: int, message: str) -> FormatError:
        """Make the error for something wrong at a position in the text."""
        return wrong(self.file, self.line(at), message)

    def skip_blanks(self, at: int) -> int:
        """Find the first position from `at` on that is not blank; the length of the text if none is."""
        found = _NOT_BLANK.search(self.text, at)
        return found.start() if found else len(self.text)


def decode(content: bytes, file: str) -> str:
    """Text of a file in UTF-8 or, failing that, Latin-1, in which older tools write."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    for character in "\x00\x01":
        if character in text:
            line = text.count("\n", 0, text.index(character)) + 1
            raise wrong(file, line, f"expected text, got the control character {character!r}")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
