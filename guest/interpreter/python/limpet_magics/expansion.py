"""``$name`` and ``{expression}`` in a command, as IPython has them."""

import re
import string

DOLLAR = re.compile(r"\$(\$?[^\W\d][\w.]*)")


class Names(dict):
    """Those of a frame: its own, those of its module, and Python's."""

    def __init__(self, frame):
        super().__init__(frame.f_builtins)
        self.update(frame.f_globals)
        self.update(frame.f_locals)


def expand(text, frame):
    """The text with values in it. One with an expression that has no value is left as it is, for the shell."""
    if "$" not in text and "{" not in text:
        return text
    names = Names(frame)
    try:
        return "".join(part for piece in string.Formatter().parse(text) for part in parts(*piece, names))
    except Exception:
        return text


def parts(literal, expression, spec, conversion, names):
    yield DOLLAR.sub(lambda found: dollar(found[1], names), literal)
    if expression is not None:
        value = eval(expression, names)
        yield format(string.Formatter().convert_field(value, conversion), expand_spec(spec, names))


def expand_spec(spec, names):
    return "".join(part for piece in string.Formatter().parse(spec) for part in parts(*piece, names))


def dollar(name, names):
    """The value of a variable of Python; the shell's are left to it. ``$$name`` is the shell's in any case."""
    if name.startswith("$"):
        return name
    first, *attributes = name.split(".")
    if first not in names:
        return f"${name}"
    value = names[first]
    while attributes and hasattr(value, attributes[0]):
        value = getattr(value, attributes.pop(0))
    return ".".join([str(value), *attributes])
