#!/usr/bin/env python3
"""Commands beside Python: a test run that fails, is mended, and passes, in one session."""

import limpet

PROGRAM = "def double(x):\n    return x + x if x else 1\n"
TESTS = """
import unittest
from program import double

class Doubling(unittest.TestCase):
    def test_numbers(self):
        self.assertEqual([double(x) for x in (0, 1, 2)], [0, 2, 4])
"""


def main():
    with limpet.Client() as client, client.open() as session:
        session.run("tries = []")
        session.exec(["tee", "program.py"], stdin=PROGRAM).check()
        session.exec(["tee", "test_program.py"], stdin=TESTS).check()

        tests = ["python3", "-m", "unittest", "-q"]
        failed = session.exec(tests)
        print(f"exit code {failed.exit_code}: {failed.stderr.splitlines()[-1]}")
        session.run(f"tries.append({failed.exit_code})")

        session.exec("sed -i 's/ if x else 1//' program.py").check()
        passed = session.exec(tests, timeout=60, on_stderr=lambda text: print(text, end=""))
        session.run(f"tries.append({passed.exit_code})")

        slow = session.exec("echo working; sleep 60", timeout=2)
        print(f"{slow.status}, after it printed {slow.stdout.strip()!r}")
        print("Python kept its variables:", session.run("tries").result)


main()
