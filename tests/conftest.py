"""What tests of several rooms share."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest


class Page(HTMLParser):
    """Collects what a browser would fetch or run, and whether tags are closed."""

    VOID = frozenset({"meta", "img", "br", "line", "link", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.sources: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [value or "" for key, value in attrs if key in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def _read_page(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    assert "{{" not in text
    assert not {"script", "link", "iframe"} & set(page.tags)
    assert all(source.startswith("data:") for source in page.sources)
    assert not re.search(r"url\(|@import|https?://", text)
    return page


@pytest.fixture
def read_page() -> Callable[[Path], Page]:
    """Reads a report, which must be one whole page that fetches and runs nothing."""
    return _read_page
