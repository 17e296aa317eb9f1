"""HTML that runs scripts, in a frame that reaches neither the notebook nor a network.

The frame is sandboxed: what is in it has an origin of its own, and none of the rights of the page around it. Its policy
forbids every request. A document may go elsewhere by itself, though, which its own policy does not forbid, but that of
the document around it does: so there are two frames, the outer one ours alone.
"""

from __future__ import annotations

import base64
import gzip
import html
import zlib
from html.parser import HTMLParser

import nh3

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'unsafe-inline' 'unsafe-eval' blob:",
        "worker-src blob:",
        "style-src 'unsafe-inline'",
        "img-src data: blob:",
        "font-src data:",
        "media-src data: blob:",
        "frame-src 'none'",
        "form-action 'none'",
        "base-uri 'none'",
        "webrtc 'block'",
    ]
)
HEAD = f"""\
<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta http-equiv="x-dns-prefetch-control" content="off">"""
HEIGHT = 150  # pixels, until the content says its own
HIGHEST = 4000

OUTER = (
    HEAD
    + """
<style>html, body { margin: 0; height: 100% } iframe { display: block; border: 0; width: 100%; height: 100% }</style>
<iframe sandbox="allow-scripts"></iframe>
<script>
const inner = document.querySelector("iframe")
let height = 0
onmessage = event => {
  if (event.source === inner.contentWindow) height = Number(event.data)
  parent.postMessage(height, "*")
}
const packed = Uint8Array.from(atob("PACKED"), character => character.charCodeAt(0))
new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text()
  .then(text => { inner.srcdoc = text })
</script>"""
)
# What goes wrong in there is to be seen there.
INNER = (
    HEAD
    + """
<style>html { background: white } body { margin: 0; font: 13px system-ui, sans-serif }</style>
<script>
delete window.RTCPeerConnection
delete window.webkitRTCPeerConnection
;(() => {
  const told = new Set()
  const tell = text => {
    if (told.has(text) || told.size > 9) return
    told.add(text)
    if (document.readyState === "loading") return addEventListener("load", () => show(text))
    show(text)
  }
  const show = text => {
    const note = document.createElement("pre")
    note.style.color = "#a00"
    note.textContent = `limpet: ${text}`
    document.body.append(note)
  }
  addEventListener("error", event => event.message && tell(event.message))
  addEventListener("unhandledrejection", event => tell(event.reason))
  document.addEventListener("securitypolicyviolation",
    event => tell(`${event.blockedURI} is not loaded: what a cell shows has no network`))
  const root = document.documentElement
  const fit = () => {
    const overflow = root.scrollHeight > innerHeight ? root.scrollHeight : 0
    parent.postMessage(Math.max(Math.ceil(root.getBoundingClientRect().height), overflow), "*")
  }
  new ResizeObserver(fit).observe(root)
  new MutationObserver(fit).observe(root, { childList: true, subtree: true })
  addEventListener("load", fit)
})()
</script>
"""
)
# Runs in the page of the notebook, which believes a number at most.
FIT = (
    "const frame = this; window.addEventListener('message', event => { "
    "if (event.source === frame.contentWindow && event.data > 0) "
    f"frame.style.height = Math.min(event.data, {HIGHEST}) + 'px' }}); frame.contentWindow.postMessage(0, '*')"
)
STRUCTURE = {"html", "head", "body", "meta", "title"}


def framed(content: str) -> str:
    """The content as HTML that may stand in the page of the notebook."""
    packed = base64.b64encode(gzip.compress((INNER + content).encode("utf-8", "replace"), mtime=0)).decode()
    style = f"width: 100%; height: {HEIGHT}px; border: 0"
    outer = html.escape(OUTER.replace("PACKED", packed))
    return f'<iframe sandbox="allow-scripts" style="{style}" onload="{html.escape(FIT)}" srcdoc="{outer}"></iframe>'


def script(code: str) -> str:
    """A page for a script that draws in ``element``, as notebooks have it."""
    find = 'const element = document.getElementById("element")'
    return f'<div id="element"></div><script>{find}</script><script>{code}</script>'


BEFORE, BEHIND = framed("").split(base64.b64encode(gzip.compress(INNER.encode(), mtime=0)).decode())
LARGEST = 64 << 20  # bytes of a page in a frame


def is_framed(text: str) -> bool:
    """Whether it is what framed() makes, of whatever content."""
    if not (text.startswith(BEFORE) and text.endswith(BEHIND)):
        return False
    try:
        packed = base64.b64decode(text[len(BEFORE) : -len(BEHIND)], validate=True)
        page = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(packed, LARGEST)
    except (ValueError, zlib.error):
        return False
    return page.startswith(INNER.encode())


class Survey(HTMLParser):
    """Whether HTML has more in it than text, tables and embedded pictures. It need not be right: both ways are safe."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.is_active = False
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Notes what would be lost of the element, were it cleaned."""
        if tag == "style" and ("scoped", None) in attributes:
            return  # pandas' own, of a plain table, for which notebooks have a style
        links = [value or "" for name, value in attributes if name in ("src", "srcset", "background")]
        self.is_active |= (
            tag not in nh3.ALLOWED_TAGS | STRUCTURE
            or any(name.startswith("on") for name, _ in attributes)
            or not all(link.lower().startswith("data:image/") for link in links)
        )
