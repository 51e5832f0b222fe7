"""The tags of a page with the names of their attributes: what no name of a trace may change."""

from __future__ import annotations

from html.parser import HTMLParser


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[str, ...]]] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, tuple(sorted(name for name, _ in attrs))))


def tags(page: str) -> list[tuple[str, tuple[str, ...]]]:
    """Every start tag in order."""
    parser = _Tags()
    parser.feed(page)
    return parser.seen
