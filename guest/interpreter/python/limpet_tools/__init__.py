"""Functions of the host that runs this session: limpet_tools.NAME(...) calls one there.

dir(limpet_tools) lists them, help(limpet_tools.NAME) tells about one. Arguments and results are plain data. What a
function raises is raised here, as ToolError where Python has no exception of that name.
"""

try:
    from limpet_runtime.tools import ToolError, __dir__, __getattr__  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "_limpet":
        raise
    raise ImportError("only the session's own process can call functions of the host, not one it started") from None
