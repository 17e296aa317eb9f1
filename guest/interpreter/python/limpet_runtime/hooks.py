"""Prepares for modules that a cell imports, and adapts them right after; nothing is imported on their account."""

import importlib.machinery
import sys

from limpet_runtime import display, figures

# module: what to do before and after it is executed
ADAPT = {
    "matplotlib.font_manager": (figures.offer_font_cache, None),
    "matplotlib.pyplot": (None, figures.adapt_pyplot),
    "IPython.core.display_functions": (None, display.adapt_ipython),
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
        if self.adapt:
            self.adapt(module)


class AdaptingFinder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in ADAPT:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = AdaptingLoader(spec.loader, *ADAPT[name])
        return spec


def install():
    sys.meta_path.insert(0, AdaptingFinder)
