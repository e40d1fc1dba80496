"""Python files as trees."""

import ast
import gc


def parsed(path):
    """Parses a file.

    Without the garbage collector: what it runs half-way makes CPython 3.11 fail with "AST constructor recursion depth
    mismatch".
    """
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.enable()
