"""Sessions for agents of Pydantic AI: as their workspace, and as the Python of their code mode.

from pydantic_ai import Agent
from limpet.pydantic_ai import CodeMode, LimpetWorkspace

agent = Agent(model, capabilities=[CodeMode()])
agent.run_sync("...", workspace=LimpetWorkspace(memory="512m"))

Needs pydantic-ai, which the extra ``pydantic-ai`` of the package brings.
"""

try:
    from ._code_mode import CodeMode
    from ._workspace import LimpetWorkspace
except ImportError as error:
    if (error.name or "").partition(".")[0] not in ("pydantic_ai", "pydantic", "pydantic_core"):
        raise
    raise ImportError(
        f"limpet.pydantic_ai needs Pydantic AI ({error}): pip install 'pydantic-ai-slim>=2.68,<3'",
        name=error.name,
    ) from error

__all__ = ["CodeMode", "LimpetWorkspace"]
