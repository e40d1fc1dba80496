"""Makes the tensors that batches are put together from. Worker side: imports torch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from memorymark.catalog.tasks import Task

if TYPE_CHECKING:
    import torch
    from torch import Tensor

CODE_POINTS = 0xD800
"""The tokens of models without a vocabulary, which read characters: all before those that stand for none."""
# The label of a token that does not count.
IGNORED = -100
SPECTRA_PER_SECOND = 100


@dataclass(frozen=True)
class Shape:
    """The size of a sample, in the task's units."""

    tokens: int = 0
    pixels: int = 0
    seconds: int = 0
    completion_tokens: int = 0

    def sizes(self, task: Task) -> dict[str, int]:
        """Returns the size by unit, for the units of the task."""
        return {unit: getattr(self, unit) for unit in task.units}

    def describe(self, task: Task, mean_tokens: int = 0) -> str:
        """Returns the size in words: ``128 tokens``, ``77 tokens, 224 pixels``; of a packed row if a mean is given."""
        if mean_tokens:
            return f"rows of {self.tokens} tokens, packed with samples of {mean_tokens}"
        if self.completion_tokens:
            prompt = self.tokens - self.completion_tokens
            return f"a completion of {self.completion_tokens} tokens after a prompt of {prompt}"
        words = [f"{size} {unit[:-1] if size == 1 else unit}" for unit, size in self.sizes(task).items()]
        if task.sequences > 1:
            several = "a pair" if task.sequences == 2 else f"{task.sequences} choices"
            words[0] = f"{several} of {words[0]} each"
        if task.id in ("object-detection", "universal-segmentation"):
            words.append("1 object")
        if task.id == "speech-seq2seq":
            words.insert(0, f"{self.seconds} s of sound")
        return ", ".join(words)


def text_config(config: Any) -> Any:
    """Returns the part of a config that describes text."""
    if not hasattr(config, "get_text_config"):
        return config
    try:
        return config.get_text_config()
    except ValueError:  # one that reads and one that writes
        return config.get_text_config(decoder=True)


def image_config(config: Any) -> Any:
    """Returns the part of a config that describes images."""
    part = getattr(config, "vision_config", None) or getattr(config, "encoder", None)
    return config if part is None or isinstance(part, str) else part


@dataclass(frozen=True)
class Maker:
    """Makes the tensors of one batch."""

    config: Any
    task: Task
    arguments: set[str]
    shape: Shape
    size: int
    device: torch.device

    def words(self, *shape: int) -> Tensor:
        """Returns random tokens without any special ones, such as padding or end."""
        import torch

        first, end = ordinary_words(self.config)
        return torch.randint(first, end, shape, device=self.device)

    def certain_words(self, size: int, length: int) -> Tensor:
        """Returns words that are not random, for models that look for the places of an image or a sound in a text."""
        import torch

        first, end = ordinary_words(self.config)
        return (torch.arange(size * length, device=self.device) % (end - first) + first).view(size, length)

    def ended_words(self, size: int, length: int) -> Tensor:
        """Returns texts of one word and an end, where encoder-decoders look for a text's class.

        Random words would make the places of the ends look random.
        """
        import torch

        end: int | list[int] = self.config.eos_token_id
        texts = torch.full((size, length), ordinary_words(self.config)[0], device=self.device)
        texts[:, -1] = end[0] if isinstance(end, list) else end
        return texts

    def ones(self, *shape: int) -> Tensor:
        """Returns a tensor of ones, such as a mask without padding."""
        import torch

        return torch.ones(shape, dtype=torch.long, device=self.device)

    def zeros(self, *shape: int) -> Tensor:
        """Returns a tensor of zeros."""
        import torch

        return torch.zeros(shape, dtype=torch.long, device=self.device)

    def values(self, *shape: int) -> Tensor:
        """Returns a tensor of random values from 0 to 1."""
        import torch

        return torch.rand(shape, device=self.device)

    def classes(self, *shape: int) -> Tensor:
        """Returns a class for each sample, or a number if the model is a regression."""
        import torch

        count = self.config.num_labels
        if count == 1 or self.config.problem_type == "regression":
            return torch.rand((*shape, count) if count > 1 else shape, device=self.device)
        if self.config.problem_type == "multi_label_classification":
            return torch.rand((*shape, count), device=self.device)
        return torch.randint(0, count, shape, device=self.device)


def ordinary_words(config: Any) -> tuple[int, int]:
    """Returns the longest range of token ids without special tokens: its first id and its end."""
    text = text_config(config)
    given = {**config.to_dict(), **text.to_dict()}
    end = getattr(text, "vocab_size", None) or CODE_POINTS
    named = [value for key, value in given.items() if key.endswith(("_token_id", "_token_index"))]
    special = [one for value in named for one in (value if isinstance(value, list) else [value])]  # several ends
    edges = sorted({-1, end, *(value for value in special if isinstance(value, int) and 0 <= value < end)})
    runs = [(before + 1, after) for before, after in pairwise(edges)]
    return max(runs, key=lambda run: run[1] - run[0])
