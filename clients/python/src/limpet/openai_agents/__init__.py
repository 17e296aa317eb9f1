"""Sessions as sandboxes of the OpenAI Agents SDK.

from agents import Runner, RunConfig
from agents.sandbox import SandboxAgent, SandboxRunConfig
from limpet.openai_agents import LimpetSandboxClient, LimpetSandboxClientOptions

options = LimpetSandboxClientOptions(memory="512m")
sandbox = SandboxRunConfig(client=LimpetSandboxClient(), options=options)
await Runner.run(SandboxAgent(...), "...", run_config=RunConfig(sandbox=sandbox))

Needs openai-agents, which the extra ``openai-agents`` of the package brings.
"""

try:
    from ._client import LimpetSandboxClient, LimpetSandboxClientOptions
    from ._session import LimpetSandboxSession, LimpetSandboxSessionState
except ImportError as error:
    if (error.name or "").partition(".")[0] != "agents":
        raise
    raise ImportError(
        f"limpet.openai_agents needs openai-agents ({error}): pip install 'openai-agents>=0.24,<0.25'",
        name=error.name,
    ) from error

__all__ = [
    "LimpetSandboxClient",
    "LimpetSandboxClientOptions",
    "LimpetSandboxSession",
    "LimpetSandboxSessionState",
]
