"""The variables that cells have made."""

import types

from limpet_magics.options import words

SHOWN = 60  # characters of a value
HIDDEN = {"In", "Out"}


def chosen(frame, text):
    """The names of the variables, of these types where any are given."""
    wanted = words(text)[1]
    return sorted(
        name
        for name, value in frame.f_globals.items()
        if not name.startswith("_")
        and name not in HIDDEN
        and (not wanted or type(value).__name__ in wanted)
    )


def who_ls(frame, text):
    return chosen(frame, text)


def who(frame, text):
    names = chosen(frame, text)
    print("\t ".join(names) if names else nothing(text))


def whos(frame, text):
    names = chosen(frame, text)
    if not names:
        print(nothing(text))
        return
    values = [frame.f_globals[name] for name in names]
    rows = [("Variable", "Type", "Data/Info")]
    rows += [(name, type(value).__name__, summary(value)) for name, value in zip(names, values)]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = [f"{name:{first}}   {kind:{second}}   {text}" for name, kind, text in rows]
    print("\n".join([lines[0], "-" * len(lines[0]), *lines[1:]]))


def nothing(text):
    return "No variables match your requested type." if text.strip() else "Interactive namespace is empty."


def summary(value):
    """In one short line, without all of a large value being made text."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        kind = getattr(value, "dtype", None)
        return "x".join(map(str, shape)) + (f", {kind}" if kind is not None else "")
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        return f"n={len(value)}"
    if isinstance(value, types.ModuleType):
        return getattr(value, "__file__", None) or value.__name__
    text = value if isinstance(value, str) else repr(value)
    text = text[: SHOWN + 1].replace("\n", "\\n")
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
