"""Reads the axes of a grid: from a YAML file, every value with its line, or from flags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memorymark.checks.options import unknown_option
from memorymark.errors import UsageError
from memorymark.messages import Dialect
from memorymark.sweep.axes import MEASURE, RECIPE, VARYING, Axes, Axis, Given
from memorymark.sweep.mistakes import Mistake, SweepRefusedError

IN_A_FILE: Dialect = "file"
LARGEST_FILE_BYTES = 1 << 20
UNKNOWN = "`memorymark sweep --help` lists the options; a file names them without dashes, as in seq_len"


def read_file(path: Path) -> Axes:
    """Reads a file; raises one error with every line that cannot be read."""
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise UsageError(f"{path} is larger than 1 MiB, so it is no sweep.", field="file", given=path)
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"{path} cannot be read: {why}.", code="not_readable", field="file", given=path) from None
    return read_text(text, str(path))


def read_text(text: str, source: str) -> Axes:
    """Reads a document; ``source`` is what errors call it."""
    import yaml

    mistakes: list[Mistake] = []
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise SweepRefusedError(source, [Mistake(line, f"this is not YAML: {error.problem}.")]) from None
    except yaml.YAMLError as error:
        raise SweepRefusedError(source, [Mistake(1, f"this is not YAML: {str(error).splitlines()[0]}.")]) from None
    if not isinstance(root, yaml.MappingNode):
        raise SweepRefusedError(source, [Mistake(1, "a sweep is lines such as `model: [bert, gpt2]`.")])
    document = _Document(loader, mistakes)
    axes, measure = document.axes(root)
    if mistakes:
        raise SweepRefusedError(source, mistakes, readable=Axes(tuple(axes)))
    return Axes(tuple(axes), measure)


class _Document:
    """Reads nodes, which know their lines."""

    def __init__(self, loader: Any, mistakes: list[Mistake]) -> None:
        self._loader, self._mistakes = loader, mistakes

    def axes(self, root: Any) -> tuple[list[Axis], bool]:
        """Returns the axes, and whether to measure."""
        found, measure = [], False
        for name, line, node in self._pairs(root):
            if name == MEASURE:
                value = self._value(node)
                if not isinstance(value, bool):
                    self._say(node, "measure is true or false.", MEASURE)
                measure = value is True
            elif self._is_known(name, line, (*VARYING, RECIPE, MEASURE), self._value(node)):
                entries = tuple(self._entries(name, node))
                if entries:
                    found.append(Axis(name, line, entries))
                elif node.value == []:
                    self._mistakes.append(Mistake(line, f"{name} has no values; give one, or drop the line.", name))
        self._refuse_repeated(found)
        return found, measure

    def _entries(self, name: str, node: Any) -> Iterator[dict[str, Given]]:
        import yaml

        several = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for one in several:
            if isinstance(one, yaml.MappingNode):
                yield from self._together(name, one)
            elif isinstance(one, yaml.SequenceNode):
                self._say(one, f"{name} has a list in a list; write each value of its own.", name)
            elif name == RECIPE:
                self._say(one, "each recipe sets options, as in `- {precision: bf16, lora: 16}`.", name)
            else:
                yield {name: Given(self._value(one), _line(one))}

    def _together(self, axis: str, node: Any) -> Iterator[dict[str, Given]]:
        """Yields an entry that sets several options at once."""
        entry: dict[str, Given] = {}
        for name, line, value in self._pairs(node):
            if not self._is_known(name, line, VARYING, self._value(value)):
                continue
            if not hasattr(value, "value") or isinstance(value.value, list):
                self._say(value, f"here, {name} takes one value.", name)
                continue
            entry[name] = Given(self._value(value), _line(value))
        if axis not in (RECIPE, *entry):
            self._say(node, f"an entry of {axis} with several options names its {axis}, too.", axis)
        else:
            yield entry

    def _pairs(self, node: Any) -> Iterator[tuple[str, int, Any]]:
        seen: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(self._value(key)), _line(key)
            if name in seen:
                self._mistakes.append(Mistake(line, f"{name} is already in line {seen[name]}; join them.", name))
                continue
            seen[name] = line
            yield name, line, value

    def _value(self, node: Any) -> Any:
        import yaml

        try:
            return self._loader.construct_object(node, deep=True)
        except yaml.YAMLError as error:
            self._say(node, f"this cannot be read: {getattr(error, 'problem', error)}.")
            return None

    def _is_known(self, name: str, line: int, known: tuple[str, ...], value: Any) -> bool:
        if name in known:
            return True
        error = unknown_option(name, value, known, UNKNOWN)
        self._mistakes.append(Mistake(line, error.said_in(IN_A_FILE), name))
        return False

    def _refuse_repeated(self, axes: list[Axis]) -> None:
        """Notes options that two axes set."""
        lines: dict[str, tuple[str, int]] = {}
        for axis in axes:
            for name, given in {name: one for entry in axis.entries for name, one in entry.items()}.items():
                if name in lines and lines[name][0] != axis.name:
                    said = f"{name} is set here and in line {lines[name][1]}; set it in one place."
                    self._mistakes.append(Mistake(given.line, said, name))
                lines.setdefault(name, (axis.name, given.line))

    def _say(self, node: Any, sentence: str, field: str = "") -> None:
        self._mistakes.append(Mistake(_line(node), sentence, field))


def _line(node: Any) -> int:
    line: int = node.start_mark.line
    return line + 1


def of_flags(given: Mapping[str, str | bool]) -> list[Axis]:
    """Returns the axes that flags set, each a value or several with commas between."""
    return [
        Axis(name, 0, tuple({name: Given(_plain(part), 0)} for part in _parts(value))) for name, value in given.items()
    ]


def _parts(value: str | bool) -> list[str | bool]:
    """Splits at commas, but not inside the parentheses of a function's arguments."""
    if isinstance(value, bool):
        return [value]
    parts, depth = [""], 0
    for sign in value:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def _plain(part: str | bool) -> Any:
    """Returns numbers as numbers; everything else stays text."""
    if isinstance(part, bool):
        return part
    for number in (int, float):
        try:
            return number(part)
        except ValueError:
            continue
    return part
