"""What an interpreter does before its first cell: gets its environment, imports what cells will, takes its place."""

import gc
import io
import itertools
import os
import sys
import time

from limpet_runtime import cells, display, errors, figures, library


# The environment before the setup code of a template, and what that has made of it: None where it took one away.
found, made = {}, {}
# The time before it in a container, by the clock that files have theirs from.
began = []
CLOCK_REALTIME_COARSE = 5

# Places where code may write, and what there does not count: our own, and a cache that is made again.
PLACES = "/session", "/tmp", "/home/user", "/work", "/dev/shm"
OURS = "/session/.limpet", "/tmp/mpl"


def begin_setup():
    found.update(os.environ)
    if os.getcwd() == PLACES[0]:
        began.append(time.clock_gettime_ns(CLOCK_REALTIME_COARSE))


def end_setup():
    """Notes of what its memory alone does not bring back."""
    for name in found.keys() | os.environ.keys():
        if os.environ.get(name) != found.get(name):
            made[name] = os.environ.get(name)
    freeze_objects()
    return [f"setup: it has changed {path}" for path in itertools.islice(changed_files(), 1)]


def changed_files():
    """Since the setup code began. Elsewhere than in a container nobody asks."""
    return (path for since in began for place in PLACES for path in changed_below(place, since))


def changed_below(place, since):
    for directory, below, files in os.walk(place):
        if directory.startswith(OURS):
            below.clear()
            continue
        for path in [directory] * (directory in PLACES[:1]) + [os.path.join(directory, name) for name in below + files]:
            if not path.startswith(OURS) and os.lstat(path).st_ctime_ns >= since:
                yield path


def freeze_objects():
    """Collections after a fork would write to, and so copy, every object there is."""
    gc.collect()
    gc.freeze()


def set_environment(env):
    """Of Python. The C side has emptied that of the process. What setup code has set stays, unless `env` says more."""
    env = dict(env)
    for name, value in made.items():
        if env.get(name) == found.get(name):
            env.pop(name, None)
            env.update({name: value} if value is not None else {})
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    figures.adopt_environment()


def import_all(names):
    failed = []
    for name in names:
        try:
            __import__(name)
        except BaseException as error:
            failed.append(f"{name}: {type(error).__name__}: {errors.text_of(error)}")
    return failed


def move(cwd):
    """Notes of what could not be done."""
    try:
        os.chdir(cwd)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return [f"cwd: cannot begin in {cwd!r}: {reason}"]
    return []


def speak(language):
    """Notes of what could not be done."""
    with library.Library():
        import limpet_languages

        try:
            limpet_languages.take_up(language)
        except limpet_languages.Unknown as error:
            return [str(error)]
    return []


# What is there is used once, while nobody waits for it: modules that come late, tables that are filled then, and pages that a
# process shares with its copy until it writes to them.


def use_runtime(main):
    cells.compile_cell("0; 0", "<warm-up>", 0)
    errors.describe(ZeroDivisionError())


def use_pandas(pandas):
    frame = pandas.DataFrame({"a": [1, 1, 2], "b": [0.5, 1.5, 2.5], "c": ["x", "y", "z"]})
    frame.groupby("a").b.mean().sum()
    frame.merge(pandas.read_csv(io.StringIO("a,d\n1,2\n")), on="a").sort_values("b").describe()
    repr(frame)
    display.rich_forms(frame)


def use_matplotlib(figure):
    """Past pyplot, whose figures and backend are the session's."""
    drawn = figure.Figure()
    drawn.subplots().plot([0, 1])
    figures.png(drawn)


# Drawing takes so much longer than copying its pages that they may stay shared: it is used once only.
ONCE = {"matplotlib.figure": use_matplotlib}
USES = {"__main__": use_runtime, "pandas": use_pandas}


def use_all():
    """What fails will do so again where it matters."""
    import warnings

    for name, use in {**USES, **ONCE}.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if name in sys.modules:
                    use(sys.modules[name])
        except Exception:
            pass
    ONCE.clear()


def prepare(env, added, imports, language, cwd):
    """Notes of what could not be done. With `imports`, if only an empty list, nobody waits for it yet."""
    if env is not None:
        set_environment(env)
    for name, value in (added or {}).items():
        os.environ.setdefault(name, value)
    failed = move(cwd) if cwd is not None else []
    if language is not None:
        failed += speak(language)
    if imports is None:
        return failed
    argv, streams = list(sys.argv), (sys.stdin, sys.stdout, sys.stderr)
    failed += import_all(imports)
    use_all()
    sys.argv, (sys.stdin, sys.stdout, sys.stderr) = argv, streams
    freeze_objects()
    return failed
