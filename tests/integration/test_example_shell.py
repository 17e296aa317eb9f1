"""examples/analysis.sh as a user starts it, on images that have pandas."""

import os
import re
import subprocess

import pytest

from tests.support import ROOT

pytestmark = pytest.mark.engine


def test_analysis(limpetd, client, tmp_path):
    if not limpetd.isolates:
        pytest.skip("the examples use what is installed in the image")
    programs = os.path.abspath(os.environ.get("LIMPET_BUILD", os.path.dirname(limpetd.program)))
    environment = os.environ | {
        "LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0", "PATH": f"{programs}:{os.environ['PATH']}"}  # fmt: skip
    ended = subprocess.run(
        [os.path.join(ROOT, "examples", "analysis.sh"), "report.html"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "344 rows, 11 of them incomplete" in ended.stdout
    assert "it failed: KeyError: ['wingspan_mm']" in ended.stdout
    assert "333 complete rows, with species, island" in ended.stdout and ", sex," in ended.stdout  # rolled back
    assert "rolled back: the variables are as they were" in ended.stdout  # by itself, as asked for
    assert "limpet: crashed: Crashed: " in ended.stdout
    page = (tmp_path / "report.html").read_text()
    means = dict(re.findall(r"<th>(Adelie|Chinstrap|Gentoo)</th>\s*(?:<td>[^<]*</td>\s*){2}<td>([0-9.]*)</td>", page))
    assert means == {"Adelie": "3706.2", "Chinstrap": "3733.1", "Gentoo": "5092.4"}  # grams: nothing was left behind
    assert "data:image/png;base64,iVBORw0KGgo" in page
    assert not [row for row in client.sessions() if row.session.startswith("penguins-")]
