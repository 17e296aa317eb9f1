"""What the documents say of the code is what the code says."""

import os
import re
import subprocess

from tests.docs.documents import ROOT

FOLDER = re.compile(r"^\| `([\w./-]+)` \|", re.M)
AREAS = ("clients", "guest", "host", "image", "proto", "scripts")
SOURCE = (".c", ".h", ".def", ".py", ".sh", ".json", ".in", "build")
NO_ROW = ("proto/vectors", "scripts/documents")


def test_generated_parts_are_up_to_date():
    done = subprocess.run([ROOT / "scripts/generate-docs", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def folders():
    """Those of the tree that hold source of their own."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "--", *AREAS],
                            check=True, capture_output=True, text=True).stdout  # fmt: skip
    found = {os.path.dirname(path) for path in listed.splitlines() if path.endswith(SOURCE) and (ROOT / path).is_file()}
    return {folder for folder in found if not folder.startswith(NO_ROW)}


def test_the_map_of_folders_is_that_of_the_tree():
    page = (ROOT / "docs/architecture.md").read_text()
    rows = FOLDER.findall(page.split("## Folders", 1)[1].split("\n## ", 1)[0])
    assert len(rows) == len(set(rows)), "a folder has two rows"
    assert set(rows) - folders() == set(), "docs/architecture.md has rows for folders that are not in the tree"
    assert folders() - set(rows) == set(), "docs/architecture.md has no row for these folders"
