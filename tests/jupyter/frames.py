"""What is in the frames that a cell shows."""

import base64
import gzip
import html
import re

from limpet.jupyter import _frame


def content_of(shown):
    """What a cell put into a frame, which is all that it shows."""
    found = re.fullmatch(r'<iframe sandbox="allow-scripts" style="[^"]*" onload="[^"]*" srcdoc="([^"]*)"></iframe>', shown)
    assert found, shown[:500]
    packed = re.search(r'atob\("([A-Za-z0-9+/=]*)"\)', html.unescape(found[1]))
    page = gzip.decompress(base64.b64decode(packed[1])).decode()
    assert page.startswith(_frame.INNER)
    return page.removeprefix(_frame.INNER)
