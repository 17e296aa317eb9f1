#!/usr/bin/env python3
"""A program written for llm-sandbox, with one import changed. What comes with it: variables stay, and so does a
session whose code ran into its time limit.

Needs llm-sandbox: pip install './clients/python[llm-sandbox]'.
"""

# from llm_sandbox import SandboxSession
from llm_sandbox.exceptions import SandboxTimeoutError

from limpet.llm_sandbox import SandboxSession

with SandboxSession(lang="python") as session:
    print(session.run("print('Hello, World!')").stdout, end="")
    print(session.execute_command("echo from the shell").stdout, end="")
    session.run("x = 41")
    try:
        session.run("while True: pass", timeout=1)
    except SandboxTimeoutError as error:
        print(error)
    print(session.run("print(x + 1)").stdout, end="")
