"""Libraries that draw in a page of the web, stood in for by modules with the parts that are adapted."""

import pytest

from .frames import content_of

PLOTLY = """\
class MimetypeRenderer: pass
class Renderers(dict):
    def _build_mime_bundle(self, figure, renderers_string=None, **kwargs):
        return self[renderers_string or self.default].to_mimebundle(figure)
    def _perform_external_rendering(self, figure, renderers_string=None, **kwargs): pass
renderers = Renderers()
def validate_coerce_fig_to_dict(figure, validate): return figure
def show(*unused): raise ValueError("needs nbformat")
"""
BOKEH = """\
def load_notebook(*unused): raise RuntimeError
def show_doc(*unused): raise RuntimeError
def show_app(*unused): raise RuntimeError
"""
MODULES = {
    "plotly/__init__.py": "",
    "plotly/io/__init__.py": "from plotly.io._renderers import show, renderers\n"
    "def to_html(figure, include_plotlyjs, full_html, validate, default_height): return f'<script>{figure} {include_plotlyjs}</script>'",
    "plotly/io/_renderers.py": PLOTLY,
    "bokeh/__init__.py": "",
    "bokeh/embed.py": "def file_html(obj, resources, title): return f'<script>{obj} {resources}</script>'",
    "bokeh/resources.py": "INLINE = 'inline'",
    "bokeh/io/__init__.py": "",
    "bokeh/io/notebook.py": BOKEH,
    "tqdm/__init__.py": "",
    "tqdm/std.py": "def tqdm(): return 'a bar'\ndef trange(): return 'a range'",
    "tqdm/notebook.py": "def tqdm(): raise ImportError('IProgress not found')\ntqdm_notebook = trange = tnrange = tqdm",
}


@pytest.fixture
def notebook(own_notebook):
    """In which they are found first."""
    notebook = own_notebook()
    made = f"""\
import os, sys
for name, text in {MODULES!r}.items():
    path = os.path.join(os.getcwd(), 'stand-ins', name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, 'w').write(text)
sys.path.insert(0, os.path.join(os.getcwd(), 'stand-ins'))"""
    assert notebook.run(made).status == "ok"
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
