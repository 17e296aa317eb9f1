"""Figures become displays: those of matplotlib when a cell ends, and at plt.show(); those of other libraries when they are shown."""

import io
import os
import sys

from limpet_runtime import display


FONT_CACHE = "/usr/lib/limpet/mpl"  # made with the image; finding the fonts takes most of a second


def offer_font_cache():
    """Links the image's list of fonts into matplotlib's own directory, which has to be writable."""
    directory = os.environ.get("MPLCONFIGDIR")
    if not directory or not os.path.isdir(FONT_CACHE):
        return
    try:
        os.makedirs(directory, exist_ok=True)
        for name in os.listdir(FONT_CACHE):
            if not os.path.lexists(os.path.join(directory, name)):
                os.symlink(os.path.join(FONT_CACHE, name), os.path.join(directory, name))
    except OSError:
        pass  # matplotlib makes its own list, a little later


# Has Chinese, Japanese and Korean. The image's matplotlibrc names it, too, but styles, as seaborn's, replace what that says.
FALLBACK = "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc"


def adapt_fonts(font_manager):
    """Letters that no font of a text has are those of the fallback."""
    find = getattr(font_manager.FontManager, "_find_fonts_by_props", None)
    if find is None or not os.path.exists(FALLBACK):
        return

    def find_more(self, prop, fontext="ttf", *args, **kwargs):
        found = find(self, prop, fontext, *args, **kwargs)
        return found if fontext != "ttf" or FALLBACK in found else [*found, FALLBACK]

    font_manager.FontManager._find_fonts_by_props = find_more


# Backends that need a screen.
SCREEN = {"macosx", "wx"} | {
    toolkit + renderer for toolkit in ("gtk3", "gtk4", "qt", "qt5", "tk", "wx") for renderer in ("agg", "cairo")
}


def choose_backend(matplotlib):
    """As its import does, which reads the environment, and that of pyplot, which passes over what needs a screen.

    Past rcParams' own access, which would load a backend where none is chosen.
    """
    parameters = matplotlib.rcParams
    dict.__setitem__(parameters, "backend", dict.__getitem__(matplotlib.rcParamsOrig, "backend"))
    if os.environ.get("MPLBACKEND"):
        parameters["backend"] = os.environ["MPLBACKEND"]
    chosen = str(dict.__getitem__(parameters, "backend")).lower()
    if "matplotlib.pyplot" in sys.modules and chosen in SCREEN and parameters["backend_fallback"]:
        dict.__setitem__(parameters, "backend", matplotlib.rcsetup._auto_backend_sentinel)


def adopt_environment():
    """Where matplotlib was imported before the environment was what it is."""
    try:
        if "matplotlib" in sys.modules:
            choose_backend(sys.modules["matplotlib"])
    except Exception:
        pass  # a backend that matplotlib does not know it refuses when a cell draws


def is_drawn(figure):
    """Whether there is anything on it besides its background."""
    return len(figure.get_children()) > 1


def show(*args, **kwargs):
    """Displays and closes the open figures of pyplot. Arguments are those of plt.show()."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or not hasattr(pyplot, "get_fignums"):
        return
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        if is_drawn(figure) and not was_displayed(figure):
            display.display(figure)
        pyplot.close(figure)


def png(figure):
    """The forms of a figure: {MIME type: value}."""
    figure._limpet_displayed = True
    data = io.BytesIO()
    figure.savefig(data, format="png", bbox_inches="tight")
    return {"image/png": data.getvalue()}


def was_displayed(figure):
    """Whether the cell displayed it by itself, as by naming it last. Drawing on needs a new display()."""
    return getattr(figure, "_limpet_displayed", False)


def adapt_pyplot(pyplot):
    pyplot.show = show


# Libraries that show their figures in a browser or by a program. A figure that is a web page has all in it that it needs: they
# would otherwise share scripts between cells, or load them from a server. Neither is there in the frame that a notebook
# shows a page in.

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
    module.show_inline_matplotlib_plots = show


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
