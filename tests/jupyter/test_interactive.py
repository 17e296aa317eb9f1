"""Libraries that draw in a page of the web, stood in for by modules with the parts that are adapted."""

import pytest
from tests.support.drawing import MAKE

from .frames import content_of

@pytest.fixture
def notebook(own_notebook):
    """In which they are found first."""
    notebook = own_notebook()
    assert notebook.run(MAKE).status == "ok"
    return notebook


def framed(cell):
    assert cell.status == "ok", cell.traceback
    (shown,) = cell.of("display_data")
    return content_of(shown["data"]["text/html"])


def test_plotly(notebook):
    assert framed(notebook.run("import plotly.io\nplotly.io.show('a figure')")) == "<script>a figure True</script>"
    for name in ("notebook", "jupyterlab", "browser", "vscode"):
        shown = notebook.run(f"plotly.io.show('again', {name!r})")
        assert framed(shown) == "<script>again True</script>"


def test_bokeh(notebook):
    assert notebook.run("from bokeh.io import notebook as hooks\nhooks.load_notebook()").shown == []
    assert framed(notebook.run("hooks.show_doc('a plot', None)")) == "<script>a plot inline</script>"
    assert "show it again instead" in notebook.run("hooks.show_doc('a plot', None, True)").traceback
    assert "needs a server" in notebook.run("hooks.show_app()").traceback


def test_tqdm(notebook):
    assert notebook.run("from tqdm.notebook import tqdm, trange\ntqdm(), trange()").result == "('a bar', 'a range')"


def test_what_is_imported_already_is_adapted_too(notebook, install, own_notebook, limpetd):
    """By others, in a session that the notebook shares."""
    path = notebook.run("sys.path[0]").result
    with limpetd.client() as client:
        client.open("early").run(f"import sys; sys.path.insert(0, {path}); import tqdm.notebook")
    late = own_notebook(install("late", "--session", "early"))
    assert late.run("tqdm.notebook.tqdm()").result == "'a bar'"
