"""Text that is shown as what it is."""

from limpet_runtime import display


def shown_as(mime):
    """``%%html`` and the like."""

    def magic(frame, text, body):
        display.display({mime: body, "text/plain": body}, raw=True)

    return magic
