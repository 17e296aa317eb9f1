"""IPython's shell, for its commands: cells go on to be run, shown and reported by the runtime."""

import os
import sys

limit = sys.getrecursionlimit()
import IPython  # noqa: E402
from IPython.core.displaypub import DisplayPublisher  # noqa: E402
from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell  # noqa: E402
from IPython.core.magic import no_var_expand  # noqa: E402
from IPython.core.magics.execution import TimeitResult  # noqa: E402
from traitlets import Type, default  # noqa: E402

import _limpet  # noqa: E402
import limpet_magics  # noqa: E402
from limpet_magics import code, commands  # noqa: E402
from limpet_runtime import display, errors, figures  # noqa: E402

LAST = {"_", "__", "___"}

sys.setrecursionlimit(limit)  # which jedi sets
errors.OURS += (os.path.dirname(IPython.__file__) + os.sep, "<decorator-gen-")
TimeitResult.__repr__ = lambda self: f"<TimeitResult : {self}>"


class Publisher(DisplayPublisher):
    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **more):
        display.publish_display_data(data, metadata, transient=transient, update=update)

    def clear_output(self, wait=False):
        display.clear_output(wait)


def show_page(shell, data, start=0, screen_lines=0):
    """Shows a text, which a notebook's kernel gives to the pager."""
    text = data["text/plain"] if isinstance(data, dict) else data
    display.display({"text/plain": text}, metadata={"is_page": True}, raw=True)


class Shell(InteractiveShell):
    """It has no files, no thread and no hook of its own, and what its commands end with is what the cell ends with."""

    display_pub_class = Type(Publisher)
    failures = None  # of the command that runs

    def __init__(self, **options):
        super().__init__(user_module=sys.modules["__main__"], **options)
        self.db = {}  # in place of files: of directories, bookmarks
        magics = self.magics_manager.magics
        magics["line"].update(commands.LINE)
        magics["cell"].update(commands.CELL)
        for own in commands.PYTHON:
            no_var_expand(own)
        _limpet.tell_cells(self.before_cell, self.after_cell)

    @default("colors")
    def _colors(self):
        return "nocolor"

    # What IPython would do to the process, or in the variables.

    def init_history(self):
        self.config.HistoryManager.enabled = False
        super().init_history()

    def init_hooks(self):
        super().init_hooks()
        self.set_hook("show_in_pager", show_page, 0)

    def init_alias(self):
        self.config.AliasManager.default_aliases = []  # commands.py has them
        super().init_alias()

    def init_user_ns(self):
        """Only what commands keep there, under names that nobody is shown."""
        self.user_ns.update(_dh=self.history_manager.dir_hist, _oh=self.history_manager.output_hist)

    def nothing(self, *args, **options):
        pass

    init_sys_modules = init_prompts = init_virtualenv = nothing
    atexit_operations = enable_gui = nothing

    def init_displayhook(self):
        """Leaves the last value as it is."""
        last = {name: self.user_ns[name] for name in LAST if name in self.user_ns}
        super().init_displayhook()
        self.forget_last()
        self.user_ns.update(last)

    def reset(self, *args, **options):
        super().reset(*args, **options)
        self.forget_last()

    def forget_last(self):
        for name in LAST:
            self.user_ns.pop(name, None)

    def before_cell(self):
        self.events.trigger("pre_execute")
        self.events.trigger("pre_run_cell", ExecutionInfo("", False, False, True, None))

    def after_cell(self):
        self.events.trigger("post_execute")

    def enable_matplotlib(self, gui=None):
        return "inline", "agg"  # figures are shown so anyway

    # What commands use of it.

    system, getoutput = limpet_magics.Shell.system, limpet_magics.Shell.getoutput

    @property
    def display_pub(self):
        return self._publisher

    @display_pub.setter
    def display_pub(self, publisher):
        """One that captures takes the place of ours, for all that is shown."""
        self._publisher = publisher
        display.publisher = None if isinstance(publisher, Publisher) else publisher

    def var_expand(self, cmd, depth=0, formatter=None):
        return code.expand(cmd, code.caller())

    def get_local_scope(self, stack_depth):
        return code.caller().f_locals

    def set_next_input(self, text, replace=False):
        print(text)

    def run_line_magic(self, magic_name, line, _stack_depth=1):
        if magic_name == "config" and line.lstrip().startswith("InlineBackend"):
            return commands.note(f"%config {line} is ignored: figures are shown as pictures")
        value = self.run_magic(super().run_line_magic, magic_name, line)
        if magic_name == "precision":
            _limpet.format_results(self.text_of if self.plain_text.float_precision else None)
        return value

    @property
    def plain_text(self):
        return self.display_formatter.formatters["text/plain"]

    def text_of(self, value):
        return self.plain_text(value) or _limpet.safe_repr(value)

    def run_cell_magic(self, magic_name, line, cell):
        return self.run_magic(super().run_cell_magic, magic_name, line, cell)

    def run_magic(self, run, *texts):
        before, self.failures = self.failures, []
        try:
            value = run(*texts)
        finally:
            failures, self.failures = self.failures, before
        if failures:
            raise failures[0]
        return value

    def showtraceback(self, exc_tuple=None, *args, **options):
        """Of what a command has run, the cell ends with it. Otherwise it is printed."""
        error = self._get_exc_info(exc_tuple)[1]
        if self.failures is None:
            print(errors.describe(error)[2], end="", file=sys.stderr)
        else:
            self.failures.append(error)

    def showsyntaxerror(self, *args, **options):
        self.showtraceback()

    def run_cell(self, raw_cell, store_history=False, silent=False, shell_futures=True, cell_id=None):
        """As a part of the cell that asks for it."""
        result = ExecutionResult(ExecutionInfo(raw_cell, store_history, silent, shell_futures, cell_id))
        try:
            result.result = code.run_below(code.caller(), raw_cell, "<cell of IPython>")
            figures.show()
            if result.result is not None and not silent:
                display.display(result.result)
        except Exception as error:
            result.error_in_exec = error
            self.showtraceback()
        return result


Shell.__name__ = Shell.__qualname__ = "ZMQInteractiveShell"  # the name that code knows a notebook by
