"""What is there is used once, while nobody waits for it: modules that come late, tables that are filled then, and pages
that a process shares with its copy until it writes to them."""

import io
import sys
import warnings

from limpet_runtime import cells, display, errors, figures


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
    for name, use in {**USES, **ONCE}.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if name in sys.modules:
                    use(sys.modules[name])
        except Exception:
            pass
    ONCE.clear()
