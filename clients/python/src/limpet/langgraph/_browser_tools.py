"""Tools for the browser of a sandbox, beside the one that runs code in it."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import BaseTool, ToolException
from pydantic import BaseModel, Field

from .. import Result
from .._adapters import telling
from . import _content
from ._both import settled
from ._content import Content
from ._session_tool import Work, tools_of
from ._tool import CodeSandbox

NO_SESSION = "pages are kept only in a session, and this call has none"
PATIENCE = 30  # seconds, for one step in the browser; the first one starts it
STARTING = 60
WHERE = "what is meant, as Playwright's selectors: CSS, or text=… for what is written there"

# In the session's Python, of whose variables it leaves nothing behind. The page is the one that code has, too.
STEP = """
def step():
    import limpet_browser
    page = limpet_browser.page()
    page.set_default_timeout({patience} * 1000)
    {action}
__import__("builtins").print(step(), end="")
"""


class Browse(BaseModel):
    url: str = Field(description="http:, https:, or file: for a file of the sandbox")


class Click(BaseModel):
    selector: str = Field(description=WHERE)


class Type(BaseModel):
    selector: str = Field(description=WHERE)
    text: str = Field(description="takes the place of what is in the field")
    enter: bool = Field(default=False, description="press Enter afterwards")


class Read(BaseModel):
    selector: str = Field(default="body", description=WHERE)


class Screenshot(BaseModel):
    full: bool = Field(default=False, description="all of the page, and not only what is in the window")


PLACE = "return f'{page.title()} ({page.url})'"


async def _step(session: Any, action: str) -> Result:
    code = STEP.format(patience=PATIENCE, action=action)
    wrapped = f"__import__('builtins').exec({code!r}, {{}})"
    result: Result = await settled(session.run(wrapped, timeout=PATIENCE + STARTING))
    if not result.ok:
        error = result.error
        raise ToolException(f"{error.name}: {error.message}" if error else result.status)
    return result


async def _browse(session: Any, chars: int, url: str) -> str:
    return (await _step(session, f"page.goto({url!r}); {PLACE}")).stdout


async def _click(session: Any, chars: int, selector: str) -> str:
    return (await _step(session, f"page.click({selector!r}); {PLACE}")).stdout


async def _type(session: Any, chars: int, selector: str, text: str, enter: bool = False) -> str:
    press = f"page.press({selector!r}, 'Enter'); " if enter else ""
    return (await _step(session, f"page.fill({selector!r}, {text!r}); {press}{PLACE}")).stdout


async def _read(session: Any, chars: int, selector: str = "body") -> str:
    action = f"return f'{{page.title()}} ({{page.url}})\\n' + page.inner_text({selector!r})"
    return telling.clip((await _step(session, action)).stdout, chars)


async def _screenshot(session: Any, chars: int, full: bool = False) -> Content:
    result = await _step(session, f"page.screenshot(full_page={full!r}); {PLACE}")
    return await _content.of_call(session, result, telling.Limits(chars=chars, images=1))


_TOOLS: dict[str, tuple[str, type[BaseModel], Work]] = {
    "browse": ("Opens an address in the sandbox's browser.", Browse, _browse),
    "click": ("Clicks on something in the page.", Click, _click),
    "type": ("Types into a field of the page.", Type, _type),
    "read": ("Reads the text of the page, or of a part of it.", Read, _read),
    "screenshot": ("Shows the page as a picture.", Screenshot, _screenshot),
}


def browser_tools(sandbox: CodeSandbox) -> list[BaseTool]:
    """The LangChain tools ``browse``, ``click``, ``type``, ``read`` and ``screenshot``, on the browser of a session.

    Args:
        sandbox: What :func:`code_sandbox` made, with an image that has the part ``browser``. The tools and code that
            uses ``limpet_browser`` have the same page. A sandbox with another name than the usual gives the tools its
            name in front, as in ``NAME_browse``.

    Returns:
        The tools, for the list of an agent beside the sandbox. The model reads errors of the page.
    """
    return tools_of(sandbox, _TOOLS, NO_SESSION)
