"""Advice on what to change: options ranked by gain, and what each costs. Pure, no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from memorymark.catalog import Price
from memorymark.documents import ADDED_LATER, INLINE, LEFT_OUT, Document, from_document, in_document
from memorymark.question.changes import level_of
from memorymark.question.usage import Usage
from memorymark.results.code import Code, Plan, code_for
from memorymark.results.cost import Savings, WholeRun, savings, usd_per_million_samples, whole_run
from memorymark.results.family import Family
from memorymark.results.option import Fault, Refused, TrainingOption
from memorymark.results.shown import Shown
from memorymark.results.subject import OfOneGpu
from memorymark.results.today import Today
from memorymark.results.trial import Source, Trial
from memorymark.units import format_ratio, gib

# A smaller gain is not worth anybody's time, and could be noise between two measurements.
WORTH_CHANGING = 1.05
# The fraction by which an effective batch may change without a change of the learning rate.
SAME_BATCH = 0.1
# Options within this factor of the fastest count as equally fast.
AS_FAST = 0.985
NOTHING = "Nothing is worth changing"


@dataclass(frozen=True, kw_only=True)
class Advice(OfOneGpu, Shown):
    """What to change about a training, the best option first.

    ``predicted`` and ``measured`` are trials of today's training at today's batch, ``None`` if that was not tried or
    does not fit.
    """

    kind: ClassVar[Literal["advice"]] = "advice"

    current_batch_size: int
    """Today's batch."""
    options: tuple[TrainingOption, ...]
    """The ways to train."""
    refused: tuple[Refused, ...] = ()
    """Changes that were tried and rejected."""
    families: tuple[Family, ...] = ()
    """The ways to fine-tune a language model; empty for other models."""
    faults: tuple[Fault, ...] = field(default=(), metadata=ADDED_LATER)
    """Changes that could not be tried because a worker was lost; a second run may give other advice."""
    predicted: Trial | None = field(default=None, metadata=LEFT_OUT)
    measured: Trial | None = field(default=None, metadata=LEFT_OUT)
    margin: float
    """The fraction of the memory to leave free."""
    usage: Usage
    """How much is trained."""
    price: Price | None
    """The price of an hour on this GPU; null if it is unknown."""
    seconds: dict[str, float] = field(default_factory=dict)
    """The wall time by stage."""

    @property
    @in_document
    def fits_today(self) -> bool:
        """Whether today's training runs at all."""
        return self.predicted is not None or self.measured is not None

    @property
    def only_families(self) -> bool:
        """Whether every option is the least change of a way to fine-tune, so that those say it all."""
        return bool(self.families) and {one.changes for one in self.options} <= {
            family.option.changes for family in self.families if family.option is not None
        }

    @property
    def today(self) -> Trial | None:
        """The trial of today's training: the measured one, or else the predicted one."""
        return self.measured or self.predicted

    @property
    @in_document(older=False)
    def incomplete(self) -> bool:
        """Whether a fault kept some changes from being tried."""
        return bool(self.faults)

    @property
    def ranked(self) -> list[TrainingOption]:
        """The options, the best first: by speed, or by the least change if today's training does not fit."""
        if self.fits_today:  # measured options come before those that are only predicted to be better
            confirms = self.measured is not None
            ranked = sorted(
                self.options, key=lambda option: (confirms and option.measured is None, -(self.gain(option) or 0.0))
            )
            return self._smallest_of_the_best(ranked)
        if self.of_several_gpus:  # all ways to share the work train alike
            return sorted(self.options, key=lambda option: -option.samples_per_second)
        return sorted(self.options, key=lambda option: (level_of(option.changes), -option.samples_per_second))

    @property
    def of_several_gpus(self) -> bool:
        """Whether the options are ways in which several GPUs share the work."""
        return self.request.recipe.gpus > 1

    @property
    def smallest_change(self) -> TrainingOption | None:
        """The option that changes least, the fastest of several."""
        return min(self.ranked, key=lambda option: level_of(option.changes), default=None)

    @property
    @in_document(older=None)
    def least_change(self) -> tuple[str, ...] | None:
        """The changes of the option that changes least; null without options."""
        return self.smallest_change.changes if self.smallest_change is not None else None

    @property
    def best(self) -> TrainingOption | None:
        """The best option, or ``None`` if none is worth the change."""
        first = next(iter(self.ranked), None)
        if first is None or not self.fits_today:
            return first
        return first if self._is_worth_it(first) else None

    def gain(self, option: TrainingOption) -> float | None:
        """Returns the option's throughput over today's, both measured or both predicted, or ``None``."""
        if option.measured is not None and self.measured is not None:
            return _ratio(option.measured, self.measured)
        if option.predicted is not None and self.predicted is not None:
            return _ratio(option.predicted, self.predicted)
        return None

    def _is_worth_it(self, option: TrainingOption) -> bool:
        return (self.gain(option) or 0.0) >= WORTH_CHANGING

    def _smallest_of_the_best(self, ranked: list[TrainingOption]) -> list[TrainingOption]:
        """Moves the smallest batch among the equally fast options to the front, if that one is worth it too."""
        if not ranked:
            return []
        first = ranked[0]
        enough = AS_FAST * first.samples_per_second
        equals = [one for one in ranked if one.source == first.source and one.samples_per_second >= enough]
        worth_it = [one for one in equals if self._is_worth_it(one)]
        chosen = min(worth_it or equals, key=lambda option: option.effective_batch_size)
        return [chosen, *(option for option in ranked if option is not chosen)]

    def predicted_gain(self, option: TrainingOption) -> float | None:
        """Returns the predicted gain, to compare with the measured one."""
        if option.predicted is None or self.predicted is None:
            return None
        return _ratio(option.predicted, self.predicted)

    def saves(self, option: TrainingOption) -> Savings | None:
        """Returns what the gain saves, or ``None`` without a price or a gain."""
        gain = self.gain(option)
        return savings(self.price.usd_per_hour, self.usage, gain) if self.price and gain else None

    def usd_per_million_samples(self, trial: Trial) -> float | None:
        """Returns the cost of a million samples at a trial's throughput, or ``None`` if it is unknown."""
        if self.price is None or not trial.samples_per_second:
            return None
        return usd_per_million_samples(self.price.usd_per_hour, trial.samples_per_second)

    def plan(self, option: TrainingOption) -> Plan:
        """Returns what the code for an option must do."""
        return Plan.of(
            self.request,
            self.info,
            recipe=option.recipe,
            batch_size=option.batch_size,
            accumulation_steps=option.accumulation_steps,
            seq_len=option.seq_len,
        )

    def code(self, option: TrainingOption) -> Code:
        """Returns the option as code to paste."""
        return code_for(self.plan(option))

    @property
    def effective_batch_size(self) -> int:
        """Samples per optimizer step today, of all GPUs."""
        return self.current_batch_size * self.request.recipe.accumulation_steps * self.request.recipe.data_parallel

    def learning_rate_note(self, option: TrainingOption) -> str:
        """Says how to adjust the learning rate to an option's effective batch."""
        before, after = self.effective_batch_size, option.effective_batch_size
        if option.recipe.optimizer != self.request.recipe.optimizer:
            goes = f"stays {before}" if before == after else f"goes from {before} to {after}"
            return f"The effective batch {goes}; a different optimizer needs a different learning rate."
        if before == after:
            return f"The effective batch stays {before}, and so does the learning rate."
        grows = after / before
        if abs(grows - 1) < SAME_BATCH:
            return f"The effective batch stays about {before} ({after}), and so does the learning rate."
        is_sgd = self.info.optimizer_is_sgd if self.info.optimizer else self.request.recipe.optimizer == "sgd"
        by, rule = (grows, "linear rule") if is_sgd else (grows**0.5, "square-root rule for Adam")
        note = (
            f"The effective batch goes from {before} to {after}: multiply the learning rate by "
            f"{'up to' if grows > 1 else 'about'} {by:.3g} ({rule})"
        )
        return f"{note} with a warm-up, and compare the loss." if grows > 1 else f"{note}, and compare the loss."

    @property
    @in_document
    def verdict(self) -> str:
        """The advice in one sentence."""
        best = self.best
        if best is None:
            first = next(iter(self.ranked), None)
            gain = self.gain(first) if first else None
            nothing = "None of the changes that could be tried is worth making" if self.faults else NOTHING
            if gain is None or gain < 1:
                return f"{nothing}."
            return f"{nothing}: the best of {len(self.options)} options gains {100 * (gain - 1):.0f} %."
        if not self.fits_today:
            least = self.smallest_change
            if not self.of_several_gpus or least is None or least is best:
                return f"The least change that makes it fit: {best.title}."
            return f"The fastest that fits: {best.title}. The least change that makes it fit: {least.title}."
        gain = self.gain(best) or 0.0
        saved = self.saves(best)
        money = f" and saves ${saved.per_year_usd:,.0f} a year" if saved else ""
        return f"{best.title}: trains {format_ratio(gain)} faster than today{money}, {best.source}."

    # Further parts of the document; the numbers at its top are those of the best option.

    @property
    @in_document
    def source(self) -> Source:
        """Whether the numbers at the top were measured or predicted."""
        counts = self.best or self.today
        return counts.source if counts else self.info.source

    @property
    @in_document
    def worth_changing(self) -> bool:
        """Whether there is a best option."""
        return self.best is not None

    @property
    @in_document
    def recommended_batch_size(self) -> int | None:
        """The batch of the best option."""
        return self.best.batch_size if self.best else None

    @property
    @in_document(older=None)
    def recommended_recipe(self) -> str | None:
        """The recipe of the best option, in words."""
        return self.best_as_advised.recipe_in_words if self.best_as_advised else None

    @property
    @in_document
    def max_batch_size(self) -> int | None:
        """The largest batch that trains with the best option."""
        return self.best.max_batch_size if self.best else None

    @property
    @in_document
    def speedup(self) -> float | None:
        """The gain of the best option."""
        return self.gain(self.best) if self.best else None

    @property
    @in_document
    def cost_savings_per_run(self) -> float | None:
        """Dollars that the best option saves in one run."""
        return self.best_as_advised.cost_savings_per_run if self.best_as_advised else None

    @property
    @in_document
    def cost_savings_annual(self) -> float | None:
        """Dollars that the best option saves in a year."""
        return self.best_as_advised.cost_savings_annual if self.best_as_advised else None

    @property
    def best_as_advised(self) -> AdvisedOption | None:
        """The best option, compared with today's training."""
        return AdvisedOption(self.best, self) if self.best else None

    @property
    @in_document(name="today")
    def todays_trials(self) -> Today:
        """Today's training, predicted and measured."""
        usd = self.usd_per_million_samples(self.today) if self.today else None
        return Today(self.predicted, self.measured, usd, whole_run(self.usage, self.today, self.price))

    @property
    @in_document(name="options")
    def advised_options(self) -> list[AdvisedOption]:
        """The options, the best first, each compared with today's training."""
        return [AdvisedOption(option, self) for option in self.ranked]

    @property
    @in_document(name="families", older=())
    def advised_families(self) -> list[AdvisedFamily]:
        """The ways to fine-tune a language model, each with its least change; empty for other models."""
        return [AdvisedFamily(family, self) for family in self.families]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Advice:
        """Reads the advice that ``to_dict`` wrote, which has two of its fields under ``today``."""
        return from_document(cls, {**data, **data["today"]})


@dataclass(frozen=True)
class AdvisedOption(Document):
    """One way to train, compared with today's training.

    ``gain`` is its throughput over today's, ``at_todays_batch`` its samples per second at today's batch. ``memory_gb``
    is what tensors have allocated at the peak, ``device_gb`` all that the GPU holds, both in GiB.
    """

    option: TrainingOption = field(metadata=INLINE)
    advice: Advice = field(metadata=LEFT_OUT)

    @property
    @in_document
    def recipe_in_words(self) -> str:
        """Its recipe in a few words."""
        info = self.advice.info
        return self.option.recipe.describe(info.optimizer, info.weights_dtype)

    @property
    @in_document
    def gain(self) -> float | None:
        """Its throughput over today's, both measured or both predicted."""
        return self.advice.gain(self.option)

    @property
    @in_document
    def predicted_gain(self) -> float | None:
        """The predicted gain."""
        return self.advice.predicted_gain(self.option)

    @property
    @in_document(older=None)
    def device_gb(self) -> float:
        """All that the GPU holds at the peak, in GiB."""
        return gib(self.advice.info.held_bytes(self.option.trial))

    @property
    @in_document
    def usd_per_million_samples(self) -> float | None:
        """Dollars for a million samples."""
        return self.advice.usd_per_million_samples(self.option.trial)

    @property
    @in_document(older=None)
    def whole_run(self) -> WholeRun | None:
        """The run that the question describes, trained this way; null if it describes none."""
        return whole_run(self.advice.usage, self.option.trial, self.advice.price)

    @property
    def _savings(self) -> Savings | None:
        return self.advice.saves(self.option)

    @property
    @in_document
    def cost_savings_per_run(self) -> float | None:
        """Dollars saved in one run."""
        return self._savings.per_run_usd if self._savings else None

    @property
    @in_document
    def cost_savings_annual(self) -> float | None:
        """Dollars saved in a year."""
        return self._savings.per_year_usd if self._savings else None

    @property
    @in_document
    def learning_rate(self) -> str:
        """How to adjust the learning rate to the effective batch."""
        return self.advice.learning_rate_note(self.option)

    @property
    @in_document
    def code(self) -> Code:
        """The option as code to paste."""
        return self.advice.code(self.option)


@dataclass(frozen=True)
class AdvisedFamily(Document):
    """One way to fine-tune a language model; its option is compared with today's training."""

    family: Family = field(metadata=INLINE)
    advice: Advice = field(metadata=LEFT_OUT)

    @property
    @in_document
    def option(self) -> AdvisedOption | None:
        """The least change with which it fits; null if none was found."""
        return AdvisedOption(self.family.option, self.advice) if self.family.option else None


def _ratio(then: Trial, now: Trial) -> float | None:
    if not then.samples_per_second or not now.samples_per_second:
        return None
    return then.samples_per_second / now.samples_per_second
