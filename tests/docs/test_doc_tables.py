"""Each row of a table has the cells of its heading; a row with others is shown as something else, or not at all."""

import re

import pytest
from tests.docs.documents import PATHS, ROOT, without_blocks

BORDER = re.compile(r"(?<!\\)\|")


def cells(line):
    return len(BORDER.split(re.sub(r"`[^`]*`", "code", line.strip().strip("|"))))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(ROOT)))
def test_rows_have_the_cells_of_their_heading(path):
    heading = 0
    for number, line in enumerate(without_blocks(path).splitlines(), 1):
        if not line.startswith("|"):
            heading = 0
            continue
        heading = heading or cells(line)
        assert cells(line) == heading, f"line {number}: {line}"
