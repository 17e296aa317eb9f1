#!/usr/bin/env python3
"""Bash beside Python: variables of its own that stay, files in common. Any other language of the image works the same."""

import limpet


def main():
    with limpet.Client() as client, client.open() as session:
        session.run("open('numbers.txt', 'w').write('\\n'.join(map(str, range(10))))")
        session.run("count() { wc -w < numbers.txt; }; greeting=hello", language="bash")
        result = session.run("echo $greeting, there are $(count) numbers", language="bash")
        print(result.kind, "says:", result.stdout.strip())

        result = session.run("ls nothing-there", language="bash")
        print(f"{result.status}: {result.error.message}")

        session.run("import os; os._exit(1)")  # the end of Python is not that of bash
        print("still:", session.run("echo $greeting", language="bash").stdout.strip())

        result = session.run("exit 3", language="bash")
        print(f"its own end: {result.status}, variables are {result.state}, epoch {result.epoch}")
        for context in session.contexts():
            print(context.session, "is a context of", context.language)


main()
