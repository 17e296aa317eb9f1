"""Agno's tools for E2B."""

import json
import pathlib
import tempfile

from agno.tools.e2b import E2BTools

tools = E2BTools(timeout=600)
assert "42" in tools.run_python_code("x = 41\nx + 1") and "ZeroDivisionError" in tools.run_python_code("1 / 0")
assert "41" in tools.run_python_code("print(x)")
assert "out" in str(tools.run_command("echo out"))
tools.write_file_content("a.txt", "text")
assert "text" in str(tools.read_file_content("a.txt")) and "a.txt" in str(tools.list_files("."))
with tempfile.TemporaryDirectory() as directory:
    local = pathlib.Path(directory, "up.bin")
    local.write_bytes(b"up")
    assert "up.bin" in str(tools.upload_file(str(local)))
assert tools.set_sandbox_timeout(900) == "900"
assert "6" in str(tools.run_command("expr 2 '*' 3"))
assert json.loads(tools.shutdown_sandbox())["status"] == "success"
print("done")
