"""The documentation site: built without a warning and without the network, and read without one."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
INSTALLED = all(importlib.util.find_spec(name) for name in ("mkdocs", "material", "pymdownx"))
pytestmark = pytest.mark.skipif(not INSTALLED, reason="the packages of amt[docs] are not installed")

BUILD = """
import socket, sys

def refuse(*given, **more):
    raise OSError("the documentation asked for the network")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = refuse
from mkdocs.__main__ import cli
cli()
"""


class Fetched(HTMLParser):
    """Collects what a browser fetches by itself to show a page, not the links that a reader follows."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.classes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.classes |= set(given.get("class", "").split())
        if "src" in given:
            self.addresses.append(given["src"])
        if tag == "link":
            self.addresses.append(given.get("href", ""))
        self.addresses += re.findall(r"url\(([^)]+)\)", given.get("style", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site é")
    done = subprocess.run(
        [sys.executable, "-c", BUILD, "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env=dict(os.environ) | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr.strip(), "a warning"
    return folder


def test_every_page_is_there(site: Path) -> None:
    pages = {path.stem for path in site.glob("*.html")}
    assert {path.stem for path in DOCS.glob("*.md")} == pages - {"404"}


def test_pages_fetch_from_their_own_folder_only(site: Path) -> None:
    for page in site.glob("*.html"):
        found = Fetched()
        found.feed(page.read_text(encoding="utf-8"))
        assert found.addresses, page.name
        for address in found.addresses:
            assert not re.match(r"(\w+:)?//", address), f"{page.name} fetches {address}"
            if page.name != "404.html" and not address.startswith(("data:", "#")):
                assert (site / address.partition("?")[0].partition("#")[0]).exists(), (
                    f"{page.name}: {address}"
                )
        assert "mermaid" not in found.classes, f"{page.name}: its script comes from elsewhere"


def test_styles_fetch_nothing_from_elsewhere(site: Path) -> None:
    styles = list(site.rglob("*.css"))
    assert styles
    for style in styles:
        text = style.read_text(encoding="utf-8")
        assert "@import" not in text, style.name
        assert not re.search(r"""url\(["']?(\w+:)?//""", text), style.name
    assert not list(site.rglob("*.woff*")), "fonts are the reader's own"


def test_the_search_knows_the_pages(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "predict.html" in index
    assert "REINFORCE" in index
