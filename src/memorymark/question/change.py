"""One change to a training, and the facts that decide whether it applies. Pure, no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from memorymark.question.recipe import Recipe
from memorymark.question.request import Request


@dataclass(frozen=True)
class Facts:
    """What decides which changes apply.

    ``capability`` is the GPU's compute capability, ``None`` on other devices, which share the host's memory. ``tokens``
    is the length of a text sample, 0 for other samples. ``own_optimizer`` says that the workload brings its optimizer,
    so the recipe's is not used. ``language_model`` says that a model that writes text is fine-tuned, ``large_logits``
    that its loss can be computed in chunks and that its logits are large enough for that to matter. ``packed`` says
    that samples are packed into rows.
    """

    capability: tuple[int, int] | None
    tokens: int
    convolves_images: bool
    own_optimizer: bool
    language_model: bool = False
    large_logits: bool = False
    packed: bool = False


@dataclass(frozen=True)
class Change:
    """One change to a training. ``level`` ranks how far-reaching it is.

    0 costs nothing and leaves all numbers the same except for rounding, 1 costs time or patience, 2 changes the
    numerics, 3 changes what is learned, 4 changes how much of the data is seen.
    """

    id: str
    title: str
    cost: str
    level: int
    applied: Callable[[Recipe, Facts], dict[str, Any] | None]

    def to(self, request: Request, facts: Facts) -> Request | None:
        """Returns the request with the change, or ``None`` if it does not apply or is already made."""
        fields = self.applied(request.recipe, facts)
        return None if fields is None else replace(request, recipe=replace(request.recipe, **fields))
