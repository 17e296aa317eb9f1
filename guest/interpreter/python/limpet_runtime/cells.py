"""Compiling a cell by way of its syntax tree: slower than the split in C, and always right."""

from limpet_runtime import library


def is_semicolon_next(text):
    """Past what may stand between the end of an expression and the semicolon that asks for no result."""
    while text := text.lstrip(b" \t\n\r\f\v)\\"):
        if not text.startswith(b"#"):
            return text.startswith(b";")
        text = text.partition(b"\n")[2]
    return False


def is_quiet(source, expression):
    lines = source.encode("utf-8", "surrogatepass").split(b"\n")
    rest = lines[expression.end_lineno - 1 :]
    rest[0] = rest[0][expression.end_col_offset :]
    return is_semicolon_next(b"\n".join(rest))


def compile_cell(source, filename, flags):
    """(head, tail): tail is the code of a last expression whose value is wanted, or None."""
    with library.Library():
        import _ast
    tree = compile(source, filename, "exec", flags | _ast.PyCF_ONLY_AST, dont_inherit=True)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, _ast.Expr) or is_quiet(source, last.value):
        return compile(tree, filename, "exec", flags, dont_inherit=True), None
    tail = _ast.Expression(last.value)
    del tree.body[-1]
    head = compile(tree, filename, "exec", flags, dont_inherit=True) if tree.body else None
    return head, compile(tail, filename, "eval", flags, dont_inherit=True)
