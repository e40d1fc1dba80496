"""Interprets model names. Looks only at the name: opens no file that it names and imports nothing."""

from __future__ import annotations

import ast
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal

from memorymark.catalog import ModelEntry, find_model, known_model
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.question.timm_names import SPELLED, is_timm_name, looks_like_timm, timm_names

Kind = Literal["catalog", "config", "hub", "path", "factory", "timm"]
# Endings of files that people give instead of a config; only their first bytes are read, to say what they are.
FILES = (".json", ".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".safetensors", ".gguf", ".onnx", ".h5", ".yaml")
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
LONGEST_PART_OF_HUB_ID = 96
# A branch, tag or commit as git and Hugging Face allow them; it becomes part of a URL and of a path.
REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*", re.ASCII)
LONGEST_REVISION = 200
FACTORY = re.compile(r"(?P<where>[^:()]+):(?P<function>[^:()]*)(?P<arguments>\(.*\))?", re.DOTALL)
MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@dataclass(frozen=True)
class ModelName:
    """A model name and its kind. Paths in ``text`` are absolute, so that it means the same in any process."""

    kind: Kind
    text: str
    entry: ModelEntry | None = None

    @property
    def id(self) -> str:
        """A short name for lists: the catalog's id, a folder's name, ``file.py:factory(64)``."""
        if self.entry is not None:
            return self.entry.id
        if self.kind == "path":
            path = PurePath(self.text)
            return (
                path.parent.name if path.name == "config.json" else path.stem if path.suffix == ".json" else ""
            ) or (path.name or self.text)
        if self.kind == "factory":
            where, colon, rest = self.text.partition(":")
            return PurePath(where).name + colon + rest
        return self.text

    @property
    def runs_code(self) -> bool:
        """Whether building the model runs the caller's code."""
        return self.kind == "factory"

    @property
    def is_of_transformers(self) -> bool:
        """Whether transformers builds it."""
        return self.kind not in ("factory", "timm")

    @property
    def needs_files(self) -> bool:
        """Whether the model is in a local file or folder."""
        return self.kind in ("path", "factory")


@dataclass(frozen=True)
class FactoryCall:
    """The parts of ``where:function(arguments)``; ``where`` is a file or a module."""

    where: str
    function: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]

    @property
    def is_file(self) -> bool:
        """Whether ``where`` is a file, not a module."""
        return self.where.endswith(".py")


def read_name(name: str, *, prefer_hub: bool = False) -> ModelName:
    """Interprets a name; ``prefer_hub`` reads a Hugging Face id as one even if the catalog has the model."""
    text = name.strip()
    is_hub_id = _is_hub_id(text)
    entry = known_model(text)
    if entry is not None and not (is_hub_id and prefer_hub):
        return ModelName("catalog", text, entry)
    if text.startswith("timm:"):
        if not SPELLED.fullmatch(text.removeprefix("timm:")):
            raise _no_name(text, f"{text!r} is not the name of a timm model; write it as in timm:vit_base_patch16_224.")
        return ModelName("timm", text)
    if ":" in text:
        call = read_factory(text)
        return ModelName("factory", str(_absolute(call.where)) + text[len(call.where) :] if call.is_file else text)
    if text.endswith(".py"):
        raise _no_name(
            text, f"{text} is a program; add the function that makes the workload, as in {text}:make_workload."
        )
    if _looks_like_a_path(text):
        return ModelName("path", str(_absolute(text)))
    if is_hub_id:
        return ModelName("hub", text)
    if is_timm_name(text):
        return ModelName("timm", f"timm:{text}")
    if not timm_names() and looks_like_timm(text):
        raise UsageError(
            f"{text!r} is not in the catalog; if it is a timm model, install timm with "
            "`pip install 'memorymark[timm]'`.",
            code="unknown_model",
            field="model",
            given=text,
        )
    find_model(text, others=(f"timm:{name}" for name in timm_names()))  # raises, with suggestions
    raise AssertionError(text)


def check_revision(revision: str) -> None:
    """Raises if ``revision`` is not a branch, tag or commit; libraries join it to paths."""
    is_one = REVISION.fullmatch(revision) is not None and len(revision) <= LONGEST_REVISION
    parts = revision.split("/")
    if not is_one or ".." in revision or any(part.endswith((".lock", ".")) for part in parts):
        raise UsageError(
            Message("{revision} must be the name of a branch or a tag, or a commit, as in main or v1.0."),
            code="malformed",
            field="revision",
        )


def _is_hub_id(text: str) -> bool:
    return (
        HUB_ID.fullmatch(text) is not None
        and not text.endswith(FILES)
        and ".." not in text
        and "--" not in text
        and all(len(part) <= LONGEST_PART_OF_HUB_ID for part in text.split("/"))
    )


def read_factory(text: str) -> FactoryCall:
    """Parses a call such as ``file.py:make(64, hidden=128)``, whose arguments must be plain values."""
    parts = FACTORY.fullmatch(text)
    if parts is None or not (parts["where"].endswith(".py") or MODULE.fullmatch(parts["where"])):
        raise _no_name(
            text, f"{text!r} is not a model; write your own workload as file.py:function or package.module:function."
        )
    if not parts["function"].isidentifier():
        raise _no_name(text, f"{text!r} does not name a function; write it as in {parts['where']}:make_workload.")
    try:
        call = ast.parse(f"f{parts['arguments'] or '()'}", mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            raise ValueError  # noqa: TRY301, TRY004 - reported below, like every other fault of the arguments
        arguments = tuple(ast.literal_eval(argument) for argument in call.args)
        named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg is not None}
        if len(named) < len(call.keywords):
            raise ValueError  # noqa: TRY301
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise _no_name(
            text,
            f"the arguments of {parts['function']}{parts['arguments']} must be plain values, as in (64, hidden=128).",
        ) from None
    return FactoryCall(parts["where"], parts["function"], arguments, named)


def _no_name(text: str, sentence: str) -> UsageError:
    return UsageError(sentence, code="malformed", field="model", given=text)


def short_id(name: str) -> str:
    """Returns the id under which the history stores a model; an unknown name stays the same."""
    try:
        return read_name(name).id
    except UsageError:
        return name.strip()


def _looks_like_a_path(text: str) -> bool:
    return (
        text.startswith(("/", "./", "../", "~"))
        or text in (".", "..")
        or text.endswith(("/", *FILES))
        or text.count("/") > 1
        or "\\" in text
    )


def _absolute(path: str) -> Path:
    with suppress(RuntimeError):  # no home
        path = str(Path(path).expanduser())
    return Path(os.path.normpath(Path(path).absolute()))
