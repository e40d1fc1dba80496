"""Changes as code to paste, for the loop in use: plain torch, transformers or Lightning."""

from __future__ import annotations

from typing import Any

from memorymark.templating import python_code
from memorymark.watch.observation import Observation

EXPANDABLE = "export PYTORCH_ALLOC_CONF=expandable_segments:True   # before the script starts"
DROP_OUTPUTS = "del outputs   # all that the model returned but the loss, before loss.backward()"


def loader(seen: Observation, workers: int) -> str:
    """Returns code for more data loader workers."""
    on_cuda = seen.device is not None and seen.device.kind == "cuda"
    return _code("loader", seen, workers=workers, on_cuda=on_cuda)


def precision(seen: Observation, name: str) -> str:
    """Returns code for a lower precision."""
    return _code("precision", seen, precision=name)


def batch(seen: Observation, size: int, *, accumulate: int) -> str:
    """Returns code for another batch size, with gradient accumulation if there is or should be any."""
    accumulates = max(accumulate, seen.micro_batches) > 1
    return _code("batch", seen, batch_size=size, accumulation_steps=accumulate, accumulates=accumulates)


def fused(seen: Observation, name: str) -> str:
    """Returns code for the fused version of an optimizer."""
    return _code("fused", seen, optimizer=name)


def compiled(seen: Observation) -> str:
    """torch.compile."""
    return _code("compiled", seen)


def _code(change: str, seen: Observation, **facts: Any) -> str:
    return python_code("memorymark.watch", change, framework=seen.framework, **facts).rstrip("\n")
