"""matplotlib figures become displays: when a cell ends, and at plt.show()."""

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
