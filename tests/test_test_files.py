"""The tests stand apart from each other and from the inside of the package, so that both can be rearranged."""

import ast
import re
from functools import cache
from pathlib import Path

import memorymark
from support.parsed_files import parsed

TESTS = Path(__file__).parent
PRIVATE = re.compile(r"_(?!_)\w*(?<!_)")
PACKAGE = "memorymark"
# What every named tuple has; the underscore keeps them apart from its fields.
OF_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}


@cache
def parsed_in(folder):
    return {file: parsed(file) for file in sorted(folder.rglob("*.py"))}


def nodes(folder, *kinds):
    """Each node of these kinds, and where it is."""
    for file, tree in parsed_in(folder).items():
        for node in ast.walk(tree):
            if isinstance(node, kinds):
                yield f"{file.relative_to(folder)}:{node.lineno}", node


def is_private(name):
    return PRIVATE.fullmatch(name) is not None and name not in OF_NAMED_TUPLES


@cache
def private_names():
    """What modules, classes and objects of the package keep to themselves."""
    found = set()
    for _, node in nodes(Path(memorymark.__file__).parent, ast.FunctionDef, ast.ClassDef, ast.Name, ast.Attribute):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node.ctx, ast.Store):
            of_self = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
            found |= {node.id} if isinstance(node, ast.Name) else {node.attr} if of_self else set()
    return set(filter(is_private, found))


def test_no_test_imports_from_another_test_file():
    found = []
    for place, node in nodes(TESTS, ast.Import, ast.ImportFrom):
        names = [alias.name for alias in node.names]
        modules = names if isinstance(node, ast.Import) else [node.module or "", *names]
        parts = {part for module in modules for part in module.split(".")}
        if getattr(node, "level", 0) or any(
            part.startswith("test_") or part in ("tests", "conftest") for part in parts
        ):
            found.append(place)

    assert found == [], "what tests share belongs into tests/support"


def names_used(node):
    """Names that may be the package's: imported from it, looked up on an object, or told to monkeypatch."""
    if isinstance(node, ast.ImportFrom):
        return [alias.name for alias in node.names] if (node.module or "").split(".")[0] == PACKAGE else []
    if isinstance(node, ast.Attribute):
        is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        return [] if is_own else [node.attr]
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        by_name = node.args[1:2] if called in ("setattr", "getattr", "delattr", "hasattr", "object") else []
        return [name.value for name in by_name if isinstance(name, ast.Constant)]
    is_path = isinstance(node.value, str) and re.fullmatch(rf"{PACKAGE}(\.\w+)+", node.value)
    return node.value.split(".") if is_path else []


def test_no_test_uses_private_names_of_the_package():
    found = [
        f"{place} {name}"
        for place, node in nodes(TESTS, ast.ImportFrom, ast.Attribute, ast.Call, ast.Constant)
        for name in names_used(node)
        if name in private_names()
    ]

    assert found == [], "use what is public, or make what a test needs public under a good name"
