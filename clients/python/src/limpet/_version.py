"""The version, which the top CMakeLists.txt has: read from there in the source tree.

What is built has it in place of this."""

import os

_CMAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 4, "CMakeLists.txt")
with open(_CMAKE, encoding="utf-8") as _file:
    VERSION = _file.read().partition("project(limpet VERSION ")[2].split()[0]
