"""What NCCL takes outside of torch's allocator.

Reported, not measured here: 544 MB for a communicator of 2 ranks and 688 MB for one of more (4 A100, NVLink, torch;
NVIDIA/nccl#964, 2023), memory being linear in communicators and channels (NVIDIA/nccl#986), and 512 MiB for one of NCCL
2.28 on a B300 (NVIDIA/nccl#2363, 2026). The interval is from half of that to twice as much.
"""

from __future__ import annotations

from memorymark.question.recipe import Recipe

TWO_RANKS_BYTES, MORE_RANKS_BYTES = 544_000_000, 688_000_000
SOURCE = "NVIDIA/nccl#964, #986 and #2363"


def communicators(recipe: Recipe) -> list[int]:
    """Returns how many ranks each communicator of a training has."""
    groups = [recipe.tensor_parallel, recipe.data_parallel]
    if recipe.strategy == "hsdp":
        groups = [recipe.tensor_parallel, recipe.data_parallel // recipe.nodes, recipe.nodes]
    return [ranks for ranks in groups if ranks > 1]


def nccl_bytes(recipe: Recipe) -> tuple[int, int, int]:
    """Returns what NCCL takes on each GPU: the least, the usual, the most."""
    usual = sum(TWO_RANKS_BYTES if ranks == 2 else MORE_RANKS_BYTES for ranks in communicators(recipe))
    return usual // 2, usual, 2 * usual
