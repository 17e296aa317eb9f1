"""Cells in other languages than Python. A language is a description, a file of JSON in the folder `languages` beside
this package's:

    name       of the language
    aliases    what people also call it
    programs   without which there is no such language here
    packages   of Debian, in which they are; npm: of npm
    files      without which there is no such language either; optional
    driver     "bash", or argv of a program that runs cells one after the other (live.py says how they talk)
    whole      a pattern that a cell has which is a program of its own all the same; optional
    compile    argv, where each cell is a program of its own; optional
    run        argv of such a program
    refused    the last line of one that compiles its source itself, where that fails; optional
    file       what the program's source is called

In an argv `{here}` is that folder, `{file}` the source, `{program}` where the compiled program is to be.
"""

import re

import _limpet
from limpet_languages import live, programs
from limpet_languages.described import HERE, all_described, here, is_here


class Unknown(Exception):
    """A language that the image does not have; the message says which there are."""


def find(name):
    for language in all_described():
        if name.lower() in (language["name"], *language["aliases"]):
            if is_here(language):
                return language
            packages = " ".join(language["packages"])
            raise Unknown(
                f"this image has no {language['name']}: build one with the Debian packages {packages}, as "
                f"`limpet image build --with {language['name']}` does; it has {', '.join(here())}"
            )
    raise Unknown(f"there is no language {name!r}; this image has {', '.join(here())}")


class Mixed:
    """Cells whose variables stay, but for those that are whole programs."""

    def __init__(self, cells, programs, whole):
        self.cells, self.programs, self.whole = cells, programs, re.compile(whole)

    def run(self, code, number):
        return (self.programs if self.whole.search(code) else self.cells).run(code, number)


def driver_of(language):
    driver = language.get("driver")
    if driver == "bash":
        return live.Bash()
    if not driver:
        return programs.Programs(language)
    cells = live.Live([word.format(here=HERE) for word in driver])
    return Mixed(cells, programs.Programs(language), language["whole"]) if "whole" in language else cells


def take_up(name):
    """From now on cells are in that language. Unknown where it is not to be had."""
    _limpet.set_language(driver_of(find(name)).run)
