"""The model catalog."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from memorymark.errors import UsageError
from memorymark.models.tasks import TASKS

FOLDER = Path(__file__).parent / "architectures"
# The order of listings.
FILES = ("encoders", "decoders", "encoder_decoders", "vision", "audio", "multimodal")

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

# How alike two names must be for the one to be meant by the other, and how much less than the most alike one.
LIKENESS, CLOSE_TO_BEST = 0.6, 0.1


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


def known_model(name: str) -> ModelEntry | None:
    """The model called ``name``, its short id or its Hugging Face id; ``None`` if the catalog has none."""
    return _by_name().get(name.strip().lower())


def find_model(name: str) -> ModelEntry:
    """The same, but a name that is not there is an error that says what may have been meant."""
    entry = known_model(name)
    if entry is not None:
        return entry
    near = _near(name)
    known = ", ".join(entry.id for entry in all_models())
    hint = f"did you mean {' or '.join(near)}? The" if near else "the"
    raise UsageError(
        f"unknown model {name!r}: {hint} models are {known}; or give a Hugging Face id (org/name), "
        "a folder (./folder) or a function of yours (file.py:function)."
    )


def _near(name: str) -> list[str]:
    """The ids that may have been meant: the one that differs in signs only, or else those that look most alike."""
    from difflib import SequenceMatcher

    short = {key: entry.id for key, entry in _by_name().items()}
    for key, entry in _by_name().items():
        short.setdefault(key.rpartition("/")[2], entry.id)
    wanted = name.strip().lower()
    for key, model in short.items():
        if _letters(key) == _letters(wanted):
            return [model]
    alike = {key: SequenceMatcher(None, wanted, key).ratio() for key in short}
    best = max(alike.values())
    near = [key for key, ratio in alike.items() if ratio >= max(LIKENESS, best - CLOSE_TO_BEST)]
    return list(dict.fromkeys(short[key] for key in sorted(near, key=lambda key: -alike[key])))[:3]


def _letters(name: str) -> str:
    return "".join(sign for sign in name if sign.isalnum())
