"""A shell that runs the `sh` and `console` blocks of one document, one after the other."""

import os
import re
import subprocess

from tests.docs.documents import fits

PROMPT = re.compile(r"^\$ (.*(?:\n> .*)*)$", re.M)


class Shell:
    def __init__(self, directory, environment):
        read, write = os.pipe()
        self.files = os.path.join(directory, ".blocks")
        os.mkdir(self.files)
        self.process = subprocess.Popen(["bash", "--norc"], stdin=subprocess.PIPE, text=True, cwd=directory,
                                        env=environment | {"STATUS": str(write)}, pass_fds=[write])  # fmt: skip
        os.close(write)
        self.statuses = os.fdopen(read)
        self.count = 0

    def run(self, text):
        """The status of the first command that failed, or 0, and what was printed on both streams."""
        self.count += 1
        script, output = (os.path.join(self.files, f"{self.count}.{end}") for end in ("sh", "out"))
        with open(script, "w") as file:
            file.write(text + "\n")
        self.process.stdin.write(f"failed=0; trap '((failed)) || failed=$?' ERR; . {script} >{output} 2>&1 </dev/null; trap - ERR; echo $failed >&$STATUS\n")
        self.process.stdin.flush()
        status = self.statuses.readline()
        assert status, f"the shell ended at: {text}"
        with open(output, errors="replace") as file:
            return int(status), file.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.statuses.close()


def run_sh(shell, block):
    """What is wrong with an `sh` block, of which every command should succeed."""
    status, said = shell.run(block.text)
    if status:
        yield f"{block.place}: a command ended with status {status}:\n{said}"


def run_console(shell, block):
    """What is wrong with a `console` block, of which every command should print what stands below it."""
    matches = list(PROMPT.finditer(block.text))
    if not matches:
        yield f"{block.place}: no line begins with `$ `"
    for match, following in zip(matches, [*matches[1:], None], strict=True):
        expected = block.text[match.end() : following.start() if following else None]
        said = shell.run(match[1].replace("\n> ", "\n"))[1]
        line = block.line + block.text.count("\n", 0, match.start())
        if not fits(expected, said):
            yield f"{block.document}:{line}: {match[0]}\nprinted\n{said}\ninstead of{expected}"
