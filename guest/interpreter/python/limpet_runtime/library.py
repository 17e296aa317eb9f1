"""The standard library as it is installed, for our own use, whatever a cell has done to the import system.

Most cells never need what describes an error and the like, and importing it would take as long as starting Python
does. So it is imported when it is wanted, and by then there may be a token.py in the session's directory, and nothing
in sys.path.
"""

import _frozen_importlib as machinery
import _frozen_importlib_external as files
import _thread
import posix
import sys


def named():
    """How many folders the environment has put before those of Python."""
    path = posix.environ.get(b"PYTHONPATH", b"")
    return path.count(b":") + 1 if path else 0


FOLDERS = tuple(sys.path[1 + named() :])  # behind the session's directory
LOADERS = files._get_supported_file_loaders()
BUILT_IN = (machinery.BuiltinImporter, machinery.FrozenImporter)

finders = {}  # by folder


def adapting(spec):
    """In its place hooks.py puts what it does to modules that cells will find as well."""
    return spec



def finder_of(folder):
    if folder not in finders:
        finders[folder] = files.FileFinder(folder, *LOADERS)
    return finders[folder]


def find(name, folders=None):
    """The spec of a module, or None."""
    sources = BUILT_IN if folders is None else ()
    for source in (*sources, *map(finder_of, FOLDERS if folders is None else folders)):
        spec = source.find_spec(name)
        if spec is not None:
            return spec
    return None


def private(name):
    """A copy of a module of one file that no cell can reach."""
    spec = find(name)
    module = machinery.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_ours(module):
    try:
        origin = module.__spec__.origin
        return origin in ("built-in", "frozen") or origin.startswith(FOLDERS)
    except Exception:
        return False


class Library:
    """In its `with` this thread imports from the standard library alone, past modules of the same names."""

    def __enter__(self):
        self.thread = _thread.get_ident()
        self.meta_path = sys.meta_path
        names = sys.stdlib_module_names & sys.modules.keys()
        self.foreign = {name: sys.modules[name] for name in names if not is_ours(sys.modules[name])}
        self.foreign.pop("__main__", None)
        for name in self.foreign:
            del sys.modules[name]
        sys.meta_path = [self, *(self.meta_path if isinstance(self.meta_path, list) else ())]

    def __exit__(self, *unused):
        sys.meta_path = self.meta_path
        sys.modules.update(self.foreign)

    def find_spec(self, name, path=None, target=None):
        return adapting(find(name, path)) if _thread.get_ident() == self.thread else None
