"""Libraries whose figures are web pages: in a notebook each figure is a page that has all that it needs in it.

They would otherwise share scripts between cells, or load them from a server. Neither is there in the frame that a
notebook shows a page in.
"""

import importlib.util

from limpet_runtime import comms, display, figures

HEIGHT = 450  # pixels, of a figure that says none and would fill its page


def show_page(page):
    display.display({"text/html": page}, raw=True)


def adapt_plotly(module):
    """plotly.io._renderers"""
    renderers = module.renderers

    class Page(module.MimetypeRenderer):
        def to_mimebundle(self, figure):
            from plotly.io import to_html

            page = to_html(figure, include_plotlyjs=True, full_html=False, validate=False, default_height=HEIGHT)
            return {"text/html": page}

    def show(fig, renderer=None, validate=True, **kwargs):
        figure = module.validate_coerce_fig_to_dict(fig, validate)
        bundle = renderers._build_mime_bundle(figure, renderers_string=renderer, **kwargs)
        if bundle:
            display.display(bundle, raw=True)
        renderers._perform_external_rendering(figure, renderers_string=renderer, **kwargs)

    for name in ("limpet", "browser", "notebook", "notebook_connected", "plotly_mimetype", "jupyterlab", "vscode"):
        renderers[name] = Page()
    renderers.default = "limpet"
    module.show = show


def adapt_figure_widget(module):
    """plotly.basewidget: its widget brings scripts of its own, so it is shown as the figure that it is."""

    def as_figure(self, include=None, exclude=None, **kwargs):
        from plotly.io import _renderers

        return _renderers.renderers._build_mime_bundle(self.to_dict())

    module.BaseFigureWidget._repr_mimebundle_ = as_figure


def adapt_bokeh(module):
    """bokeh.io.notebook"""

    def show_doc(obj, state, notebook_handle=None):
        from bokeh.embed import file_html
        from bokeh.resources import INLINE

        show_page(file_html(obj, INLINE, "bokeh"))
        if notebook_handle:
            raise RuntimeError("push_notebook() cannot reach a figure in a frame: show it again instead")

    def show_app(*args, **kwargs):
        raise RuntimeError("an application of bokeh needs a server, which a notebook cannot reach in a sandbox")

    module.load_notebook = lambda *args, **kwargs: None
    module.show_doc = show_doc
    module.show_app = show_app


def adapt_altair(module):
    """altair: vl-convert has the scripts of its pages. Without that a chart is no more than its text."""
    if importlib.util.find_spec("vl_convert") is not None:
        module.renderers.enable("html", template="inline")


def adapt_tqdm(module):
    """tqdm.notebook, whose bars are widgets: where there are none, those of a terminal take their place."""
    from tqdm import std

    if importlib.util.find_spec("ipywidgets") is None:
        module.tqdm = module.tqdm_notebook = std.tqdm
        module.trange = module.tnrange = std.trange


def adapt_interaction(module):
    """ipywidgets.widgets.interaction: the figures of a function are part of what it shows."""
    module.show_inline_matplotlib_plots = figures.show


ADAPT = {
    "altair": adapt_altair,
    "bokeh.io.notebook": adapt_bokeh,
    "comm": comms.adapt_comm,
    "ipywidgets": comms.adapt_ipywidgets,
    "ipywidgets.widgets.interaction": adapt_interaction,
    "plotly.basewidget": adapt_figure_widget,
    "plotly.io._renderers": adapt_plotly,
    "tqdm.notebook": adapt_tqdm,
}
