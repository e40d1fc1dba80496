"""Finds the largest things at the peak that an option of the recipe would do without. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from memorymark.advice.fitting import facts_of
from memorymark.errors import UsageError
from memorymark.question.changes import CHANGES
from memorymark.question.request import Request
from memorymark.results.explanation import Anatomy, Removable, RemovableThing
from memorymark.results.probe_info import ProbeInfo

# What each thing could be done without by; the first change that applies is meant.
WITHOUT: Mapping[RemovableThing, tuple[str, ...]] = {
    "logits": ("chunked",),
    "attention_scores": ("sdpa",),
    "activations": ("checkpointing",),
    "optimizer_state": ("adamw8bit", "offload_optimizer"),
    "gradients": ("in_backward",),
}
# The smallest part of the peak that is worth a sentence.
LEAST_SHARE = 0.05


@dataclass(frozen=True)
class Candidate:
    """Something that a change would remove, and the request with that change."""

    what: RemovableThing
    size_bytes: int
    change: str
    before: Request
    request: Request

    @property
    def title(self) -> str:
        """The change in words."""
        return CHANGES[self.change].title

    def removable(self, peak_bytes: int, then_bytes: int) -> Removable:
        """Returns it as a result, with the peaks before and after."""
        now, then = self.before.recipe.to_dict(), self.request.recipe.to_dict()
        return Removable(
            what=self.what,
            total_bytes=self.size_bytes,
            share=self.size_bytes / peak_bytes,
            change=self.change,
            recipe={name: value for name, value in then.items() if now[name] != value},
            peak_allocated_bytes=then_bytes,
        )


def candidates(request: Request, info: ProbeInfo, anatomy: Anatomy) -> list[Candidate]:
    """Returns what changes that apply would remove, the largest first."""
    peak, sizes = anatomy.timeline.peak_bytes, _sizes(anatomy)
    largest = sorted(sizes, key=lambda what: -sizes[what])
    return [
        Candidate(what, sizes[what], change, request, changed)
        for what in largest
        if sizes[what] >= LEAST_SHARE * peak
        for change, changed in [*_changed(request, info, WITHOUT[what])][:1]
    ]


def _sizes(anatomy: Anatomy) -> dict[RemovableThing, int]:
    """Returns what each thing takes at the peak; some logits and scores of attention are activations too."""
    of_kind: dict[str, int] = {"logits": 0, "attention_scores": 0}
    parts = dict.fromkeys(("activations_bytes", "optimizer_state_bytes", "gradients_bytes"), 0)
    for module in anatomy.modules:
        if module.kind in of_kind:
            of_kind[module.kind] += module.total_bytes
        for part in parts:
            parts[part] += module.parts.get(part, 0)
    return {
        "logits": of_kind["logits"],
        "attention_scores": of_kind["attention_scores"],
        "activations": parts["activations_bytes"],
        "optimizer_state": parts["optimizer_state_bytes"],
        "gradients": parts["gradients_bytes"],
    }


def _changed(request: Request, info: ProbeInfo, changes: tuple[str, ...]) -> Iterator[tuple[str, Request]]:
    """Yields the changes that apply, with the request as it is then."""
    facts = replace(facts_of(info), large_logits=info.vocabulary > 0)
    for change in changes:
        try:
            changed = CHANGES[change].to(request, facts)
        except UsageError:  # it conflicts with another option
            continue
        if changed is not None:
            yield change, changed
