"""Runs blocks of Python; a comment beside an expression that is a value must be the value of the expression."""

import ast
import io
import re
import tokenize
from contextlib import redirect_stdout


def complaints_about(code, place, namespace):
    """Runs a block in a namespace and yields how the values in its comments differ from what came out."""
    claims = values_in_comments(code)
    for statement in ast.parse(code, place).body:
        said = io.StringIO()
        with redirect_stdout(said):
            if not isinstance(statement, ast.Expr):
                exec(compile(ast.Module([statement], []), place, "exec"), namespace)
                continue
            value = eval(compile(ast.Expression(statement.value), place, "eval"), namespace)
        got = said.getvalue().strip() if value is None else repr(value)
        claim = claims.get(statement.end_lineno)
        if claim is not None and not re.fullmatch(re.escape(claim).replace(r"\.\.\.", ".*"), got):
            yield f"{place}, line {statement.end_lineno} of the block: says {claim}, is {got}"


def values_in_comments(code):
    """The comments that are values, by line; ``...`` in one stands for anything, as in ``(413, 1.94...)``."""
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    return {line: text for line, text in comments.items() if _is_value(text)}


def _is_value(text):
    try:
        ast.literal_eval(text.replace("...", ""))
    except (SyntaxError, ValueError):
        return False
    return True
