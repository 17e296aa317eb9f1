"""The version, which the top CMakeLists.txt of the source tree has; a built package has it here instead."""

import os

_CMAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 4, "CMakeLists.txt")
with open(_CMAKE, encoding="utf-8") as _file:
    VERSION = _file.read().partition("project(limpet VERSION ")[2].split()[0]
