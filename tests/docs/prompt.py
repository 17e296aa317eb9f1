"""A Python process that runs the `python` blocks of one document, one after the other, and its cells in a notebook.

Where a statement ends in a comment `# → text`, that is what it prints; in a cell, what the cell shows. This file is also that process.
"""

import ast
import contextlib
import io
import json
import re
import subprocess
import sys
import traceback

EXPECTED = re.compile(r"#\s*→\s*(.*)$")


class Prompt:
    def __init__(self, directory, environment):
        self.process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=directory, env=environment)

    def run(self, block):
        """What is wrong with the block."""
        self.process.stdin.write(json.dumps([block.language, block.text, block.document, block.line]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return json.loads(answer) if answer else [f"{block.place}: Python ended"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def run_python(prompt, block):
    """What is wrong with a `python` block, whose statements should succeed and print what their comments say."""
    yield from prompt.run(block)


def run_block(source, document, line, namespace):
    """What is wrong with it."""
    from tests.docs.documents import fits

    tree = ast.increment_lineno(ast.parse(source, document), line - 1)
    lines = source.splitlines()
    for statement in tree.body:
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said):
                exec(compile(ast.Module([statement], []), document, "exec"), namespace)
        except BaseException:
            yield f"{document}:{statement.lineno}: {traceback.format_exc()}"
            return
        expected = EXPECTED.search(lines[statement.end_lineno - line])
        if expected and not fits(expected[1], said.getvalue()):
            yield f"{document}:{statement.end_lineno}: printed\n{said.getvalue()}\ninstead of\n{expected[1]}"


class Notebook:
    """A kernel called limpet, which the document has installed."""

    def __init__(self):
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel(kernel_name="limpet")

    def run_block(self, source, document, line):
        """What is wrong with the cell: it fails, or shows something else than its comment says."""
        from tests.docs.documents import fits

        said = []
        reply = self.client.execute_interactive(source, output_hook=lambda message: said.append(text_of(message)), timeout=120)
        expected, said = EXPECTED.search(source), "".join(said)
        if not fits(expected[1], said) if expected else reply["content"]["status"] != "ok":
            yield f"{document}:{line}: showed\n{said}"

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel()


def text_of(message):
    """What a person reads of a message of the kernel."""
    content = message["content"]
    if message["msg_type"] == "error":
        return "\n".join(content["traceback"]) + "\n"
    return content.get("text") or content.get("data", {}).get("text/plain", "")


def main():
    answers, namespace, notebook = sys.stdout, {"__name__": "__main__"}, None
    for request in sys.stdin:
        language, *block = json.loads(request)
        if language == "cell":
            notebook = notebook or Notebook()
        wrong = list(notebook.run_block(*block) if language == "cell" else run_block(*block, namespace))
        print(json.dumps(wrong), file=answers, flush=True)
    if notebook:
        notebook.close()


if __name__ == "__main__":
    main()
