"""display() and what it knows of values: MIME bundles as IPython's protocol of _repr_*_ methods has them."""

import binascii
import os
import sys

import _limpet

METHODS = {
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_pdf_": "application/pdf",
    "_repr_latex_": "text/latex",
    "_repr_json_": "application/json",
    "_repr_javascript_": "application/javascript",
}
BINARY = {"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"}

# Objects that have every attribute (mocks, proxies) also have this one; their answers mean nothing.
CANARY = "_ipython_canary_method_should_not_exist_"


def method_of(value, name):
    try:
        method = getattr(value, name, None)
    except Exception:
        return None
    return method if callable(method) else None


def call(method, **arguments):
    """(data, metadata), or (None, None) where the method fails or has nothing to say."""
    try:
        answer = method(**arguments)
    except Exception:
        return None, None
    if isinstance(answer, tuple) and len(answer) == 2:
        return answer
    return answer, None


def figure_forms(value):
    """matplotlib gives its figures no _repr_png_."""
    from limpet_runtime import figures

    try:
        return figures.png(value)
    except Exception:
        return {}


def is_figure(value):
    figure = getattr(sys.modules.get("matplotlib.figure"), "Figure", None)
    return isinstance(figure, type) and isinstance(value, figure)


def rich_forms(value, include=None, exclude=None):
    """(data, metadata) of all forms but text/plain: of single methods first, then of the bundle."""
    data, metadata = {}, {}
    if isinstance(value, type) or method_of(value, CANARY):
        return data, metadata
    if is_figure(value):
        data.update(figure_forms(value))
    for name, mime in METHODS.items():
        method = method_of(value, name)
        form, form_metadata = call(method) if method else (None, None)
        if form is not None:
            data[mime] = form
            if form_metadata:
                metadata[mime] = form_metadata
    method = method_of(value, "_repr_mimebundle_")
    bundle, bundle_metadata = call(method, include=include, exclude=exclude) if method else (None, None)
    if isinstance(bundle, dict):
        data.update(bundle)
    if isinstance(bundle_metadata, dict):
        metadata.update(bundle_metadata)
    return data, metadata


def select(forms, include, exclude):
    return {
        mime: form
        for mime, form in forms.items()
        if (not include or mime in include) and (not exclude or mime not in exclude)
    }


def as_bytes(mime, form):
    """Binary forms are bytes on the wire; Jupyter's are base64 text."""
    if mime in BINARY and isinstance(form, str):
        try:
            return binascii.a2b_base64(form)
        except ValueError:
            pass
    return form


publisher = None  # of IPython, which takes displays in place of the client


def wait():
    """What is printed and what is shown go different ways; where their order is to be seen, this is put in order."""


def send(data, metadata, display_id=None, is_result=False, update=False):
    data = {str(mime): as_bytes(mime, form) for mime, form in data.items()}
    metadata = {str(key): value for key, value in metadata.items()}
    if publisher is not None:
        if not update:
            publisher.publish(data, metadata)
        return
    wait()
    if not _limpet.send_display(data, metadata, display_id, is_result, update):
        print(data.get("text/plain", ""))
    wait()


def display_result(value, text):
    """The value of a cell, where it has forms besides its text."""
    data, metadata = rich_forms(value)
    if data:
        send({"text/plain": text, **data}, metadata, is_result=True)


def display_one(value, include, exclude, metadata, raw, display_id, update):
    if raw:
        data, value_metadata = dict(value), {}
    else:
        data, value_metadata = rich_forms(value, include, exclude)
        data.setdefault("text/plain", _limpet.safe_repr(value))
    send(
        select(data, include, exclude),
        {**value_metadata, **(metadata or {})},
        display_id=display_id,
        update=update,
    )


class DisplayHandle:
    """What display(..., display_id=...) returns: shows other values in the same place."""

    def __init__(self, display_id=None):
        self.display_id = display_id or new_id()

    def __repr__(self):
        return f"<DisplayHandle display_id={self.display_id}>"

    def display(self, obj, **kwargs):
        display(obj, display_id=self.display_id, **kwargs)

    def update(self, obj, **kwargs):
        update_display(obj, display_id=self.display_id, **kwargs)


def new_id():
    return os.urandom(16).hex()


def display(
    *objs,
    include=None,
    exclude=None,
    metadata=None,
    transient=None,
    display_id=None,
    raw=False,
    clear=False,
    update=False,
    **kwargs,
):
    """Show values in the richest forms they have, as part of what the cell returns.

    With a display_id (a text, or True for a new one) a DisplayHandle is returned. With `clear` they take the place
    of what was shown before. `transient` and further arguments are accepted as IPython's display() has them.
    """
    if display_id is None and transient:
        display_id = transient.get("display_id")
    if display_id is True:
        display_id = new_id()
    if display_id is not None:
        display_id = str(display_id)
    elif update:
        raise TypeError("display_id is needed to update a display")
    if clear:
        clear_output(wait=True)
    for value in objs:
        display_one(value, include, exclude, metadata, raw, display_id, update)
    return None if display_id is None else DisplayHandle(display_id)


def update_display(obj, *, display_id, **kwargs):
    """Show a value in the place of the one that was displayed with this display_id."""
    kwargs["update"] = True
    display(obj, display_id=display_id, **kwargs)


def clear_output(wait=False):
    """Takes back what this cell has shown; with `wait` once there is something new to show. What it printed stays."""
    send({}, {"wait": bool(wait)}, update=True)


def publish_display_data(data, metadata=None, *, transient=None, update=False, **kwargs):
    """Show a bundle {MIME type: value} as it is."""
    display(data, metadata=metadata, transient=transient, raw=True, update=update)


def adapt_ipython(module):
    """Makes the functions of a real IPython, which has no shell here, show things too."""
    for name in ("display", "update_display", "clear_output", "publish_display_data", "DisplayHandle"):
        setattr(module, name, globals()[name])
