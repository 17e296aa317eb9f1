#!/usr/bin/python3
"""The commands of pip that code in a sandbox may use. Nothing is installed here: the supervisor is asked, and the
packages appear, where the session's option `pip` allows it."""

import importlib.metadata
import os
import socket
import sys

USAGE = """usage: pip install [-r FILE] REQUIREMENT...
       pip list | freeze | show PACKAGE... | --version

Wheels are installed outside the sandbox, and can be imported at once. A module that is imported already stays as it is
until the interpreter is started anew."""
# What people write out of habit, and what is so anyway.
HARMLESS = {
    "-q", "-qq", "--quiet", "-v", "--verbose", "--user", "--no-input", "--no-cache-dir", "--break-system-packages",
    "--disable-pip-version-check", "--no-warn-script-location", "--prefer-binary", "--no-color", "-y", "--yes",
}  # fmt: skip
HARMLESS_WITH_VALUE = {"--progress-bar", "--root-user-action", "--timeout", "--retries", "--only-binary", "--cache-dir"}


class UsageError(Exception):
    pass


def fail(text, status=2):
    print(f"ERROR: {text}", file=sys.stderr)
    return status


def read_file(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def requirements_of(arguments):
    requirements, rest = [], iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if argument in ("-r", "--requirement"):
            requirements += read_file(next(rest, ""))
        elif name == "--requirement" and equals:
            requirements += read_file(value)
        elif argument in HARMLESS or (name in HARMLESS_WITH_VALUE and equals):
            continue
        elif argument in HARMLESS_WITH_VALUE:
            next(rest, None)
        elif argument.startswith("-"):
            raise UsageError(f"{argument} does not work in a sandbox: wheels of the index are installed, nothing else")
        elif os.sep in argument or argument == ".":
            raise UsageError(f"'{argument}' cannot be installed in a sandbox: only what the package index has")
        else:
            requirements.append(argument)
    return requirements


def ask(requirements):
    """Prints what comes back; returns the exit status."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(os.environ.get("LIMPET_PIP", "/run/limpet-pip"))
        except OSError as error:
            return fail(f"packages cannot be asked for in this sandbox: {error.strerror}", 1)
        connection.sendall("".join(f"{line}\n" for line in requirements).encode())
        connection.shutdown(socket.SHUT_WR)
        return show(connection)


def show(connection):
    while data := connection.recv(65536):
        text, end, status = data.partition(b"\0")
        sys.stdout.buffer.write(text)
        sys.stdout.flush()
        if end:
            return 0 if (status or connection.recv(1)) == b"0" else 1
    return fail("the sandbox gave no answer", 1)


def install(arguments):
    requirements = requirements_of(arguments)
    if not requirements:
        raise UsageError('you must give at least one requirement to install (see "pip --help")')
    return ask(requirements)


def installed():
    found = {}
    for distribution in importlib.metadata.distributions():
        found.setdefault(distribution.metadata["Name"], distribution.version)
    return sorted(found.items(), key=lambda item: item[0].lower())


def list_all(arguments):
    rows = [("Package", "Version"), *installed()]
    width = max(len(name) for name, _ in rows)
    rows.insert(1, ("-" * width, "-" * max(len(version) for _, version in rows)))
    for name, version in rows:
        print(f"{name:{width}} {version}")
    return 0


def freeze(arguments):
    for name, version in installed():
        print(f"{name}=={version}")
    return 0


def show_packages(arguments):
    status = 0 if arguments else fail("give the name of a package")
    for name in arguments:
        try:
            metadata = importlib.metadata.metadata(name)
        except importlib.metadata.PackageNotFoundError:
            status = fail(f"package not found: {name}", 1)
            continue
        for field in ("Name", "Version", "Summary", "License"):
            print(f"{field}: {metadata[field] or ''}")
    return status


COMMANDS = {"install": install, "list": list_all, "freeze": freeze, "show": show_packages}


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    if arguments[0] in ("-V", "--version"):
        print(f"pip of Limpet (python {sys.version_info.major}.{sys.version_info.minor})")
        return 0
    if arguments[0] not in COMMANDS:
        return fail(f"pip {arguments[0]} does not work in a sandbox\n{USAGE}")
    try:
        return COMMANDS[arguments[0]](arguments[1:])
    except UsageError as error:
        return fail(error)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
