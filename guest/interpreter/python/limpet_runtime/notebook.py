"""What a session does besides while a notebook uses it: keeps the results of cells, and draws what is interactive."""

import builtins
import sys

import _limpet
from limpet_runtime import comms, display, figures, hooks

KEPT = 1000  # results

Out = {}  # by the number of the notebook's cell
unnumbered = {}  # by that of the call, until a cell asks for results


def get_ipython():
    """IPython's shell, or what stands in for it until more is needed."""
    import limpet_magics

    return limpet_magics.shell


def adapt_ipython(module):
    """IPython.core.getipython"""
    module.get_ipython = get_ipython


ADAPT = {
    "comm": comms.adapt_comm,
    "IPython.core.getipython": adapt_ipython,
    "ipywidgets": comms.adapt_ipywidgets,
    **figures.NOTEBOOK,
}


def begin():
    """Any number of times."""
    _limpet.tell_results(keep)
    builtins.get_ipython = get_ipython
    display.wait = comms.wait
    for name, adapt in ADAPT.items():
        if name not in hooks.ADAPT:
            hooks.ADAPT[name] = (None, adapt)
            if name in sys.modules:
                adapt(sys.modules[name])


def keep(call, value):
    if len(unnumbered) == KEPT:
        del unnumbered[next(iter(unnumbered))]
    unnumbered[call] = value


def number(variables, cells, wanted, sources):
    """Gives `Out`, `In`, and `_3` and the like to a cell that names them, and the texts to a command that is about them.

    `cells` has the notebook's number of each call, `wanted` the names, `sources` the text of each cell.
    """
    for call in [*unnumbered]:
        if call in cells:
            Out.setdefault(cells[call], unnumbered.pop(call))  # calls that are no cells have the number before
    while len(Out) > KEPT:
        del Out[next(iter(Out))]
    if "Out" in wanted and variables.get("Out", Out) is Out:
        variables["Out"] = Out
    if "In" in wanted and ("In" not in variables or isinstance(variables["In"], Sources)):
        variables["In"] = Sources(sources)
    if any(name.startswith("%") for name in wanted):
        import limpet_magics

        manager = limpet_magics.ipython("%history").history_manager
        texts = [sources.get(number, "") for number in range(max(sources, default=-1) + 1)]
        manager.input_hist_raw[:] = manager.input_hist_parsed[:] = texts
    for name in wanted:
        if name[1:].isdigit() and int(name[1:]) in Out:
            variables[name] = Out[int(name[1:])]


class Sources(dict):
    """`In`, by number: a notebook need not have run a cell of each."""
