"""The cells of a notebook as a tree: each begins with the variables that another one left, and not always the last."""

from __future__ import annotations

import html
from dataclasses import dataclass, field

ROW, LANE, RADIUS = 26, 22, 6  # pixels
LETTER = 7.3  # of the text, at most
SOURCE_MOST = 60  # characters
MOST = 300  # cells in a picture: the last ones
COLOURS = ("#1a73b8", "#b8561a", "#2a8a4a", "#8a4ab8", "#a8862a", "#4a8a9a")
FAILED = "#c0392b"
GONE = "#bbbbbb"


@dataclass
class Node:
    """What a call left."""

    call: int
    session: str
    label: str
    source: str = ""
    parent: Node | None = None
    failed: bool = False
    checkpoints: list[str] = field(default_factory=list)


class Tree:
    """Grows with the calls of this kernel. What others do in a shared session is in it once a cell goes back there."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._now: dict[str, Node] = {}  # by session: what its variables are as
        self._by_call: dict[tuple[str, int], Node] = {}

    def now(self, session: str) -> Node:
        return self._now[session] if session in self._now else self.moved(session, 0)

    def ran(self, session: str, call: int, label: str, source: str, failed: bool) -> None:
        """A cell, which goes on from what is there."""
        self._now[session] = self._add(Node(call, session, label, source, self.now(session), failed))

    def moved(self, session: str, call: int) -> Node:
        """The variables are as a call left them, or with 0 as they were before the first one."""
        node = self._by_call.get((session, call))
        if node is None:
            label = f"call {call} of {session}" if call else f"{session} begins"
            node = self._add(Node(call, session, label))
        self._now[session] = node
        return node

    def also(self, session: str, call: int) -> None:
        """A call that is no cell, such as the callback of a widget, left what is there now."""
        self._by_call[session, call] = self.now(session)

    def branched(self, branch: str, origin: str, call: int | None) -> None:
        """A session begins as another one is, or as a call left that."""
        node = self.now(origin) if call is None else self._by_call.get((origin, call))
        self._now[branch] = node or self._add(Node(call or 0, origin, f"call {call} of {origin}"))
        for (session, number), each in list(self._by_call.items()):
            if session == origin:
                self._by_call.setdefault((branch, number), each)

    def committed(self, origin: str, branch: str) -> None:
        """A session is as its branch."""
        self._now[origin] = self.now(branch)
        self._by_call.update(
            {(origin, number): each for (name, number), each in self._by_call.items() if name == branch}
        )

    def mark(self, session: str, call: int, checkpoint: str) -> None:
        """A checkpoint has what a call left."""
        node = self._by_call.get((session, call))
        if node is not None:
            node.checkpoints.append(checkpoint)

    def unmark(self) -> None:
        for node in self.nodes:
            node.checkpoints.clear()

    def is_current(self, node: Node, session: str) -> bool:
        return self._now.get(session) is node

    def kept(self) -> set[int]:
        """The ids of what led to the variables that some session has, or that a checkpoint would bring back."""
        found: set[int] = set()
        for node in [*self._now.values(), *(each for each in self.nodes if each.checkpoints)]:
            at: Node | None = node
            while at is not None and id(at) not in found:
                found.add(id(at))
                at = at.parent
        return found

    def _add(self, node: Node) -> Node:
        self.nodes.append(node)
        self._by_call[node.session, node.call] = node
        return node


def lanes(tree: Tree) -> dict[int, int]:
    """The column of each node: that of its parent for the first that goes on from there, or one of its own."""
    columns: dict[int, int] = {}
    taken: set[int] = set()
    for node in tree.nodes:
        if node.parent is not None and id(node.parent) not in taken:
            taken.add(id(node.parent))
            columns[id(node)] = columns[id(node.parent)]
        else:
            columns[id(node)] = max(columns.values(), default=-1) + 1
    return columns


def text(tree: Tree, session: str) -> str:
    """For where no picture is shown."""
    columns = lanes(tree)
    return "\n".join(
        f"{'  ' * columns[id(node)]}* {_words(tree, node, session)}" for node in tree.nodes[-MOST:]
    )


def svg(tree: Tree, session: str) -> str:
    columns, kept, nodes = lanes(tree), tree.kept(), tree.nodes[-MOST:]
    places = {id(node): (14 + LANE * columns[id(node)], 16 + ROW * row) for row, node in enumerate(nodes)}
    left = 14 + LANE * (max(columns.values(), default=0) + 1)
    words = [_words(tree, node, session) for node in nodes]
    width = left + LETTER * max(map(len, words), default=0) + 14
    height = ROW * len(nodes) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        'font-family="ui-monospace, monospace" font-size="12">',
        '<rect width="100%" height="100%" rx="6" fill="white"/>',
    ]
    for node in nodes:
        if node.parent is not None and id(node.parent) in places:
            parts.append(_line(places[id(node.parent)], places[id(node)], _colour(node, columns, kept)))
    for node, said in zip(nodes, words, strict=True):
        parts.append(
            _dot(
                places[id(node)],
                left,
                said,
                node,
                tree.is_current(node, session),
                _colour(node, columns, kept),
            )
        )
    return "".join([*parts, "</svg>"])


def _words(tree: Tree, node: Node, session: str) -> str:
    words = [node.label]
    if node.checkpoints:
        words.append(f"[{', '.join(node.checkpoints)}]")
    source = next((line.strip() for line in node.source.splitlines() if line.strip()), "")
    if source:
        words.append(source if len(source) <= SOURCE_MOST else source[: SOURCE_MOST - 1] + "…")
    if tree.is_current(node, session):
        words.append("← now")
    return "  ".join("".join(c if c.isprintable() else " " for c in word) for word in words)


def _colour(node: Node, columns: dict[int, int], kept: set[int]) -> str:
    return COLOURS[columns[id(node)] % len(COLOURS)] if id(node) in kept else GONE


def _line(start: tuple[int, int], end: tuple[int, int], colour: str) -> str:
    (x, y), (to_x, to_y) = start, end
    bend = to_y - ROW
    return (
        f'<path d="M{x} {y} V{bend} C{x} {to_y - ROW / 2} {to_x} {to_y - ROW / 2} {to_x} {to_y}" '
        f'fill="none" stroke="{colour}" stroke-width="2"/>'
    )


def _dot(place: tuple[int, int], left: int, said: str, node: Node, is_current: bool, colour: str) -> str:
    x, y = place
    ring = f'<circle cx="{x}" cy="{y}" r="{RADIUS + 3}" fill="none" stroke="{colour}"/>' if is_current else ""
    fill = "white" if node.parent is None else FAILED if node.failed and colour != GONE else colour
    shape = f'<circle cx="{x}" cy="{y}" r="{RADIUS}" fill="{fill}" stroke="{colour}" stroke-width="2"/>'
    ink = "#999" if colour == GONE else "#222"
    return f'{ring}{shape}<text x="{left}" y="{y + 4}" fill="{ink}" xml:space="preserve">{html.escape(said)}</text>'
