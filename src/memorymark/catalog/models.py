"""The model catalog."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from memorymark.catalog.tasks import TASKS, SampleUnit
from memorymark.checks.nearest import did_you_mean, letters, nearest
from memorymark.checks.types import shown
from memorymark.documents import LEFT_OUT, Document, in_document
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.suggestions import meant

FOLDER = Path(__file__).parent / "architectures"
# The order of listings.
FILES = ("encoders", "decoders", "mixtures", "encoder_decoders", "vision", "audio", "multimodal")

EXAMPLES = ("bert", "gpt2", "resnet")

# Loose spellings of a catalog name; excludes paths and Hugging Face ids.
LOOSE = re.compile(r"[A-Za-z0-9][\w .-]*", re.ASCII)


@dataclass(frozen=True)
class ModelEntry(Document):
    """One model: the facts of its config, and the shape of the sample it is trained on by default."""

    id: str
    """What it is called in questions."""
    name: str
    """Its name for people."""
    description: str
    """What it is, in a few words."""
    type: str
    """The group it is listed in."""
    huggingface_id: str
    """Its id on Hugging Face, by which it is found too."""
    parameters: int
    """How many parameters it has."""
    family: str = field(metadata=LEFT_OUT)
    task: str
    """The id of the task it is trained for by default."""
    config: dict[str, Any] = field(metadata=LEFT_OUT)
    small_config: dict[str, Any] = field(metadata=LEFT_OUT)
    sample_size: int
    """The default size of a sample in ``sample_unit``: tokens, pixels of a side, or seconds."""
    max_sample_size: int
    """The largest size of a sample in that unit."""

    @property
    @in_document
    def sample_unit(self) -> SampleUnit:
        """What ``sample_size`` counts."""
        return TASKS[self.task].sample_unit


@cache
def all_models() -> tuple[ModelEntry, ...]:
    """Returns every model of the catalog."""
    texts = ((FOLDER / f"{name}.json").read_text(encoding="utf-8") for name in FILES)
    return tuple(ModelEntry(**facts) for text in texts for facts in json.loads(text))


@cache
def _by_name() -> dict[str, ModelEntry]:
    """Returns entries by id and by Hugging Face id; if two entries share the latter, the first wins."""
    found = {entry.id: entry for entry in all_models()}
    for entry in all_models():
        found.setdefault(entry.huggingface_id.lower(), entry)
    return found


@cache
def _by_letters() -> dict[str, ModelEntry]:
    """Returns entries by the letters of their ids and Hugging Face names: resnet50, bert_base_uncased, GPT-2."""
    found: dict[str, ModelEntry] = {}
    for name, entry in _by_name().items():
        found.setdefault(letters(name.rpartition("/")[2]), entry)
    return found


def known_model(name: str) -> ModelEntry | None:
    """Returns the model with this id or Hugging Face id, or ``None`` if the catalog has none.

    Ignores case, punctuation and the owner on Hugging Face: ``resnet50`` is ``microsoft/resnet-50``.
    """
    text = name.strip().lower()
    return _by_name().get(text) or (_by_letters().get(letters(text)) if LOOSE.fullmatch(text) else None)


def find_model(name: str, others: Iterable[str] = ()) -> ModelEntry:
    """Returns the model with this name; raises with suggestions if the catalog has none.

    ``others`` are names of models outside the catalog, which may be suggested too.
    """
    entry = known_model(name)
    if entry is not None:
        return entry
    named = {key.rpartition("/")[2]: entry.id for key, entry in _by_name().items()}
    near = nearest(name, {**{other: other for other in others}, **named})
    raise UsageError(
        Message(
            "unknown model {name}: {hint}{list.models} lists all; or give a Hugging Face id (org/name), a folder "
            "(./folder) or your own function (file.py:function).",
            name=shown(name),
            hint=did_you_mean(near) or f"try {some_models()}. ",
        ),
        code="unknown_model",
        field="model",
        given=name,
        proposals=meant("model", near),
    )


def some_models() -> str:
    """Returns a few ids as examples."""
    first, second, third = (entry.id for entry in all_models() if entry.id in EXAMPLES)
    return f"{first}, {second} or {third}"
