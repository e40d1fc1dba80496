"""Refuses to compare a model with a frozen copy that is larger than the GPU: no batch size would help."""

from __future__ import annotations

from dataclasses import replace

from memorymark.catalog import ModelEntry
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.question.recipe import LORA_RANK, WEIGHT_BYTES
from memorymark.question.request import Request
from memorymark.results.probe_info import ProbeInfo
from memorymark.suggestions import Proposal
from memorymark.units import format_bytes


def check_catalog_reference(request: Request) -> None:
    """Raises before anything is built, if the catalog knows the model and the GPU."""
    entry, gpu = request.entry, request.target.entry
    if not request.keeps_reference or request.recipe.lora or request.small:
        return
    if isinstance(entry, ModelEntry) and gpu is not None:
        weights = request.recipe.kept_weights("fp32")
        usable = gpu.usable_bytes
        room = min(usable, request.target.memory_cap_bytes or usable)
        _check(request, int(entry.parameters * WEIGHT_BYTES[weights]), entry.parameters, room)


def check_reference(request: Request, info: ProbeInfo) -> None:
    """Raises if the copy that was made is too large."""
    _check(request, info.reference_bytes, info.parameters, info.capacity_bytes)


def _check(request: Request, reference_bytes: int, parameters: int, room_bytes: int) -> None:
    if reference_bytes <= room_bytes:
        return
    smaller = {"weights": "nf4", "lora": LORA_RANK, "precision": "bf16"}
    fits = replace(request.recipe, **smaller).least_bytes(parameters) < room_bytes  # type: ignore[arg-type]
    raise UsageError(
        Message(
            "the frozen reference of {model} takes {size}, more than the {room} there are, and so does the model "
            "beside it; take a larger GPU"
            + (", or adapters over quantized weights ({lora:{rank}} with {weights:nf4})." if fits else "."),
            model=request.entry.id,
            size=format_bytes(reference_bytes),
            room=format_bytes(room_bytes),
            rank=LORA_RANK,
        ),
        code="conflict",
        field="reference",
        given=request.reference,
        proposals=[Proposal("QLoRA", smaller)] if fits else [],
    )
