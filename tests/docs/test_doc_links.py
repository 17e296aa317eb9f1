"""Links lead to files and headings that are there, and so do the paths that documents name."""

import re

import pytest
from tests.docs.documents import PATHS, ROOT, without_blocks

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.M)
FOLDERS = "clients|docs|examples|guest|host|image|proto|scripts|tests"
NAMED = re.compile(rf"`((?:{FOLDERS})/[\w./*-]+)`")

each_document = pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(ROOT)))


def anchors(path):
    return {anchor(heading) for heading in HEADING.findall(without_blocks(path))}


def anchor(heading):
    """As Git hosts and the site's generator make them."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\s-]", "", plain).strip().lower().replace(" ", "-")


@each_document
def test_links_lead_somewhere(path):
    for target in LINK.findall(without_blocks(path)):
        file, _, part = target.partition("#")
        assert not re.match(r"\w+:", target), f"{target} is on another host"
        found = (path.parent / file).resolve() if file else path
        assert found.exists(), f"{target}: there is no {found}"
        assert not part or part in anchors(found), f"{target}: {found.name} has no such heading"


@each_document
def test_paths_exist(path):
    for named in NAMED.findall(without_blocks(path)):
        name = named.rstrip("/.")
        assert any(ROOT.glob(name)) or any(path.parent.glob(name)), f"`{named}` is not in the tree: did it move?"


def test_the_list_of_pages_has_every_page():
    listed = {(ROOT / "docs" / target).resolve() for target in LINK.findall((ROOT / "docs/README.md").read_text())}
    assert set(ROOT.glob("docs/**/*.md")) - {ROOT / "docs/README.md"} <= listed


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 90
