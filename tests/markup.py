"""Reading HTML strictly: every element is closed, in order, and nothing is loaded from elsewhere."""

from __future__ import annotations

from html.parser import HTMLParser


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, str, str]] = []  # tag, style, text of every element that has text
        self.style: list[str] = []

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "link", "img", "iframe"), tag
        given = dict(attrs)
        assert not {"src", "href"} & set(given)
        self.open.append(tag)
        self.style.append(given.get("style") or "")

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag
        self.style.pop()

    def handle_data(self, data):
        assert self.open
        self.elements.append((self.open[-1], self.style[-1], data))


def read(html: str) -> list[tuple[str, str, str]]:
    """(tag, style, text) of every element that holds text; fails on HTML that is not well formed."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open
    return reader.elements


def cells(html: str) -> list[str]:
    """The texts of the cells of all tables."""
    return [text for tag, _, text in read(html) if tag in ("td", "th")]
