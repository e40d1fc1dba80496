"""Where the memory of a step goes: through the step, and module by module at its peak. Pure, no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from memorymark.documents import Record, in_document
from memorymark.results.shown import Shown
from memorymark.results.subject import OfOneGpu
from memorymark.results.trial import Trial

LayerKind = Literal["list", "embedding", "convolution", "norm", "linear", "other"]
MemoryKind = Literal[
    "attention_scores",
    "attention",
    "mlp",
    "residual",
    "norm",
    "embedding",
    "convolution",
    "linear",
    "logits",
    "rounding",
    "other",
]
RemovableThing = Literal["logits", "attention_scores", "activations", "optimizer_state", "gradients"]


class ModuleFacts(NamedTuple):
    """A module of a model: the name of its class, and what kind of layer that is."""

    type: str
    kind: LayerKind


@dataclass(frozen=True)
class PhaseSpan(Record):
    """A phase of the step, between two numbers of events."""

    name: str
    """``generation``, ``forward``, ``backward``, ``optimizer``, or what runs between steps."""
    start: int
    """How many blocks were allocated or freed before it."""
    end: int
    """How many when it ended."""


@dataclass(frozen=True, kw_only=True)
class Timeline(Record):
    """The memory that is alive at each moment of a step, by part, at up to 2,000 moments, the peak among them.

    All lists have one entry for each moment.
    """

    events: int
    """How many blocks the whole step allocated and freed."""
    moments: list[int]
    """After how many of them each moment is."""
    operations: list[str]
    """The operation that ran; empty if it is not known."""
    modules: list[str]
    """The module that it belongs to; empty for the model itself and for what runs outside of it."""
    parts: dict[str, list[int]]
    """The bytes of the parts of the breakdown."""
    rounding_bytes: int
    """What the allocator counts beyond the requests of tensors at the peak: rounded sizes, and workspaces that
    predictions keep apart. The breakdown has it among the temporaries."""
    phases: list[PhaseSpan]
    """The phases in order."""
    peak: int
    """The position of the peak in the lists."""

    @property
    def totals(self) -> list[int]:
        """The bytes at each moment, rounding included."""
        return [self.rounding_bytes + sum(sizes) for sizes in zip(*self.parts.values(), strict=True)]

    @property
    @in_document
    def peak_bytes(self) -> int:
        """The bytes at the peak: the trial's peak of allocated memory."""
        return self.totals[self.peak]

    @property
    @in_document
    def peak_phase(self) -> str:
        """The phase of the peak; empty if it is at the very beginning."""
        return self.phase_at(self.moments[self.peak])

    def phase_at(self, moment: int) -> str:
        """Returns the phase of a moment, given as a number of events."""
        return next((span.name for span in self.phases if span.start < moment <= span.end), "")


@dataclass(frozen=True, kw_only=True)
class ModuleMemory(Record):
    """What a module, or several equal ones of equal layers, hold at the peak, without the modules inside them."""

    path: str
    """Its path in the model, with ``*`` for the numbers of equal layers; empty for the model itself."""
    type: str
    """The name of its class."""
    kind: MemoryKind
    """What it is: scores of attention, the rest of attention, the layers' other products, norms, logits, ..."""
    count: int
    """How many such modules hold something."""
    parts: dict[str, int]
    """The bytes by part of the breakdown."""

    @property
    @in_document
    def total_bytes(self) -> int:
        """The sum of the parts."""
        return sum(self.parts.values())


@dataclass(frozen=True, kw_only=True)
class AliveBlocks(Record):
    """Equal blocks of memory that are alive at the peak."""

    part: str
    """Their part of the breakdown."""
    kind: MemoryKind
    """What they hold."""
    operation: str
    """The operation that made them; empty if that was before the step, or is not known."""
    path: str
    """The module of that operation, with ``*`` for the numbers of equal layers."""
    shape: list[int]
    """The shape of the tensor; empty if it is not known."""
    count: int
    """How many there are."""
    total_bytes: int
    """What they take together."""


@dataclass(frozen=True, kw_only=True)
class Removable(Record):
    """The thing at the peak that an option of the recipe would do without, saving the most."""

    what: RemovableThing
    """What it is."""
    total_bytes: int
    """What it takes at the peak."""
    share: float
    """The same as a fraction of the allocated memory."""
    change: str
    """The id of the change that removes it."""
    recipe: dict[str, Any]
    """The options of the recipe that it sets."""
    peak_allocated_bytes: int
    """The peak of allocated memory with the change: measured or predicted, like the trial."""


@dataclass(frozen=True, kw_only=True)
class Anatomy(Record):
    """Where the memory of a step at one batch size goes, before anything is said about it."""

    trial: Trial
    """The trial. If it does not fit, the peaks are those of the step with more memory."""
    timeline: Timeline
    """The memory through the step."""
    modules: list[ModuleMemory]
    """The memory at the peak by module, the most first; the sum is the peak of allocated memory."""
    alive: list[AliveBlocks]
    """The largest blocks at the peak, the most first."""


@dataclass(frozen=True, kw_only=True)
class Explanation(OfOneGpu, Shown):
    """Where the memory of a step goes."""

    kind: ClassVar[Literal["explanation"]] = "explanation"

    trial: Trial
    """The trial at the batch size that was asked about."""
    timeline: Timeline
    """The memory through the step."""
    modules: list[ModuleMemory]
    """The memory at the peak by module, the most first; the sum is the peak of allocated memory."""
    alive: list[AliveBlocks]
    """The largest blocks at the peak, the most first."""
    removable: Removable | None = field(default=None)
    """What an option would do without, saving the most; null if there is none."""
