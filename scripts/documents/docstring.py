"""A docstring as Markdown: paragraphs as they are, the sections of Google's style as lists."""
import ast
import re

SECTIONS = {"Args:", "Arguments:", "Returns:", "Raises:", "Yields:", "Attributes:", "Note:", "Example:", "Examples:"}
ROLE = re.compile(r":\w+:`~?([^`]+)`")
ITEM = re.compile(r"^(\*{0,2}[\w.]+)(?: \([^)]*\))?: (.*)$", re.S)


def inline(text):
    """Roles and double backquotes of reStructuredText as Markdown's code."""
    return ROLE.sub(r"`\1`", text).replace("``", "`")


def markdown(node):
    return "\n\n".join(shown(*part) for part in sections(ast.get_docstring(node) or "") if part[1])


def sections(text):
    """(heading or None, lines) of each."""
    heading, lines = None, []
    for line in text.splitlines():
        if line in SECTIONS:
            yield heading, lines
            heading, lines = line, []
        elif heading and line and not line.startswith(" "):
            yield heading, lines
            heading, lines = None, [line]
        else:
            lines.append(line)
    yield heading, lines


def shown(heading, lines):
    if heading is None:
        return inline("\n".join(lines)).strip()
    if heading in ("Returns:", "Yields:", "Note:"):
        return f"**{heading[:-1]}:** {inline(' '.join(line.strip() for line in lines)).strip()}"
    if heading.startswith("Example"):
        return "**Example:**\n\n```pyi\n" + "\n".join(line[4:] for line in lines).strip() + "\n```"
    return f"**{heading[:-1]}:**\n\n" + "\n".join(f"- {entry(item)}" for item in items(lines))


def items(lines):
    """Each begins at the first indentation; what is indented further belongs to the one above."""
    found = []
    for line in filter(str.strip, lines):
        if line.startswith("     ") and found:
            found[-1] += " " + line.strip()
        else:
            found.append(line.strip())
    return found


def entry(text):
    match = ITEM.match(text)
    return f"`{match[1]}`: {inline(match[2])}" if match else inline(text)
