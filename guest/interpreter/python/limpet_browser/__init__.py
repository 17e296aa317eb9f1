"""The browser of this session: Chromium without a window, which lives beside Python, and Playwright's objects for it.

    page = limpet_browser.page()                  synchronous
    page = await limpet_browser.async_page()      in a cell that awaits

A crash, a reset or a rollback of Python leaves the browser and its pages alone, and page() gives the same page again.
Screenshots, PDFs and downloads are shown and land in /session/artifacts, unless another path is given.
"""

from limpet_browser._connections import PORT, BrowserError, async_browser, async_page, browser, endpoint, page

__all__ = ["PORT", "BrowserError", "async_browser", "async_page", "browser", "endpoint", "page"]
