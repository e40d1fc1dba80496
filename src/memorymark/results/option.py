"""One way to train: changes to today's recipe, and their outcome. Pure, no torch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from memorymark.documents import ADDED_LATER, Document, Record, in_document
from memorymark.question.changes import CHANGES, OFFLOADING
from memorymark.question.recipe import Recipe
from memorymark.results.timed import Timed
from memorymark.results.trial import Source, Trial
from memorymark.units import format_bytes, gib

# A smaller difference of two predicted times says nothing.
NOTICED = 0.01


@dataclass(frozen=True)
class ChangeCost(Document):
    """A change and its cost, in words."""

    change: str
    """The change in a few words."""
    cost: str
    """What it costs."""
    slower: float | None = field(default=None, metadata=ADDED_LATER)
    """The part of a step's time that it adds here; null if unknown."""
    host_bytes: int | None = field(default=None, metadata=ADDED_LATER)
    """What it takes of the host's memory; null if it takes none."""


@dataclass(frozen=True, kw_only=True)
class TrainingOption(Timed, Record):
    """One way to train: the changes to today's recipe, and their outcome.

    An optimizer step sees ``batch_size`` times ``accumulation_steps`` samples.
    """

    changes: tuple[str, ...]
    """The ids of the changes."""
    recipe: Recipe
    """The recipe with them."""
    batch_size: int
    """Samples in one forward pass."""
    accumulation_steps: int = 1
    """Batches per optimizer step."""
    seq_len: int | None = None
    """The length that samples are cut to; null if they are not."""
    max_batch_size: int | None = None
    """The largest batch that trains; null if only ``batch_size`` was tried."""
    predicted: Trial | None = None
    """The predicted trial at ``batch_size``."""
    measured: Trial | None = None
    """The measured trial at ``batch_size``."""
    at_todays_batch: float | None = None
    """Samples per second at today's batch; null if unknown."""
    slower: dict[str, float] = field(default_factory=dict, metadata=ADDED_LATER)
    """The part of a step's predicted time that each change adds, by the change's id, where it is known."""

    @property
    def trial(self) -> Trial:
        """The measured trial, or else the predicted one."""
        trial = self.measured or self.predicted
        assert trial is not None  # noqa: S101 - an option is made of one
        return trial

    @property
    def timed(self) -> Trial:
        """The trial whose speed is the option's."""
        return self.trial

    @property
    @in_document
    def source(self) -> Source:
        """Whether its numbers were measured or predicted."""
        return self.trial.source

    @property
    def samples_per_second(self) -> float:
        """Its throughput."""
        return self.trial.samples_per_second or 0.0

    @property
    @in_document(name="samples_per_second")
    def known_samples_per_second(self) -> float | None:
        """Its throughput; null if unknown."""
        return self.trial.samples_per_second

    @property
    def effective_batch_size(self) -> int:
        """Samples per optimizer step, of all GPUs."""
        return self.batch_size * self.accumulation_steps * self.recipe.data_parallel

    @property
    def recipe_title(self) -> str:
        """The changes in a few words, without the batch."""
        named = [CHANGES[change].title for change in self.changes if change not in ("batch", "shorter")]
        named += [f"samples of {self.seq_len} tokens"] if self.seq_len else []
        return ", ".join(named) or "only the batch"

    @property
    @in_document
    def title(self) -> str:
        """The changes in a few words."""
        steps = f" x {self.accumulation_steps} accumulation steps" if self.accumulation_steps > 1 else ""
        batch = f"batch {self.batch_size}{steps}"
        return batch if self.changes == ("batch",) else f"{self.recipe_title}, {batch}"

    @property
    def costs(self) -> list[tuple[str, str]]:
        """What each change costs, by its title."""
        return [(CHANGES[change].title, self._cost(change)) for change in self.changes]

    def _cost(self, change: str) -> str:
        """Returns what a change costs, in general and here."""
        slower, taken = self.slower.get(change, 0.0), self.host_bytes_of(change)
        here = [f"takes {format_bytes(taken)} of the host's memory"] if taken else []
        if abs(slower) >= NOTICED:
            here.append(f"makes steps {100 * abs(slower):.0f} % {'slower' if slower > 0 else 'faster'}")
        return f"{CHANGES[change].cost} Here it {' and '.join(here)}." if here else CHANGES[change].cost

    def host_bytes_of(self, change: str) -> int | None:
        """Returns what a change takes of the host's memory; ``None`` if it takes none."""
        return self.trial.peak_host_bytes if change in OFFLOADING else None

    @property
    @in_document(name="costs")
    def change_costs(self) -> list[ChangeCost]:
        """What each change costs."""
        return [
            ChangeCost(title, cost, self.slower.get(change), self.host_bytes_of(change))
            for change, (title, cost) in zip(self.changes, self.costs, strict=True)
        ]

    @property
    @in_document
    def memory_gb(self) -> float:
        """What tensors have allocated at the peak, in GiB."""
        return gib(self.trial.peak_allocated_bytes)


@dataclass(frozen=True)
class Refused(Record):
    """Changes that were tried and rejected."""

    changes: tuple[str, ...]
    """The ids of the changes."""
    why: str
    """The reason in a sentence."""
    does_not_fit: bool = field(default=False, metadata=ADDED_LATER)
    """Whether the reason is memory."""

    @property
    @in_document
    def title(self) -> str:
        """The changes in a few words."""
        return _titles(self.changes)


@dataclass(frozen=True)
class Fault(Record):
    """Changes that could not be fully tried because a worker was lost."""

    changes: tuple[str, ...]
    """The ids of the changes."""
    reason: str
    """The reason in a sentence."""

    @property
    @in_document
    def title(self) -> str:
        """The changes in a few words."""
        return _titles(self.changes)


def _titles(changes: tuple[str, ...]) -> str:
    return " + ".join(CHANGES[change].title for change in changes) or "today's recipe"


def with_measured(option: TrainingOption, trial: Trial, predicted: Trial | None) -> TrainingOption:
    """Returns the option with its measured trial, the batch of that trial and the prediction for that batch."""
    steps = option.accumulation_steps
    if steps > 1:  # smaller batches need more accumulation steps
        steps = -(-option.batch_size * steps // trial.batch_size)
    return replace(
        option,
        recipe=replace(option.recipe, accumulation_steps=steps),
        batch_size=trial.batch_size,
        accumulation_steps=steps,
        measured=trial,
        predicted=predicted,
    )
