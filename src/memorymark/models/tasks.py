"""What a model can be trained for, and how a sample of it is counted. Pure data, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memorymark.choices import Choice
from memorymark.errors import UsageError

# The option of the command line that sets each size of a sample.
OPTIONS = {"tokens": "--seq-len", "pixels": "--image-size", "seconds": "--audio-seconds"}

# Beyond what anybody trains on: 16 million tokens, an image of a gigapixel, ten hours.
LARGEST_SAMPLE = {"tokens": 2**24, "pixels": 2**15, "seconds": 36_000}


@dataclass(frozen=True)
class Task:
    """A head of transformers.

    ``units`` are what a sample is counted in, the one that matters most first; ``size`` is how much of that one is
    usual where nothing better is known, and ``small_size`` how much a stand-in takes.
    """

    id: str
    title: str
    auto_class: str
    units: tuple[str, ...]
    size: int
    small_size: int = 64

    def to_dict(self) -> dict[str, Any]:
        """What the listings show of it."""
        return {"id": self.id, "title": self.title, "sample_unit": self.units[0], "sample_size": self.size}


TASKS = {
    task.id: task
    for task in (
        Task("causal-lm", "language models", "AutoModelForCausalLM", ("tokens",), 1024),
        Task("sequence-classification", "classifiers", "AutoModelForSequenceClassification", ("tokens",), 128),
        Task("token-classification", "taggers", "AutoModelForTokenClassification", ("tokens",), 128),
        Task("question-answering", "question answering", "AutoModelForQuestionAnswering", ("tokens",), 384),
        Task("masked-lm", "masked language models", "AutoModelForMaskedLM", ("tokens",), 128),
        Task("seq2seq-lm", "encoder-decoders", "AutoModelForSeq2SeqLM", ("tokens",), 256),
        Task("image-classification", "image classifiers", "AutoModelForImageClassification", ("pixels",), 224),
        Task("audio-classification", "sound classifiers", "AutoModelForAudioClassification", ("seconds",), 5, 1),
        Task("ctc", "speech to text, CTC", "AutoModelForCTC", ("seconds",), 5, 1),
        Task("speech-seq2seq", "speech to text", "AutoModelForSpeechSeq2Seq", ("tokens",), 128, 16),
        Task(
            "contrastive", "images and texts", "AutoModelForZeroShotImageClassification", ("tokens", "pixels"), 64, 16
        ),
        Task("image-text-to-text", "images to text", "AutoModelForImageTextToText", ("tokens", "pixels"), 128, 32),
    )
}

# Many models for these choose their loss by ``config.problem_type``, and set it in their first step if nobody has.
TELLS_PROBLEM_TYPE = ("sequence-classification", "image-classification", "audio-classification")


def find_task(name: str) -> Task:
    """The task called so, whatever the case and the signs: ``causal_lm`` is ``causal-lm``."""
    return TASKS[Choice("task", tuple(TASKS)).read(name)]


def check_sample_size(unit: str, size: int) -> None:
    """Refuses sizes that no sample has, whatever the model."""
    if not 1 <= size <= LARGEST_SAMPLE[unit]:
        raise UsageError(f"{OPTIONS[unit]} must be 1 to {LARGEST_SAMPLE[unit]}, not {size}.")


def check_sizes(model: str, task: Task, asked: dict[str, int | None], largest: dict[str, int]) -> None:
    """Refuses sizes that a sample of the task does not have, or that the model does not take."""
    for unit, size in asked.items():
        if size is None:
            continue
        if unit not in task.units:
            counted = " and ".join(task.units)
            raise UsageError(
                f"{OPTIONS[unit]} does not apply to {model}, whose samples are counted in {counted}; drop it."
            )
        limit = largest.get(unit) or LARGEST_SAMPLE[unit]
        if not 1 <= size <= limit:
            raise UsageError(f"{model} takes 1 to {limit} {unit}; {OPTIONS[unit]} {size} is outside of that.")
