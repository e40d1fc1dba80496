"""The model catalog."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from memorymark.errors import UsageError
from memorymark.models.tasks import TASKS
from memorymark.nearest import did_you_mean, letters, nearest
from memorymark.type_checks import shown

FOLDER = Path(__file__).parent / "architectures"
# The order of listings.
FILES = ("encoders", "decoders", "encoder_decoders", "vision", "audio", "multimodal")

EXAMPLES = ("bert", "gpt2", "resnet")
LISTED = (
    "id",
    "name",
    "description",
    "type",
    "huggingface_id",
    "parameters",
    "task",
    "sample_unit",
    "sample_size",
    "max_sample_size",
)

# How a model may be written that is not spelled exactly as in the catalog: no path, no Hugging Face id.
LOOSE = re.compile(r"[A-Za-z0-9][\w .-]*", re.ASCII)


@dataclass(frozen=True)
class ModelEntry:
    """One model: the facts of its config, and the shape of the sample it is trained on by default.

    ``sample_size`` is in what samples of the task are counted in first: tokens, pixels of a side, or seconds.
    """

    id: str
    name: str
    description: str
    type: str
    huggingface_id: str
    parameters: int
    family: str
    task: str
    config: dict[str, Any]
    small_config: dict[str, Any]
    sample_size: int
    max_sample_size: int

    @property
    def sample_unit(self) -> str:
        """What ``sample_size`` counts."""
        return TASKS[self.task].units[0]

    def to_dict(self) -> dict[str, Any]:
        """What the listings show of it."""
        return {key: getattr(self, key) for key in LISTED}


@cache
def all_models() -> tuple[ModelEntry, ...]:
    """Every model of the catalog."""
    texts = ((FOLDER / f"{name}.json").read_text(encoding="utf-8") for name in FILES)
    return tuple(ModelEntry(**facts) for text in texts for facts in json.loads(text))


@cache
def _by_name() -> dict[str, ModelEntry]:
    """Entries by id and by Hugging Face id; where two share the latter, the first has it."""
    found = {entry.id: entry for entry in all_models()}
    for entry in all_models():
        found.setdefault(entry.huggingface_id.lower(), entry)
    return found


@cache
def _by_letters() -> dict[str, ModelEntry]:
    """Entries by the letters of their ids, and of their names on Hugging Face: resnet50, bert_base_uncased, GPT-2."""
    found: dict[str, ModelEntry] = {}
    for name, entry in _by_name().items():
        found.setdefault(letters(name.rpartition("/")[2]), entry)
    return found


def known_model(name: str) -> ModelEntry | None:
    """The model called ``name``, its short id or its Hugging Face id; ``None`` if the catalog has none.

    Case and signs do not matter, nor does who has it on Hugging Face: ``resnet50`` is ``microsoft/resnet-50``.
    """
    text = name.strip().lower()
    return _by_name().get(text) or (_by_letters().get(letters(text)) if LOOSE.fullmatch(text) else None)


def find_model(name: str, others: Iterable[str] = ()) -> ModelEntry:
    """The same, but a name that is not there is an error that says what may have been meant.

    ``others`` are names that mean a model and are not of the catalog.
    """
    entry = known_model(name)
    if entry is not None:
        return entry
    named = {key.rpartition("/")[2]: entry.id for key, entry in _by_name().items()}
    hint = did_you_mean(nearest(name, {**{other: other for other in others}, **named})) or f"try {some_models()}. "
    raise UsageError(
        f"unknown model {shown(name)}: {hint}`memorymark models` lists all; or give a Hugging Face id (org/name), "
        "a folder (./folder) or a function of yours (file.py:function)."
    )


def some_models() -> str:
    """A few ids as examples."""
    first, second, third = (entry.id for entry in all_models() if entry.id in EXAMPLES)
    return f"{first}, {second} or {third}"
