"""The %limpet commands: what a notebook can do with the state of its session besides running cells."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .. import BranchExists, Display, Session, Variable
from .._adapters.arguments import Parser, WrongOption
from . import _tree
from ._cell import Refused

if TYPE_CHECKING:
    from ._kernel import LimpetKernel

Command = Callable[["LimpetKernel", argparse.Namespace], "str | Display"]


def run(kernel: LimpetKernel, words: list[str]) -> str | Display:
    """What the command says, or shows."""
    parser = _parser()
    try:
        arguments = parser.parse_args(words or ["help"])
    except WrongOption as error:
        raise Refused(f"%limpet: {error}") from error
    if arguments.command in ("help", "--help"):
        return HELP
    command: Command = arguments.run
    return command(kernel, arguments)


HELP = """\
%limpet checkpoint [NAME] [--files]   keep a copy of the variables (and of /session)
%limpet checkpoints                   list the copies
%limpet rollback CHECKPOINT           go back to one; by its name or id
%limpet drop CHECKPOINT               give one up
%limpet branch NAME [CHECKPOINT]      cells run in a branch with variables of its own from here on
%limpet branch                        say where cells run
%limpet branch -                      back to the session; the branch is kept
%limpet commit                        make what the branch has the state of the session, and go back to it
%limpet history                       draw which cell went on from which, and what copies there are
%limpet namespace                     list the variables, without running any code of theirs
%limpet artifacts                     list the files that cells made, and where they are on this machine"""


def _parser() -> Parser:
    parser = Parser(prog="%limpet", add_help=False, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def add(name: str, run: Command | None, *operands: str) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = commands.add_parser(name, add_help=False)
        command.set_defaults(run=run)
        for operand in operands:
            optional = operand.startswith("[")
            command.add_argument(operand.strip("[]"), nargs="?" if optional else None)
        return command

    add("help", None)
    add("checkpoint", _checkpoint, "[name]").add_argument("--files", action="store_true")
    add("checkpoints", _checkpoints)
    add("rollback", _rollback, "checkpoint")
    add("drop", _drop, "checkpoint")
    add("branch", _branch, "[name]", "[checkpoint]")
    add("commit", _commit)
    add("history", _history)
    add("namespace", _namespace)
    add("artifacts", _artifacts)
    return parser


def _checkpoint(kernel: LimpetKernel, arguments: argparse.Namespace) -> str:
    made = kernel.sandbox.opened().checkpoint(arguments.name, files=arguments.files)
    given_up = f"; given up for it: {', '.join(made.dropped)}" if made.dropped else ""
    return (
        f"checkpoint {made.name or made.id}: the variables as {kernel.after(made.execution_count)}{given_up}"
    )


def _checkpoints(kernel: LimpetKernel, arguments: argparse.Namespace) -> str:
    rows = [("ID", "NAME", "SESSION", "STATE", "TAKEN", "MEMORY", "")]
    for each in kernel.sandbox.opened().checkpoints():
        kinds = [kind for kind, is_so in (("automatic", each.automatic), ("files", each.files)) if is_so]
        taken = time.strftime("%H:%M:%S", time.localtime(each.created))
        state = kernel.place(each.execution_count, each.session) if each.execution_count else "start"
        memory = f"{each.private_bytes / 2**20:.1f}M"
        rows.append((each.id, each.name or "", each.session, state, taken, memory, " ".join(kinds)))
    return _table(rows)


def _rollback(kernel: LimpetKernel, arguments: argparse.Namespace) -> str:
    done = kernel.sandbox.opened().rollback(arguments.checkpoint)
    kernel.sandbox.has_begun = False
    kernel.went_back(kernel.sandbox.opened().name, done.execution_count)
    kernel.check_widgets()
    missing = f"; not restored: {', '.join(done.not_restored)}" if done.not_restored else ""
    return f"the variables are as {kernel.after(done.execution_count)}; files {done.files}{missing}"


def _drop(kernel: LimpetKernel, arguments: argparse.Namespace) -> str:
    kernel.sandbox.opened().drop(arguments.checkpoint)
    return f"checkpoint {arguments.checkpoint} is given up"


def _branch(kernel: LimpetKernel, arguments: argparse.Namespace) -> str:
    sandbox = kernel.sandbox
    current = sandbox.opened()
    origin = sandbox.origin
    assert origin is not None
    if arguments.name is None:
        return f"cells run in {current.name}"
    if arguments.name == "-":
        sandbox.session = origin
        kernel.check_widgets()
        return f"cells run in {origin.name}"
    branch, how = _branch_of(kernel, origin, arguments)
    sandbox.session, sandbox.has_begun = branch, False
    kernel.check_widgets()
    return f"cells run in {branch.name}, {how}"


def _branch_of(kernel: LimpetKernel, origin: Session, arguments: argparse.Namespace) -> tuple[Session, str]:
    try:
        branch = origin.branch(arguments.name, arguments.checkpoint)
    except BranchExists:
        if arguments.checkpoint is not None:
            raise
        return kernel.sandbox.client.open(f"{origin.name}/{arguments.name}"), "as it was left"
    kernel.counted(branch.name, origin.name)
    kernel.tree.branched(branch.name, origin.name, _call_of(origin, arguments.checkpoint))
    return branch, f"with the variables of {arguments.checkpoint or origin.name}"


def _commit(kernel: LimpetKernel, arguments: argparse.Namespace) -> str:
    sandbox = kernel.sandbox
    branch, origin = sandbox.opened(), sandbox.origin
    if origin is None or branch is origin:
        raise Refused("%limpet commit: cells run in no branch; see %limpet branch")
    origin.commit(branch)
    sandbox.session = origin
    kernel.counted(origin.name, branch.name)
    kernel.tree.committed(origin.name, branch.name)
    kernel.check_widgets()
    return f"{origin.name} has the variables of {branch.name}; cells run in {origin.name}"


def _call_of(session: Session, checkpoint: str | None) -> int | None:
    rows = session.checkpoints() if checkpoint is not None else []
    return next((row.execution_count for row in rows if checkpoint in (row.id, row.name)), None)


def _history(kernel: LimpetKernel, arguments: argparse.Namespace) -> Display:
    session, tree = kernel.sandbox.opened(), kernel.tree
    tree.unmark()
    for each in session.checkpoints():
        tree.mark(each.session, kernel.call_of_cell(each.session, each.execution_count), each.name or each.id)
    picture = {"image/svg+xml": _tree.svg(tree, session.name), "text/plain": _tree.text(tree, session.name)}
    return Display(picture, {}, None, False)


def _namespace(kernel: LimpetKernel, arguments: argparse.Namespace) -> str:
    variables = kernel.sandbox.opened().namespace()
    rows = [("NAME", "TYPE", "SHAPE", "DTYPE", "BYTES", "VALUE"), *map(_row, variables)]
    return _table(rows) + (f"\nand {variables.more} more" if variables.more else "")


def _row(variable: Variable) -> tuple[str, ...]:
    shape = "" if variable.shape is None else " x ".join(map(str, variable.shape))
    size = "" if variable.bytes is None else str(variable.bytes)
    return variable.name, variable.type, shape, variable.dtype or "", size, variable.repr or ""


def _artifacts(kernel: LimpetKernel, arguments: argparse.Namespace) -> str:
    if not kernel.artifacts:
        return "no cell of this kernel has made a file below /session/artifacts"
    rows = [("IN THE SESSION", "ON THIS MACHINE"), *kernel.artifacts.items()]
    return _table(rows)


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    """Columns; control characters, which only the sandbox can have put there, as escapes."""
    clean = [
        ["".join(c if c.isprintable() else ascii(c)[1:-1] for c in cell) for cell in row] for row in rows
    ]
    widths = [max(len(cell) for cell in column) for column in zip(*clean, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in clean)
