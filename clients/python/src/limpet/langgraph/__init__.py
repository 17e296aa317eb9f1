"""The ``code_sandbox`` tool for LangChain agents and LangGraph graphs.

from limpet.langgraph import Rewind, code_sandbox

sandbox = code_sandbox(data="/host/dir", memory="512m")
agent = create_agent(model, [sandbox], middleware=[Rewind(sandbox)], checkpointer=InMemorySaver())
agent.invoke({"messages": "How many rows?"}, {"configurable": {"thread_id": "conv-1"}})

Needs LangChain and LangGraph, which the extra ``langgraph`` of the package brings.
"""

try:
    import langchain.agents.middleware  # noqa: F401
    import langgraph.types  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"limpet.langgraph needs LangChain and LangGraph ({error}): pip install langchain 'langgraph<2'",
        name=error.name,
    ) from error

from ._browser_tools import browser_tools
from ._exec_tool import exec_tool
from ._file_tools import file_tools
from ._install_tool import install_tool
from ._language_tool import language_tool
from ._process_tools import process_tools
from ._rewind import Rewind, RewindState
from ._tool import CodeSandbox, code_sandbox

__all__ = [
    "CodeSandbox",
    "Rewind",
    "RewindState",
    "browser_tools",
    "code_sandbox",
    "exec_tool",
    "file_tools",
    "install_tool",
    "language_tool",
    "process_tools",
]
