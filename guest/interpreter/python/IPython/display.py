"""The part of IPython.display that works without IPython."""

import mimetypes
import os

from limpet_runtime.display import (
    DisplayHandle,
    clear_output,
    display,
    publish_display_data,
    update_display,
)

__all__ = [
    "Code",
    "DisplayHandle",
    "DisplayObject",
    "HTML",
    "Image",
    "JSON",
    "Javascript",
    "Latex",
    "Markdown",
    "Math",
    "Pretty",
    "SVG",
    "clear_output",
    "display",
    "publish_display_data",
    "update_display",
]


class DisplayObject:
    """A value in one MIME type. `data` may name a file, as `filename` does."""

    mime = "text/plain"
    binary = False

    def __init__(self, data=None, url=None, filename=None, metadata=None):
        if filename is None and isinstance(data, (str, os.PathLike)) and self.names_file(data):
            data, filename = None, data
        self.filename = None if filename is None else os.fspath(filename)
        self.url = url
        self.data = data
        self.metadata = metadata or {}
        if self.filename is not None:
            self.reload()

    def names_file(self, data):
        return isinstance(data, os.PathLike)

    def reload(self):
        with open(self.filename, "rb") as file:
            content = file.read()
        self.data = content if self.binary else content.decode("utf-8")

    def content(self):
        return self.data

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.data is None:
            return {}
        metadata = {self.mime: self.metadata} if self.metadata else {}
        return {self.mime: self.content()}, metadata


class Pretty(DisplayObject):
    def __repr__(self):
        return str(self.data)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {}


class HTML(DisplayObject):
    mime = "text/html"

    def _repr_html_(self):
        return self.data

    def __html__(self):
        return self.data


class Markdown(DisplayObject):
    mime = "text/markdown"


class Latex(DisplayObject):
    mime = "text/latex"


class Math(Latex):
    def content(self):
        text = self.data.strip("$")
        return f"$\\displaystyle {text}$"


class SVG(DisplayObject):
    mime = "image/svg+xml"

    def names_file(self, data):
        return not str(data).lstrip().startswith("<")


class JSON(DisplayObject):
    mime = "application/json"

    def content(self):
        if not isinstance(self.data, str):
            return self.data
        import json

        return json.loads(self.data)


class Javascript(DisplayObject):
    mime = "application/javascript"


class Code(DisplayObject):
    """Source text, shown as it is."""

    def __init__(self, data=None, url=None, filename=None, language=None):
        super().__init__(data, url, filename)
        self.language = language or ""

    def __repr__(self):
        return str(self.data)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/markdown": f"```{self.language}\n{self.data}\n```"}


class Image(DisplayObject):
    """A picture from bytes or a file; one that is only a `url` is shown by reference."""

    binary = True

    def __init__(
        self,
        data=None,
        url=None,
        filename=None,
        format=None,
        embed=None,
        width=None,
        height=None,
        metadata=None,
        alt=None,
        **kwargs,
    ):
        if isinstance(data, str) and data.startswith(("http://", "https://")):
            data, url = None, data
        size = {"width": width, "height": height, "alt": alt}
        metadata = {**(metadata or {}), **{key: value for key, value in size.items() if value is not None}}
        super().__init__(data, url, filename, metadata)
        self.mime = self.guess(format)

    def names_file(self, data):
        return True

    def guess(self, format):
        if format is not None:
            return mimetypes.guess_type(f"x.{format}")[0] or f"image/{format}"
        for start, mime in ((b"\x89PNG", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"GIF8", "image/gif")):
            if bytes(self.data or b"").startswith(start):
                return mime
        return mimetypes.guess_type(self.filename or "")[0] or "image/png"

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.data is None and self.url:
            return {"text/html": f'<img src="{self.url}"/>'}
        return super()._repr_mimebundle_(include, exclude)
