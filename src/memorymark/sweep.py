"""The same training at several lengths: the largest batch of each, and the one to plan for. Pure, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memorymark.analysis import Analysis
from memorymark.notebook import Shown
from memorymark.request import Request

# Less than this would read as "0 % slower".
WORTH_A_WORD = 0.005


@dataclass(frozen=True)
class Length:
    """One length with what was found for it; ``analysis`` is ``None`` where not even a batch of one fits.

    ``planned_batch`` is the batch of the length to plan for, which every shorter length must do with.
    """

    seq_len: int
    analysis: Analysis | None
    planned_batch: int | None

    @property
    def batch_size(self) -> int | None:
        """The batch worth using if all samples were this long; the largest where none keeps the margin."""
        if self.analysis is None:
            return None
        best = self.analysis.recommended
        return best.batch_size if best else self.analysis.max_batch_size

    @property
    def samples_per_second(self) -> float | None:
        """Throughput at the batch worth using."""
        return self._speed_at(self.batch_size)

    @property
    def planned_samples_per_second(self) -> float | None:
        """Throughput at the planned batch."""
        return self._speed_at(self.planned_batch)

    @property
    def lost(self) -> float | None:
        """The part of the throughput that is lost at the planned batch; ``None`` where that is not known."""
        own, planned = self.samples_per_second, self.planned_samples_per_second
        return max(1 - planned / own, 0.0) if own and planned else None

    @property
    def loses(self) -> bool:
        """Whether that is worth a word."""
        return (self.lost or 0.0) >= WORTH_A_WORD

    def _speed_at(self, batch_size: int | None) -> float | None:
        trial = self.analysis.at(batch_size) if self.analysis and batch_size else None
        return trial.samples_per_second if trial else None

    def to_dict(self) -> dict[str, Any]:
        """The length as JSON types."""
        analysis, speed = self.analysis, self.samples_per_second
        recommended = analysis.recommended if analysis else None
        return {
            "seq_len": self.seq_len,
            "fits": analysis is not None,
            "max_batch_size": analysis.max_batch_size if analysis else None,
            "max_batch_interval": analysis.max_batch_interval if analysis else None,
            "recommended_batch_size": recommended.batch_size if recommended else None,
            "samples_per_second": speed,
            "tokens_per_second": speed * self.seq_len if speed else None,
            "planned_samples_per_second": self.planned_samples_per_second,
            "lost": self.lost,
        }


@dataclass(frozen=True)
class Sweep(Shown):
    """A training at several lengths; ``analyses`` lacks those at which not even a batch of one fits.

    The length to plan for is the longest: with its batch, no batch of the data runs out of memory.
    """

    request: Request
    seq_lens: tuple[int, ...]
    analyses: dict[int, Analysis]

    @property
    def plan(self) -> Analysis:
        """The analysis to plan for: that of the longest length that fits."""
        return self.analyses[self.plan_for]

    @property
    def plan_for(self) -> int:
        """The length to plan for; shorter than the longest only where that does not fit."""
        return max(self.analyses)

    @property
    def planned_batch(self) -> int:
        """The batch size to train with whatever the length of the samples."""
        best = self.plan.recommended
        return best.batch_size if best else self.plan.max_batch_size

    @property
    def lengths(self) -> list[Length]:
        """Every length, the shortest first."""
        return [Length(length, self.analyses.get(length), self.planned_batch) for length in sorted(self.seq_lens)]

    @property
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
                f"What batch {batch} loses in throughput where all samples are shorter: {costs}. Batches by a number "
                "of tokens, with samples of like length together, get it back."
            )
        return advice

    def to_dict(self) -> dict[str, Any]:
        """The sweep as JSON types; the numbers at the top are those of the length to plan for."""
        plan = self.plan
        return {
            "model_name": self.request.model,
            "gpu_name": plan.info.device_name,
            "source": plan.source,
            "recipe": self.request.recipe.to_dict(),
            "seq_lens": sorted(self.seq_lens),
            "plan_for": self.plan_for,
            "planned_batch_size": self.planned_batch,
            "max_batch_size": plan.max_batch_size,
            "recommended_batch_size": plan.recommended.batch_size if plan.recommended else None,
            "speedup": plan.speedup,
            "advice": self.advice,
            "lengths": [length.to_dict() for length in self.lengths],
            "request": self.request.to_dict(),
            "analyses": {str(length): analysis.to_dict() for length, analysis in self.analyses.items()},
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Sweep:
        """The sweep that ``to_dict`` wrote."""
        analyses = {int(length): Analysis.from_dict(analysis) for length, analysis in data["analyses"].items()}
        return cls(Request.from_dict(data["request"]), tuple(data["seq_lens"]), analyses)
