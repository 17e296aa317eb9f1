"""Stands in for libraries that draw, with the parts of theirs that the interpreter adapts."""

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
PIL = """\
class Viewer:
    def show(self, image): raise OSError('no program')
viewers = [Viewer()]
def register(viewer, order): viewers.insert(order, viewer())
def show(image): return viewers[0].show(image)
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
    "bokeh/io/showing.py": "def save(obj, state): open(state.file.filename, 'w').write(obj)",
    "PIL/__init__.py": "",
    "PIL/ImageShow.py": PIL,
    "tqdm/__init__.py": "",
    "tqdm/std.py": "def tqdm(): return 'a bar'\ndef trange(): return 'a range'",
    "tqdm/notebook.py": "def tqdm(): raise ImportError('IProgress not found')\ntqdm_notebook = trange = tnrange = tqdm",
}

# A cell after which they are found first.
MAKE = f"""\
import os, sys
for name, text in {MODULES!r}.items():
    path = os.path.join(os.getcwd(), 'stand-ins', name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, 'w').write(text)
sys.path.insert(0, os.path.join(os.getcwd(), 'stand-ins'))"""
