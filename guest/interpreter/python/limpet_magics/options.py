"""The options of a command."""

import getopt
import re
import shlex


class UsageError(ValueError):
    """A command of a notebook was written in a way that it does not know."""


def leading(text, flags, valued=""):
    """({letter: value}, rest) of what begins with options of one letter: the rest is as it was written."""
    found = {}
    while option := re.match(r"\s*-([A-Za-z])", text):
        letter, text = option[1], text[option.end() :]
        if letter in valued:
            value = re.match(r"\s*(\S+)", text)
            if value is None:
                raise UsageError(f"option -{letter} needs a value")
            found[letter], text = value[1], text[value.end() :]
        elif letter in flags:
            found[letter] = True
        else:
            raise UsageError(f"there is no option -{letter} here")
    return found, text.strip()


def words(text, short="", long=()):
    """({name: value}, operands), as getopt reads them."""
    try:
        pairs, operands = getopt.gnu_getopt(shlex.split(text), short, list(long))
    except (getopt.GetoptError, ValueError) as error:
        raise UsageError(str(error)) from None
    return {name.lstrip("-"): value for name, value in pairs}, operands


def one(operands, what):
    if len(operands) != 1:
        raise UsageError(f"{what} is needed, and nothing else")
    return operands[0]


def number(found, letter, default):
    try:
        return int(found.get(letter, default))
    except ValueError:
        raise UsageError(f"option -{letter} needs a whole number") from None
