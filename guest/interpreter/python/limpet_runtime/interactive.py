"""Libraries that show their figures in a browser or by a program: here as displays. A figure that is a web page has all in it
that it needs.

They would otherwise share scripts between cells, or load them from a server. Neither is there in the frame that a
notebook shows a page in.
"""

from limpet_runtime import display, figures

HEIGHT = 450  # pixels, of a figure that says none and would fill its page


def show_page(page, library):
    display.display({"text/plain": f"<figure of {library}>", "text/html": page}, raw=True)


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
            display.display({"text/plain": "<figure of plotly>", **bundle}, raw=True)
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

        show_page(file_html(obj, INLINE, "bokeh"), "bokeh")
        if notebook_handle:
            raise RuntimeError("push_notebook() cannot reach a figure in a frame: show it again instead")

    def show_app(*args, **kwargs):
        raise RuntimeError("an application of bokeh needs a server, which a notebook cannot reach in a sandbox")

    module.load_notebook = lambda *args, **kwargs: None
    module.show_doc = show_doc
    module.show_app = show_app


def adapt_bokeh_show(module):
    """bokeh.io.showing: show(), which otherwise opens a file in a browser. What output_file() has named is written."""

    def show_file(obj, state, new, controller):
        from bokeh.embed import file_html
        from bokeh.resources import INLINE

        if state.file:
            module.save(obj, state=state)
        show_page(file_html(obj, INLINE, state.file.title if state.file else "bokeh"), "bokeh")

    module._show_file_with_state = show_file


def adapt_pictures(module):
    """PIL.ImageShow: show() of a picture, which otherwise looks for a program."""

    class Viewer(module.Viewer):
        def show(self, image, **options):
            display.display(image)
            return 1

    module.register(Viewer, 0)


def adapt_altair(module):
    """altair: vl-convert has the scripts of its pages, which are loaded from a server where it is not there."""
    import importlib.util

    if importlib.util.find_spec("vl_convert") is not None:
        module.renderers.enable("html", template="inline")


def adapt_tqdm(module):
    """tqdm.notebook, whose bars are widgets: where there are none, those of a terminal take their place."""
    import importlib.util

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
    "bokeh.io.showing": adapt_bokeh_show,
    "PIL.ImageShow": adapt_pictures,
    "plotly.io._renderers": adapt_plotly,
}
NOTEBOOK = {
    "ipywidgets.widgets.interaction": adapt_interaction,
    "plotly.basewidget": adapt_figure_widget,
    "tqdm.notebook": adapt_tqdm,
}
