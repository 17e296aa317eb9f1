"""A Python process that runs the `python` blocks of one document, one after the other.

Where a statement ends in a comment `# → text`, that is what it prints. This file is also that process.
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
        self.process.stdin.write(json.dumps([block.text, block.document, block.line]) + "\n")
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


def main():
    answers, namespace = sys.stdout, {"__name__": "__main__"}
    for request in sys.stdin:
        print(json.dumps(list(run_block(*json.loads(request), namespace))), file=answers, flush=True)


if __name__ == "__main__":
    main()
