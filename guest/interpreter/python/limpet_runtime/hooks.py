"""Prepares for modules that a cell imports, and adapts them right after; nothing is imported on their account."""

import _frozen_importlib_external as files
import linecache
import sys

from limpet_runtime import aio, asks, display, figures, library
from limpet_runtime.errors import CELL

# Where the source of a class of the cells is: functions say it themselves, a class has no more than its module.


def is_member(function, kind):
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename.startswith(CELL) and function.__qualname__ == f"{kind.__qualname__}.{code.co_name}"


def cells():
    """Names of the cells whose source is there, the newest first."""
    return sorted((name for name in linecache.cache if name.startswith(CELL)), key=lambda name: -int(name[len(CELL) : -1]))


def defines(line, name):
    words = line.replace("(", " ").replace(":", " ").replace("[", " ").split()
    return words[:2] == ["class", name]


def cell_of(kind):
    """The name of the cell that has defined a class: that of its own functions, or the newest with a class of that name."""
    for member in vars(kind).values():
        function = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
        if is_member(function, kind):
            return function.__code__.co_filename
    first = vars(kind).get("__firstlineno__")  # from Python 3.13 on; that of its first decorator
    for name in cells():
        lines = linecache.getlines(name)
        if any(defines(line, kind.__name__) for line in (lines[first - 1 :] if first else lines)):
            return name
    return None


def adapt_inspect(inspect):
    original = inspect.getfile

    def getfile(object):
        name = cell_of(object) if isinstance(object, type) and object.__module__ == "__main__" else None
        return name or original(object)

    getfile.__doc__ = original.__doc__
    inspect.getfile = getfile


# Processes that multiprocessing starts anew, by the methods spawn and forkserver: what a script that is their main module
# would define there comes to them from limpet_workers.


def adapt_spawn(spawn):
    original = spawn.get_preparation_data

    def get_preparation_data(name):
        data = original(name)
        if not data.keys() & {"init_main_from_path", "init_main_from_name"}:
            add_main(data, spawn)
        return data

    spawn.get_preparation_data = get_preparation_data


def add_main(data, spawn):
    with library.Library():
        try:
            import limpet_workers
        except ImportError:
            return  # without cloudpickle
    limpet_workers.add_main(data, spawn)


# Programs that subprocess has started, which copies of the interpreter do not have: there they have ended. Python would take them for
# such that ended well.

programs = {}  # id: weak reference


def adapt_subprocess(subprocess):
    import _weakref

    kind = subprocess.Popen

    def __new__(cls, *args, **kwargs):
        self = super(kind, cls).__new__(cls)
        key = id(self)
        programs[key] = _weakref.ref(self, lambda _: programs.pop(key, None))
        return self

    __new__.__wrapped__ = kind.__init__  # for who asks for its arguments
    kind.__new__ = __new__


def end_results(pool):
    """Whoever waits for work that a pool of processes had is told that nobody does it."""
    import itertools
    import types
    from multiprocessing import ProcessError

    error = ProcessError("the processes of the pool have ended, as this is a copy of the interpreter that does not have them")
    for result in [*pool._cache.values()]:
        if hasattr(result, "_event"):
            result._success, result._value = False, error
            result._event.set()
        else:  # of imap()
            items = itertools.chain(result._items, itertools.repeat((False, error)))
            with result._cond:
                result._items = types.SimpleNamespace(popleft=items.__next__)
                result._cond.notify_all()
    pool._cache.clear()


# module: what to do before and after it is executed
ADAPT = {
    "asyncio": (None, aio.adapt_asyncio),
    "getpass": (None, asks.adapt_getpass),
    "inspect": (None, adapt_inspect),
    "matplotlib.font_manager": (figures.offer_font_cache, figures.adapt_fonts),
    "matplotlib.pyplot": (None, figures.adapt_pyplot),
    "multiprocessing.spawn": (None, adapt_spawn),
    "subprocess": (None, adapt_subprocess),
    "IPython.core.display_functions": (None, display.adapt_ipython),
    **{name: (None, adapt) for name, adapt in figures.ADAPT.items()},
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
