"""``%%capture``."""

import contextlib
import io
import sys

from limpet_magics import code
from limpet_magics.options import UsageError, words
from limpet_runtime import display, figures


class Shown:
    """One display that was kept."""

    def __init__(self, data, metadata):
        self.data = data
        self.metadata = metadata

    def __repr__(self):
        return str(self.data.get("text/plain", list(self.data)))

    def _repr_mimebundle_(self, include=None, exclude=None):
        return self.data, self.metadata


class Kept:
    """What a cell would have shown; called, it shows that."""

    def __init__(self):
        self.stdout = self.stderr = ""
        self.outputs = []

    def __str__(self):
        return self.stdout

    def show(self):
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)
        display.display(*self.outputs)

    __call__ = show


@contextlib.contextmanager
def keeping(kept, leaves_out):
    """In its `with` what is printed and shown goes there."""
    with contextlib.ExitStack() as stack:
        for name, redirect in ("stdout", contextlib.redirect_stdout), ("stderr", contextlib.redirect_stderr):
            if f"no-{name}" not in leaves_out:
                text = stack.enter_context(redirect(io.StringIO()))
                stack.callback(lambda name=name, text=text: setattr(kept, name, text.getvalue()))
        if "no-display" not in leaves_out:
            stack.enter_context(display.diverted(lambda data, metadata: kept.outputs.append(Shown(data, metadata))))
        yield


def capture(frame, text, body):
    """With a name, what the cell would have shown is in that variable."""
    options, names = words(text, long=["no-stdout", "no-stderr", "no-display"])
    if len(names) > 1:
        raise UsageError("%%capture takes the name of one variable")
    kept = Kept()
    for name in names:
        frame.f_globals[name] = kept
    with keeping(kept, options):
        value = code.run_below(frame, f"%%capture {text}", body)
        figures.show()
        if value is not None:
            display.display(value)
