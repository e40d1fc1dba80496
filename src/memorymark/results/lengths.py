"""The same training at several lengths: the largest batch of each, and the one to plan for. Pure, no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from memorymark.documents import LEFT_OUT, Document, in_document
from memorymark.results.analysis import Analysis
from memorymark.results.from_analysis import FromAnalysis
from memorymark.results.shown import Shown
from memorymark.results.subject import OfRequest
from memorymark.results.trial import Source, Trial

# A smaller loss would read as "0 % slower".
WORTH_A_WORD = 0.005


@dataclass(frozen=True)
class Length(FromAnalysis, Document):
    """One length and its analysis, which is ``None`` if not even a batch of one fits.

    ``planned_batch`` is the batch of the length to plan for, which the shorter lengths use too.
    """

    seq_len: int
    """Its tokens."""
    analysis: Analysis | None = field(metadata=LEFT_OUT)
    planned_batch: int | None = field(metadata=LEFT_OUT)

    @property
    def batch_size(self) -> int | None:
        """The batch worth using if all samples were this long; the largest if none keeps the margin."""
        if self.analysis is None:
            return None
        best = self.analysis.recommended
        return best.batch_size if best else self.analysis.max_batch_size

    @property
    def timed(self) -> Trial | None:
        """The trial at that batch."""
        return self._at(self.batch_size)

    @property
    @in_document
    def tokens_per_second(self) -> float | None:
        """Throughput at the batch worth using, in tokens."""
        return self.timed.tokens_per_second if self.timed else None

    @property
    @in_document
    def planned_samples_per_second(self) -> float | None:
        """Throughput at the planned batch."""
        planned = self._at(self.planned_batch)
        return planned.samples_per_second if planned else None

    @property
    @in_document
    def lost(self) -> float | None:
        """The fraction of the throughput that the planned batch loses; ``None`` if unknown."""
        own, planned = self.samples_per_second, self.planned_samples_per_second
        return max(1 - planned / own, 0.0) if own and planned else None

    @property
    def loses(self) -> bool:
        """Whether the loss is worth mentioning."""
        return (self.lost or 0.0) >= WORTH_A_WORD

    def _at(self, batch_size: int | None) -> Trial | None:
        return self.analysis.at(batch_size) if self.analysis and batch_size else None


@dataclass(frozen=True)
class Sweep(OfRequest, Shown):
    """A training at several lengths, the shortest first.

    The length to plan for is the longest that fits: its batch never runs out of memory on shorter samples. The numbers
    at the top of the document are those of that length.
    """

    kind: ClassVar[Literal["sweep"]] = "sweep"

    seq_lens: tuple[int, ...]
    """The lengths in tokens, the shortest first."""
    analyses: dict[int, Analysis]
    """The analysis of each length at which at least one sample fits, by its tokens."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "seq_lens", tuple(sorted(self.seq_lens)))

    @property
    def plan(self) -> Analysis:
        """The analysis of the length to plan for."""
        return self.analyses[self.plan_for]

    @property
    @in_document
    def gpu_name(self) -> str:
        """The device's name."""
        return self.plan.gpu_name

    @property
    @in_document
    def source(self) -> Source:
        """Whether the numbers were measured or predicted."""
        return self.plan.source

    @property
    @in_document
    def plan_for(self) -> int:
        """The length to plan for: the longest that fits."""
        return max(self.analyses)

    @property
    @in_document(name="planned_batch_size")
    def planned_batch(self) -> int:
        """The batch size to train with, whatever the length of the samples."""
        best = self.plan.recommended
        return best.batch_size if best else self.plan.max_batch_size

    @property
    @in_document
    def max_batch_size(self) -> int:
        """The largest batch that trains."""
        return self.plan.max_batch_size

    @property
    @in_document
    def recommended_batch_size(self) -> int | None:
        """The batch worth using; null if none keeps the margin."""
        return self.plan.recommended_batch_size

    @property
    @in_document
    def speedup(self) -> float | None:
        """Throughput at the recommended batch over that at today's."""
        return self.plan.speedup

    @property
    @in_document
    def lengths(self) -> list[Length]:
        """Every length, the shortest first."""
        return [Length(length, self.analyses.get(length), self.planned_batch) for length in self.seq_lens]

    @property
    @in_document
    def advice(self) -> list[str]:
        """Which length to plan for, and what that costs the shorter ones, in sentences."""
        plan, batch = self.plan_for, self.planned_batch
        too_long = [str(length.seq_len) for length in self.lengths if length.analysis is None]
        advice = []
        if too_long:
            advice.append(
                f"{' and '.join(too_long)} tokens do not fit even at batch 1: cut samples at {plan} tokens, or see "
                "what `memorymark analyze` suggests for that length."
            )
        longest = f"Plan for {plan} tokens, the longest{' that fits' if too_long else ''}:"
        if self.plan.recommended is not None:
            advice.append(f"{longest} batch {batch} fits if no sample is longer.")
        else:
            margin = f"a margin of {100 * self.plan.margin:g} %"
            roomy = [length.seq_len for length in self.lengths if length.analysis and length.analysis.recommended]
            instead = f"; the longest that leaves it has {max(roomy)} tokens" if roomy else ""
            advice.append(f"{longest} batch {batch} is all that fits, and does not leave {margin}{instead}.")
        lossy = [length for length in self.lengths if length.seq_len != plan and length.loses]
        if lossy:
            costs = ", ".join(
                f"{100 * (length.lost or 0):.0f} % at {length.seq_len} tokens (batch {length.batch_size} fits there)"
                for length in lossy
            )
            advice.append(
                f"Batch {batch} loses throughput if all samples are shorter: {costs}. To get it back, group samples of "
                "similar length and batch by number of tokens."
            )
        return advice
