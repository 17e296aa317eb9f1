"""Prepares for modules that a cell imports, and adapts them right after; nothing is imported on their account."""

import _frozen_importlib_external as files
import sys

from limpet_runtime import aio, asks, display, figures, interactive, library, sources, workers

# module: what to do before and after it is executed
ADAPT = {
    "asyncio": (None, aio.adapt_asyncio),
    "getpass": (None, asks.adapt_getpass),
    "inspect": (None, sources.adapt_inspect),
    "matplotlib.font_manager": (figures.offer_font_cache, figures.adapt_fonts),
    "matplotlib.pyplot": (None, figures.adapt_pyplot),
    "multiprocessing.spawn": (None, workers.adapt_spawn),
    "IPython.core.display_functions": (None, display.adapt_ipython),
    **{name: (None, adapt) for name, adapt in interactive.ADAPT.items()},
}


class AdaptingLoader:
    def __init__(self, loader, prepare, adapt):
        self.loader = loader
        self.prepare = prepare
        self.adapt = adapt

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        if self.prepare:
            self.prepare()
        self.loader.exec_module(module)
        if self.adapt and (module.__name__ not in sys.stdlib_module_names or library.is_ours(module)):
            self.adapt(module)


def refuse_tool(name):
    """`from limpet_tools import name` looks for a module where there is no function."""
    from limpet_runtime import tools

    raise ImportError(tools.missing(name.partition(".")[2]), name=name)


class AdaptingFinder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith("limpet_tools."):
            refuse_tool(name)
        if name not in ADAPT:
            return None
        return adapting(files.PathFinder.find_spec(name, path, target))


def adapting(spec):
    if spec is not None and spec.loader is not None and spec.name in ADAPT:
        spec.loader = AdaptingLoader(spec.loader, *ADAPT[spec.name])
    return spec


def install():
    sys.meta_path.insert(0, AdaptingFinder)
    library.adapting = adapting
