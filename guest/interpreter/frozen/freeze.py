"""Writes modules as the C that main.c includes: freeze.py FOLDER > FILE, by the Python that will run them.

What Python finds in its own program it neither looks for in folders nor reads from files, which is most of the time
that so many small modules take.
"""

import marshal
import sys
from pathlib import Path


def frozen(name, source):
    """One initialiser. The code's file is named by the package alone: it is the same wherever it is built."""
    code = marshal.dumps(compile(source.read_bytes(), f"<{source.parent.name}>/{source.name}", "exec", dont_inherit=True))
    rows = ",\n".join(", ".join(map(str, code[at:at + 24])) for at in range(0, len(code), 24))
    package = str(source.name == "__init__.py").lower()
    return (f'{{.name = "{name}", .size = {len(code)}, .is_package = {package},\n'
            f'.code = (const unsigned char[]){{\n{rows}}}}},\n')


def main(folder):
    package = folder.name
    for source in sorted(folder.glob("*.py")):
        sys.stdout.write(frozen(package if source.stem == "__init__" else f"{package}.{source.stem}", source))


main(Path(sys.argv[1]))
