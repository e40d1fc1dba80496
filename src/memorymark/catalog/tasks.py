"""The tasks that models can be trained for, and the units of their samples. Pure data, no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, cast

from memorymark.checks.choices import Choice
from memorymark.documents import LEFT_OUT, Document, in_document
from memorymark.errors import UsageError
from memorymark.messages import Message, OptionName
from memorymark.suggestions import without

SampleUnit = Literal["tokens", "pixels", "seconds"]
# The option that sets each size of a sample.
OPTIONS = {"tokens": "seq_len", "pixels": "image_size", "seconds": "audio_seconds"}

# The units of samples that are nothing but text.
TEXT = ("tokens",)

# More than anybody trains on: 16 million tokens, a gigapixel image, ten hours.
LARGEST_SAMPLE = {"tokens": 2**24, "pixels": 2**15, "seconds": 36_000}


@dataclass(frozen=True)
class Task(Document):
    """A task with its model head in transformers.

    ``units`` are the units of a sample, the most important first. ``size`` is the default size in that unit, and
    ``small_size`` the default for a stand-in. A sample has ``sequences`` of that size: two if it is a pair of texts, of
    which one is preferred. ``trainer`` is the TRL trainer that takes the step; empty if none does.
    """

    id: str
    """What it is called in questions."""
    title: str
    """Its name for people."""
    auto_class: str = field(metadata=LEFT_OUT)
    units: tuple[str, ...] = field(metadata=LEFT_OUT)
    size: int = field(metadata=LEFT_OUT)
    small_size: int = field(default=64, metadata=LEFT_OUT)
    sequences: int = field(default=1, metadata=LEFT_OUT, kw_only=True)
    trainer: str = field(default="", metadata=LEFT_OUT, kw_only=True)

    @property
    @in_document
    def sample_unit(self) -> SampleUnit:
        """The unit of a sample's size."""
        return cast("SampleUnit", self.units[0])

    @property
    @in_document
    def sample_size(self) -> int:
        """The default size of a sample, if the model has none."""
        return self.size


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
        Task("multiple-choice", "multiple choice", "AutoModelForMultipleChoice", ("tokens",), 128, sequences=4),
        Task("object-detection", "detectors", "AutoModelForObjectDetection", ("pixels",), 640),
        Task("semantic-segmentation", "segmentation", "AutoModelForSemanticSegmentation", ("pixels",), 512),
        Task("universal-segmentation", "segmentation by masks", "AutoModelForUniversalSegmentation", ("pixels",), 512),
        Task("depth-estimation", "depth estimation", "AutoModelForDepthEstimation", ("pixels",), 384),
        Task("masked-image-modeling", "masked images", "AutoModelForMaskedImageModeling", ("pixels",), 224),
        Task("video-classification", "video classifiers", "AutoModelForVideoClassification", ("pixels",), 224),
        Task(
            "visual-question-answering",
            "questions about images",
            "AutoModelForVisualQuestionAnswering",
            ("tokens", "pixels"),
            32,
            16,
        ),
        Task(
            "audio-frame-classification",
            "classes over time",
            "AutoModelForAudioFrameClassification",
            ("seconds",),
            5,
            1,
        ),
        Task("audio-xvector", "speakers", "AutoModelForAudioXVector", ("seconds",), 5, 1),
        Task("sft", "supervised fine-tuning", "AutoModelForCausalLM", ("tokens",), 1024, trainer="SFTTrainer"),
        Task(
            "reward",
            "reward models, on pairs",
            "AutoModelForSequenceClassification",
            ("tokens",),
            1024,
            sequences=2,
            trainer="RewardTrainer",
        ),
        Task(
            "dpo",
            "direct preference optimization, on pairs",
            "AutoModelForCausalLM",
            ("tokens",),
            1024,
            sequences=2,
            trainer="DPOTrainer",
        ),
        Task(
            "grpo",
            "group relative policy optimization, on completions",
            "AutoModelForCausalLM",
            ("tokens",),
            1024,
            trainer="GRPOTrainer",
        ),
    )
}

# Tasks whose models write text, and whose loss is that of a causal language model.
NEXT_TOKEN = ("causal-lm", "sft")

# Tasks that fine-tune large language models.
LANGUAGE_MODELS = (*NEXT_TOKEN, "reward", "dpo", "grpo")

# Tasks whose loss is computed outside the model.
LOSS_OUTSIDE = ("contrastive", "depth-estimation", "reward", "dpo", "grpo")

# Tasks that make a model answer: the first half of each text is the prompt, unless the caller says how long it is.
ANSWERING = ("sft", "dpo", "grpo")

# Tasks whose models generate what they are then trained on.
GENERATING = ("grpo",)

# Tasks that compare a model with a frozen reference, unless told otherwise.
COMPARING = ("dpo",)

# Tasks whose trainers turn dropout off.
WITHOUT_DROPOUT = ("reward", "dpo")

# Many models for these tasks choose their loss by ``config.problem_type``, and set it in their first step if unset.
TELLS_PROBLEM_TYPE = ("sequence-classification", "image-classification", "audio-classification")


def prompt_tokens(tokens: int) -> int:
    """Returns how many of a text's tokens are its prompt; the others are the answer."""
    return tokens // 2


def find_task(name: str) -> Task:
    """Returns the task with this name, ignoring case and punctuation: ``causal_lm`` is ``causal-lm``."""
    return TASKS[Choice("task", tuple(TASKS)).read(name)]


def check_sample_size(unit: str, size: int) -> None:
    """Raises on sizes that are out of range for any model."""
    if not 1 <= size <= LARGEST_SAMPLE[unit]:
        most = LARGEST_SAMPLE[unit]
        raise UsageError(
            Message(
                "{option} must be 1 to {most}, not {size}.", option=OptionName(OPTIONS[unit]), most=most, size=size
            ),
            code="out_of_range",
            field=OPTIONS[unit],
            given=size,
            allowed={"minimum": 1, "maximum": most},
        )


def check_sizes(model: str, task: Task, asked: dict[str, int | None], largest: dict[str, int]) -> None:
    """Raises on sizes in units that the task's samples do not have, or that the model does not take."""
    for unit, size in asked.items():
        if size is None:
            continue
        if unit not in task.units:
            raise UsageError(
                Message(
                    "{option} does not apply to {model}, whose samples are counted in {counted}; drop it.",
                    option=OptionName(OPTIONS[unit]),
                    model=model,
                    counted=" and ".join(task.units),
                ),
                code="not_applicable",
                field=OPTIONS[unit],
                given=size,
                proposals=[without(OPTIONS[unit])],
            )
        limit = largest.get(unit) or LARGEST_SAMPLE[unit]
        if not 1 <= size <= limit:
            raise UsageError(
                Message(
                    "{model} takes 1 to {limit} {unit}; {option:{size}} is out of range.",
                    model=model,
                    limit=limit,
                    unit=unit,
                    option=OptionName(OPTIONS[unit]),
                    size=size,
                ),
                code="out_of_range",
                field=OPTIONS[unit],
                given=size,
                allowed={"minimum": 1, "maximum": limit},
            )
