"""Batches of packed rows: samples of varying length one after another, told apart by their positions.

A row holds samples of the mean length and ends with a part of one. With flash-attn a batch is a single long
row, as transformers' DataCollatorWithFlattening and TRL make it. Else the batch has all rows, and transformers makes a
mask that keeps their samples apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memorymark.catalog.tasks import ANSWERING, TASKS, Task, prompt_tokens
from memorymark.models.heads import model_class
from memorymark.models.maker import IGNORED, ordinary_words

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from memorymark.training.workload import Batch


def takes_packed(config: Any, arguments: set[str]) -> bool:
    """Tells whether a model's positions can start over within a row, and its masks follow; an encoder's do not."""
    return "position_ids" in arguments and model_class(config, TASKS["masked-lm"]) is None


def sample_lengths(row_tokens: int, mean_tokens: int) -> list[int]:
    """Returns the lengths of the samples in a row."""
    whole, rest = divmod(row_tokens, mean_tokens)
    return [mean_tokens] * whole + ([rest] if rest else [])


def make_packed_batch(
    config: Any, task: Task, row_tokens: int, mean_tokens: int, *, in_one_row: bool
) -> Callable[[int, torch.device], Batch]:
    """Returns a function that makes batches of so many rows; ``in_one_row`` joins them."""
    import torch

    first, end = ordinary_words(config)
    lengths = sample_lengths(row_tokens, mean_tokens)

    def batch(size: int, device: torch.device) -> Batch:
        words = torch.randint(first, end, (size, row_tokens), device=device)
        positions = torch.cat([torch.arange(length, device=device) for length in lengths]).repeat(size, 1)
        learned = torch.cat([torch.arange(length, device=device) >= _unlearned(task, length) for length in lengths])
        labels = words.where(learned, IGNORED)
        made = {"input_ids": words, "position_ids": positions, "labels": labels}
        return {name: tensor.view(1, -1) for name, tensor in made.items()} if in_one_row else made

    return batch


def _unlearned(task: Task, length: int) -> int:
    """Returns how many of a sample's tokens do not count: the first, which no other predicts, or its prompt."""
    return max(prompt_tokens(length), 1) if task.id in ANSWERING else 1
