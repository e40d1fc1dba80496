"""Reads and changes the settings of torch's caching allocator in this process."""

from __future__ import annotations

import os
import re

from memorymark.question.recipe_choices import AllocatorKind as AllocatorKind

# torch reads the first of these that is set.
ALLOCATOR_SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
EXPANDABLE = "expandable_segments"

_before: str | None = None
"""The settings that ``use_allocator`` found and changed."""


def use_allocator(kind: AllocatorKind) -> None:
    """Sets how the allocator works from its next request to the driver on.

    ``default`` restores what the process had before, from its environment or its own code. Other settings stay. Memory
    that the allocator already holds stays as it is, so empty the cache next.
    """
    global _before
    if kind == "expandable":
        if _before is None:
            _before = _settings()
        _apply(_with_expandable(_before, "True"))
    elif _before is not None:
        _apply(_with_expandable(_before, _entries(_before).get(EXPANDABLE, "False")))
        _before = None


def allocator_in_force() -> AllocatorKind | None:
    """Returns how the allocator works now; ``None`` if it has settings that are not modelled."""
    settings = _settings() if _before is None else _with_expandable(_before, "True")
    entries = _entries(settings)
    expandable = entries.pop(EXPANDABLE, "False") == "True"
    if entries:
        return None
    return "expandable" if expandable else "default"


def _settings() -> str:
    """Returns the settings that torch was given last, or the environment's if an older torch does not tell."""
    import torch

    ask = getattr(torch._C, "_accelerator_getAllocatorSettings", None)
    if ask is not None:
        return str(ask())
    return next((os.environ[name] for name in ALLOCATOR_SETTINGS if os.environ.get(name)), "")


def _apply(settings: str) -> None:
    import torch

    tell = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    if tell is None:  # before torch 2.9
        tell = torch.cuda.memory._set_allocator_settings
    tell(settings)


def _with_expandable(settings: str, value: str) -> str:
    """Returns all settings with ``expandable_segments`` changed: torch resets any that it is not given."""
    return ",".join(f"{name}:{said}" for name, said in {**_entries(settings), EXPANDABLE: value}.items())


def _entries(settings: str) -> dict[str, str]:
    """Returns each setting and its value; a value may be a list in brackets, which contains commas."""
    words = re.split(r",(?![^\[]*\])", settings.replace(" ", ""))
    return {name: value for name, _, value in (word.partition(":") for word in words) if name}
