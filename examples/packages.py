#!/usr/bin/env python3
"""Packages in a session that runs: asked for, there at once, and the variables stay. Name some, or `cowsay` is taken."""

import sys

import limpet


def main():
    wanted = sys.argv[1:] or ["cowsay"]
    with limpet.Client() as client, client.open() as session:
        session.run("rows = [('a', 1), ('b', 2)]")
        try:
            installed = session.install(wanted, on_progress=lambda text: print(text, end="", file=sys.stderr))
        except limpet.InstallFailed as error:
            sys.exit(f"not installed: {error.message}")
        for name, version in installed.packages.items():
            print(name, version)
        module = next(iter(installed.packages)).replace("-", "_")
        print(session.run(f"import {module}; len(rows), {module}.__name__").result)

        with client.open() as other:  # the second session that asks has it in milliseconds
            print("cached:", other.install(wanted).cached)


main()
