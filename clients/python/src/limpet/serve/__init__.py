"""One gateway to a controller, over HTTP: ``limpet serve``.

python -m limpet.serve           # or: limpet serve; needs the extra ``serve`` of the package

The gateway is a client like any other, without privileges. Whoever comes in by one of its doors has a key, owns the
sessions that were made with it, and sees no others.
"""

from __future__ import annotations

INSTALL = (
    "pip install 'starlette>=0.45' 'uvicorn>=0.34' 'httptools>=0.6' 'httpx>=0.27' 'msgspec>=0.19' "
    "'prometheus-client>=0.21' 'python-multipart>=0.0.18'"
)


def require() -> None:
    """Raises ImportError, with the line that installs what is missing."""
    try:
        import httptools  # noqa: F401
        import httpx  # noqa: F401
        import msgspec  # noqa: F401
        import prometheus_client  # noqa: F401
        import python_multipart  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"limpet.serve needs more packages ({error}): {INSTALL}", name="limpet.serve"
        ) from error
