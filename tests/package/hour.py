"""The first hour of a person who has never seen Limpet, in a clone in which the README's commands have been typed.

It reads nothing but the README, the tutorials and the messages of what fails, and types what these say. It runs with the
Python of build/venv, and the directory of the clone is the current one.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys

from tests.docs.documents import ROOT, blocks
from tests.docs.prompt import Prompt, run_python
from tests.docs.shell import Shell, run_console, run_sh

DOCUMENTS = ("README.md", "docs/tutorials/agent.md", "docs/tutorials/notebook.md", "docs/tutorials/gateway.md")
WHERE = os.getcwd()
ENVIRONMENT = dict(os.environ, PYTHONPATH=str(ROOT))


def read(document):
    """Types its blocks, one after the other; also what pip is to install, which is not run where documents are tested."""
    shell, prompt = Shell(WHERE, ENVIRONMENT), Prompt(WHERE, ENVIRONMENT)
    wrong = []
    for block in blocks(ROOT / document):
        if block.not_run and not block.text.startswith("pip install"):
            continue
        if block.language in ("python", "cell"):
            wrong += run_python(prompt, block)
        elif block.language in ("sh", "console"):
            wrong += (run_sh if block.language == "sh" else run_console)(shell, block)
    prompt.close()
    shell.close()
    shutil.rmtree(shell.files)
    assert not wrong, "\n\n".join(wrong)
    print(f"{document}: as it says", flush=True)


def typed(line, fails=False):
    """What a line of bash prints on both streams. It has to fail, or it must not."""
    done = subprocess.run(["bash", "-c", line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    assert (done.returncode != 0) == fails, f"{line}: status {done.returncode}\n{done.stdout}"
    print(f"$ {line}\n{done.stdout}", flush=True)
    return done.stdout


def advice(message, pattern):
    """What a message says to do, as it is written there."""
    found = re.search(pattern, message)
    assert found, f"no {pattern!r} in: {message}"
    return found[1]


def follow_commands():
    """Failures of the command, and what their messages say to do."""
    said = typed("limpet run -t 1 -c 'import time; time.sleep(2); 42'", fails=True)
    longer = advice(said, r"(-t SECONDS) sets another").replace("SECONDS", "60")
    assert typed(f"limpet run {longer} -c 'import time; time.sleep(2); 42'") == "42\n"

    typed("limpet open --memory 256m a")
    said = typed("limpet open --memory 512m a", fails=True)
    typed(f"limpet {advice(said, 'or (close) it first')} a")
    typed("limpet open --memory 512m a")

    typed("limpet run -s a -c 'x = 41'")
    said = typed("limpet run -s a -c 'import os; os._exit(3)'", fails=True)
    assert "its variables are as they were" in said and typed("limpet run -s a -c x") == "41\n"
    said = typed("limpet rollback a nowhere", fails=True)
    assert "automatic" in typed(f"{advice(said, '`(limpet checkpoints)`')} a")

    said = typed("limpet exec -s a -c 'pip install humanize'", fails=True)
    typed(f"limpet open --pip {advice(said, 'limpetd --pip (allow)')} b")
    typed("limpet exec -s b -c 'pip install humanize'")
    assert typed("limpet run -s b -c 'import humanize; humanize.__name__'") == "'humanize'\n"

    assert "default" in typed(advice(typed("limpet open --image nowhere c", fails=True), "list images with: (limpet image ls)"))
    typed(advice(typed("limpet open --template nowhere c", fails=True), "`(limpet template ls)`"))
    said = typed("limpet run -s a -l cobol -c 1", fails=True)
    assert typed(f"limpet run -s a -l {advice(said, 'has python, (bash)')} -c 'echo $((6 * 7))'") == "42\n"
    typed(advice(typed("limpet froth", fails=True), "'(limpet help)'"))
    typed(advice(typed("limpet run --froth", fails=True), "Try '(.*)'"))
    typed("limpet close a; limpet close b")


def follow_python():
    """Failures of code in a session, and what their messages say to do."""
    import limpet

    with limpet.open() as session:
        said = session.run("import humanize").error.traceback
        eval(advice(said, r"(session\.install\(\['humanize'\]\)) for this session"))
        assert session.run("import humanize; humanize.__name__").result == "'humanize'"
        said = session.run("import urllib.request; urllib.request.urlopen('http://example.com')").error.traceback
    with subprocess.Popen([sys.executable, "-m", "http.server", "8731", "--bind", "127.0.0.1"], stderr=subprocess.DEVNULL) as server:
        with contextlib.ExitStack() as stack:
            stack.callback(server.kill)
            rule = eval(advice(said, r"open one with network=(\{.*?\})").replace("HOST", "127.0.0.1:8731"))
            session = stack.enter_context(limpet.open(network=rule))
            typed("curl --silent --retry 60 --retry-connrefused --retry-delay 1 http://127.0.0.1:8731/ >/tmp/listed")
            fetch = "import os, urllib.request; os.environ.pop('no_proxy', 0); os.environ.pop('NO_PROXY', 0)\n"
            fetched = session.run(f"{fetch}urllib.request.urlopen('http://127.0.0.1:8731/README.md').status")
            assert fetched.result == "200", fetched
    print("Python: as the messages say", flush=True)


def follow_gateway():
    """Failures of the gateway, and what their messages say to do."""
    typed("limpet key revoke anna; limpet key revoke ben")  # who have theirs from the tutorial
    said = typed("limpet serve --host 0.0.0.0 --port 8732", fails=True)
    command = advice(said, "'(limpet key create NAME)'").replace("NAME", "clara")
    with subprocess.Popen(["limpet", "serve", "--port", "8732"], stderr=subprocess.DEVNULL) as server, contextlib.ExitStack() as stack:
        stack.callback(server.wait)
        stack.callback(server.terminate)
        typed("curl --silent --retry 60 --retry-connrefused --retry-delay 1 http://127.0.0.1:8732/ready")
        key = typed(command).strip()
        said = typed("limpet serve --port 8732", fails=True)
        assert "--port" in said
        ask = "curl --silent --fail-with-body http://127.0.0.1:8732/v1/sessions"
        header = advice(typed(ask, fails=True), "send your key as (X-API-Key)")
        assert typed(f"{ask} -H '{header}: {key}'") == '{"sessions":[]}'
        typed(advice(typed("limpet key revoke nobody", fails=True), "`(limpet key ls)`"))
        typed("limpet key revoke clara")


if __name__ == "__main__":
    for name in DOCUMENTS:
        read(name)
    follow_commands()
    follow_python()
    follow_gateway()
    assert "FAIL" not in typed("limpet doctor")
