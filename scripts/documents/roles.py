"""An extension of mkdocstrings: roles of reStructuredText in docstrings become links."""
import re

import griffe

ROLE = re.compile(r":\w+:`~?([^`]+)`")


class Roles(griffe.Extension):
    def on_object(self, *, obj, **kwargs):
        if obj.docstring:
            obj.docstring.value = ROLE.sub(r"[`\1`][]", obj.docstring.value)
