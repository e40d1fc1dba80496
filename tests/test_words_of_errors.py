"""No sentence is written in the terms of one reader, and none is read back: errors are data until the very end."""

import ast
import re
from pathlib import Path

import pytest

import memorymark
from memorymark import errors
from memorymark.errors import MemoryMarkError
from support.parsed_files import parsed

SOURCE = Path(memorymark.__file__).parent
# The command line speaks of its own flags.
OF_THE_COMMAND_LINE = SOURCE / "cli"
KINDS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, MemoryMarkError)}
CALLS = KINDS | {"Message"}
SEARCHES = ("partition", "rpartition", "split", "startswith", "endswith", "find", "replace", "removesuffix")
MODULES = sorted(path for path in SOURCE.rglob("*.py") if OF_THE_COMMAND_LINE not in path.parents)


def words_of_errors(path):
    """The strings that a module hands to errors and messages, directly or inside of other expressions."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and called(node) in CALLS):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


def called(call):
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_errors_name_no_option_in_the_terms_of_one_reader(path):
    """``--margin`` is the command line's and ``margin=`` Python's; ``{margin}`` is said to each in their own."""
    flags = [(line, text) for line, text in words_of_errors(path) if re.search(r"(?<![\w-])--[a-z]", text)]
    listings = [(line, text) for line, text in words_of_errors(path) if re.search(r"`memorymark (models|gpus)`", text)]

    assert flags == []
    assert listings == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_templates_are_written_out(path):
    """What users give goes into the values: in a template, their braces would be places for options."""
    calls = [call for call in ast.walk(parsed(path)) if isinstance(call, ast.Call) and called(call) == "Message"]

    assert [call.lineno for call in calls if isinstance(call.args[0], ast.JoinedStr)] == []


def test_no_sentence_of_an_error_is_searched():
    """Whoever branches on what is wrong has the code, the field and the hint."""

    def is_sentence(node):
        said = isinstance(node, ast.Call) and called(node) == "said_in"
        return said or (isinstance(node, ast.Attribute) and node.attr in ("sentence", "reason"))

    def is_search(node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return node.func.attr in SEARCHES and is_sentence(node.func.value)
        return isinstance(node, ast.Compare) and any(map(is_sentence, node.comparators))

    searched = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(parsed(path))
        if is_search(node)
    ]
    assert searched == []
