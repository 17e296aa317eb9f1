"""Adapts modules right after a cell has imported them; nothing is imported on their account."""

import importlib.machinery
import sys

from limpet_runtime import display, figures

ADAPT = {
    "matplotlib.pyplot": figures.adapt_pyplot,
    "IPython.core.display_functions": display.adapt_ipython,
}


class AdaptingLoader:
    def __init__(self, loader, adapt):
        self.loader = loader
        self.adapt = adapt

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.adapt(module)


class AdaptingFinder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in ADAPT:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = AdaptingLoader(spec.loader, ADAPT[name])
        return spec


def install():
    sys.meta_path.insert(0, AdaptingFinder)
