"""The pages of docs/: links, navigation, and what they say against what the code says. Needs no mkdocs."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from amt.cli.document import DOCUMENTS, layers_picture, main
from amt.preparation.corpora import CORPORA
from amt.preparation.corpora.corpus import get_corpus

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.glob("*.md")), ROOT / "CONTRIBUTING.md"]


def text_of(page: Path) -> str:
    """The page without code, in which nothing is a heading or a link."""
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", lambda found: found[0].replace("[", "").replace("](", ""), text)


def anchors(page: Path) -> set[str]:
    """Ids of the headings as GitHub makes them, and as mkdocs.yml asks for."""
    made = set()
    for heading in re.findall(r"^#+ (.+)$", text_of(page), flags=re.MULTILINE):
        made.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return made


def test_anchors_are_those_of_github(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Weights & Biases\n```\n# no heading\n```\n## Front ends (`-ac`)\n", encoding="utf-8")
    assert anchors(page) == {"weights--biases", "front-ends--ac"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if target.startswith(("https://", "http://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        file = page if not name else page.parent / name
        assert file.is_file(), f"{page.name}: {target}"
        if page.parent == DOCS:
            assert file.resolve().parent == DOCS, f"{page.name}: {target} leaves the site"
        if anchor:
            assert anchor in anchors(file), f"{page.name}: {target}"


def configuration() -> dict[str, Any]:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(re.sub(r"!!python/\S+", "", text))
    return loaded


def leaves(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [leaf for item in (nav.values() if isinstance(nav, dict) else nav) for leaf in leaves(item)]


def test_every_page_is_in_the_navigation_once() -> None:
    listed = leaves(configuration()["nav"])
    assert sorted(listed) == sorted(path.name for path in DOCS.glob("*.md"))


def test_the_first_page_names_every_example_and_extra() -> None:
    import tomllib

    text = (DOCS / "index.md").read_text(encoding="utf-8")
    examples = re.findall(r"^\| `(\w+\.py)` \|", text, flags=re.M)
    assert sorted(examples) == sorted(path.name for path in (ROOT / "examples").glob("*.py"))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    said = text.partition("Extras: ")[2].partition(". ")[0]
    assert sorted(re.findall(r"`(\w+)`", said)) == sorted(extras)


def test_the_site_fetches_nothing() -> None:
    found = configuration()
    assert found["strict"] is True
    assert found["theme"]["font"] is False
    assert not {"extra_javascript", "extra_css"} & set(found)
    assert "mermaid" not in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_generated_parts_are_current() -> None:
    assert Path("docs") / "architecture.md" in DOCUMENTS
    assert main(["--check"]) == 0, "run python -m amt.cli.document"


def test_the_picture_is_the_contract() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    rows = [row.strip("| ").replace("(may import each other)", "") for row in layers_picture().splitlines()]
    rows = [row for row in rows if row and row[0].isalpha() and row != "v"]
    assert [row.split() for row in rows] == [re.findall(r"amt\.(\w+)", layer) for layer in contract["layers"]]


def test_every_room_has_a_row() -> None:
    rooms = {path.parent.name for path in (ROOT / "src").glob("*/__init__.py")}
    rows = re.findall(r"^\| `(\w+)` \|", (DOCS / "architecture.md").read_text(encoding="utf-8"), flags=re.M)
    assert sorted(rows) == sorted(rooms)


def licence_rows(mark: str) -> list[list[str]]:
    text = (DOCS / "licences.md").read_text(encoding="utf-8").partition(f"<!-- {mark} -->\n")[2]
    table = text.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table]


def test_licences_are_those_of_the_data_sets() -> None:
    said = {name: row[1] for row in licence_rows("data sets") for name in re.findall(r"`(\w+)`", row[0])}
    assert said == {name: get_corpus(name).licence for name in CORPORA}


def test_packages_with_terms_are_named() -> None:
    named = " ".join(row[0] for row in licence_rows("packages"))
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        name = line.partition("==")[0]
        if not name or name.startswith("#"):
            continue
        try:
            about = importlib.metadata.metadata(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        said = [about.get("License-Expression", ""), *(about.get_all("Classifier") or [])]
        said += (about.get("License") or "").splitlines()[:1]
        if re.search(r"GPL|MPL|Mozilla|Proprietary", " ".join(text for text in said if text)):
            assert f"`{name}`" in named or name.startswith(("nvidia-", "cuda-")), name
