"""The model catalog."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from memorymark.errors import UsageError


@dataclass(frozen=True)
class ModelEntry:
    """One model: the facts of its config, and the shape of the sample it is trained on by default."""

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
    inputs: list[str]
    sample_size: int
    max_sample_size: int

    @property
    def sample_unit(self) -> str:
        """What ``sample_size`` counts: tokens of a sequence or pixels of an image's side."""
        return "tokens" if self.type == "nlp" else "pixels"

    def to_dict(self) -> dict[str, Any]:
        """What the listings show of it."""
        shown = ("id", "name", "description", "type", "huggingface_id", "parameters")
        return {key: getattr(self, key) for key in shown}


@cache
def all_models() -> tuple[ModelEntry, ...]:
    """Every model of the catalog."""
    text = (Path(__file__).parent / "models.json").read_text(encoding="utf-8")
    return tuple(ModelEntry(**facts) for facts in json.loads(text))


def find_model(name: str) -> ModelEntry:
    """The model called ``name``: its short id or its Hugging Face id."""
    by_name = {key.lower(): entry for entry in all_models() for key in (entry.id, entry.huggingface_id)}
    wanted = name.strip().lower()
    if wanted in by_name:
        return by_name[wanted]
    from difflib import get_close_matches

    short = {key: entry.id for key, entry in by_name.items()}
    short |= {key.rpartition("/")[2]: entry.id for key, entry in by_name.items()}
    near = list(dict.fromkeys(short[key] for key in get_close_matches(wanted, short, n=3)))
    known = ", ".join(entry.id for entry in all_models())
    hint = f"did you mean {' or '.join(near)}? The" if near else "the"
    raise UsageError(f"unknown model {name!r}: {hint} models are {known}.")
