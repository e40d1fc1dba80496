"""The three ways in which people fine-tune a language model, and how far each goes on a GPU. Pure, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from memorymark.documents import Record, in_document
from memorymark.results.option import TrainingOption

FamilyId = Literal["full", "lora", "qlora"]
# Each takes less memory than the one before.
FAMILY_IDS: tuple[FamilyId, ...] = get_args(FamilyId)
TITLES: dict[FamilyId, str] = {"full": "full", "lora": "LoRA", "qlora": "QLoRA"}


@dataclass(frozen=True, kw_only=True)
class Family(Record):
    """One way to fine-tune: all weights, adapters, or adapters on 4-bit weights."""

    id: FamilyId
    """Which of them it is."""
    option: TrainingOption | None = None
    """The least change of today's recipe with which it fits, its largest batch included; null if none was found."""
    longest_seq_len: int | None = None
    """The longest sequence that is predicted to fit at batch 1 with the margin free; null if none was looked for."""
    why_not: str = ""
    """Why no option was found; empty if one was."""

    @property
    @in_document
    def title(self) -> str:
        """Its name for people."""
        return TITLES[self.id]
