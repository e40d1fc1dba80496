"""The answer to what should be changed: options ranked by what they gain, and what each costs. Pure, no torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from memorymark.advice.changes import CHANGES, level_of
from memorymark.catalog import Price
from memorymark.cost import Savings, Usage, savings, usd_per_million_samples
from memorymark.notebook import Shown
from memorymark.probe import ProbeInfo
from memorymark.recipe import Recipe
from memorymark.request import Request
from memorymark.training_code import Code, Plan, code_for
from memorymark.trial import Source, Trial
from memorymark.units import gib

# Less than this is not worth anybody's time, and within what two measurements differ by.
WORTH_CHANGING = 1.05
# By less than this an effective batch may grow without a word on the learning rate.
SAME_BATCH = 0.1
# What differs by less is as fast.
AS_FAST = 0.985


NOTHING = "Nothing is worth changing"


@dataclass(frozen=True, kw_only=True)
class Option:
    """One way to train: the changes to today's recipe, by id, and what they lead to.

    ``batch_size`` times ``accumulation_steps`` is what an optimizer step sees. ``max_batch_size`` is the largest that
    trains, ``None`` where only the batch itself was tried. ``seq_len`` is set where samples are cut. ``predicted`` and
    ``measured`` are trials at the batch, ``at_todays_batch`` the throughput at today's.
    """

    changes: tuple[str, ...]
    recipe: Recipe
    batch_size: int
    accumulation_steps: int = 1
    seq_len: int | None = None
    max_batch_size: int | None = None
    predicted: Trial | None = None
    measured: Trial | None = None
    at_todays_batch: float | None = None

    @property
    def trial(self) -> Trial:
        """What counts: the measured trial where there is one."""
        trial = self.measured or self.predicted
        assert trial is not None  # noqa: S101 - an option is made of one
        return trial

    @property
    def source(self) -> Source:
        """Whether its numbers were measured or predicted."""
        return self.trial.source

    @property
    def samples_per_second(self) -> float:
        """Its throughput."""
        return self.trial.samples_per_second or 0.0

    @property
    def effective_batch_size(self) -> int:
        """What an optimizer step sees."""
        return self.batch_size * self.accumulation_steps

    @property
    def recipe_title(self) -> str:
        """The changes in a few words, without the batch."""
        named = [CHANGES[change].title for change in self.changes if change not in ("batch", "shorter")]
        named += [f"samples of {self.seq_len} tokens"] if self.seq_len else []
        return ", ".join(named) or "only the batch"

    @property
    def title(self) -> str:
        """The changes in a few words."""
        steps = f" x {self.accumulation_steps} accumulation steps" if self.accumulation_steps > 1 else ""
        batch = f"batch {self.batch_size}{steps}"
        return batch if self.changes == ("batch",) else f"{self.recipe_title}, {batch}"

    @property
    def costs(self) -> list[tuple[str, str]]:
        """What each change costs, by its title."""
        return [(CHANGES[change].title, CHANGES[change].cost) for change in self.changes]

    def to_dict(self) -> dict[str, Any]:
        """The option as JSON types; ``from_dict`` reads it back."""
        return {
            "changes": list(self.changes),
            "recipe": self.recipe.to_dict(),
            "batch_size": self.batch_size,
            "accumulation_steps": self.accumulation_steps,
            "seq_len": self.seq_len,
            "max_batch_size": self.max_batch_size,
            "predicted": self.predicted.to_dict() if self.predicted else None,
            "measured": self.measured.to_dict() if self.measured else None,
            "at_todays_batch": self.at_todays_batch,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Option:
        """The option that ``to_dict`` wrote; what ``Advice`` adds to it is left out."""
        return cls(
            changes=tuple(data["changes"]),
            recipe=Recipe(**data["recipe"]),
            batch_size=data["batch_size"],
            accumulation_steps=data["accumulation_steps"],
            seq_len=data["seq_len"],
            max_batch_size=data["max_batch_size"],
            predicted=Trial.from_dict(data["predicted"]) if data["predicted"] else None,
            measured=Trial.from_dict(data["measured"]) if data["measured"] else None,
            at_todays_batch=data["at_todays_batch"],
        )


@dataclass(frozen=True)
class Refused:
    """Changes that were looked at and lead nowhere, and why."""

    changes: tuple[str, ...]
    why: str

    @property
    def title(self) -> str:
        """The changes in a few words."""
        return _titles(self.changes)


@dataclass(frozen=True)
class Fault:
    """Changes that could not be looked at, or not to the end, because a worker was lost, and how."""

    changes: tuple[str, ...]
    reason: str

    @property
    def title(self) -> str:
        """The changes in a few words."""
        return _titles(self.changes)


@dataclass(frozen=True, kw_only=True)
class Advice(Shown):
    """What to change about a training, the best first.

    ``request`` is today's training, ``predicted`` and ``measured`` are trials of it at today's batch: ``None`` where
    that was not tried, or does not fit. ``faults`` are what is missing: asked again, the advice may be another.
    """

    request: Request
    info: ProbeInfo
    current_batch_size: int
    options: tuple[Option, ...]
    refused: tuple[Refused, ...] = ()
    faults: tuple[Fault, ...] = ()
    predicted: Trial | None = None
    measured: Trial | None = None
    margin: float
    usage: Usage
    price: Price | None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def fits_today(self) -> bool:
        """Whether today's training runs at all."""
        return self.predicted is not None or self.measured is not None

    @property
    def today(self) -> Trial | None:
        """Today's training: the measured trial where there is one."""
        return self.measured or self.predicted

    @property
    def incomplete(self) -> bool:
        """Whether a fault kept something from being looked at."""
        return bool(self.faults)

    @property
    def ranked(self) -> list[Option]:
        """The options, the best first: the fastest, or the least change where today's training does not fit."""
        if self.fits_today:  # what was confirmed comes before what may only look better
            confirms = self.measured is not None
            ranked = sorted(
                self.options, key=lambda option: (confirms and option.measured is None, -(self.gain(option) or 0.0))
            )
            return self._smallest_of_the_best(ranked)
        return sorted(self.options, key=lambda option: (level_of(option.changes), -option.samples_per_second))

    @property
    def best(self) -> Option | None:
        """What to change; ``None`` where nothing is worth it."""
        first = next(iter(self.ranked), None)
        if first is None or not self.fits_today:
            return first
        return first if self._is_worth_it(first) else None

    def gain(self, option: Option) -> float | None:
        """Its throughput over today's, measured over measured or predicted over predicted."""
        if option.measured is not None and self.measured is not None:
            return _ratio(option.measured, self.measured)
        if option.predicted is not None and self.predicted is not None:
            return _ratio(option.predicted, self.predicted)
        return None

    def _is_worth_it(self, option: Option) -> bool:
        return (self.gain(option) or 0.0) >= WORTH_CHANGING

    def _smallest_of_the_best(self, ranked: list[Option]) -> list[Option]:
        """Of those that are as fast as the first, and worth it if that is, the smallest batch comes first."""
        if not ranked:
            return []
        first = ranked[0]
        enough = AS_FAST * first.samples_per_second
        equals = [one for one in ranked if one.source == first.source and one.samples_per_second >= enough]
        worth_it = [one for one in equals if self._is_worth_it(one)]
        chosen = min(worth_it or equals, key=lambda option: option.effective_batch_size)
        return [chosen, *(option for option in ranked if option is not chosen)]

    def predicted_gain(self, option: Option) -> float | None:
        """The gain as it was predicted, to be held against the measured one."""
        if option.predicted is None or self.predicted is None:
            return None
        return _ratio(option.predicted, self.predicted)

    def saves(self, option: Option) -> Savings | None:
        """What the gain is worth; ``None`` without a price or a gain."""
        gain = self.gain(option)
        return savings(self.price.usd_per_hour, self.usage, gain) if self.price and gain else None

    def usd_per_million_samples(self, trial: Trial) -> float | None:
        """What a million samples cost at a trial's throughput."""
        if self.price is None or not trial.samples_per_second:
            return None
        return usd_per_million_samples(self.price.usd_per_hour, trial.samples_per_second)

    def code(self, option: Option) -> Code:
        """The option as code to paste."""
        plan = Plan.of(
            self.request,
            self.info,
            recipe=option.recipe,
            batch_size=option.batch_size,
            accumulation_steps=option.accumulation_steps,
            seq_len=option.seq_len,
        )
        return code_for(plan)

    @property
    def effective_batch_size(self) -> int:
        """What an optimizer step sees today."""
        return self.current_batch_size * self.request.recipe.accumulation_steps

    def learning_rate_note(self, option: Option) -> str:
        """What a change of the effective batch means for the learning rate."""
        before, after = self.effective_batch_size, option.effective_batch_size
        if option.recipe.optimizer != self.request.recipe.optimizer:
            goes = f"stays {before}" if before == after else f"goes from {before} to {after}"
            return f"The effective batch {goes}; another optimizer wants a learning rate of its own."
        if before == after:
            return f"The effective batch stays {before}, and so does the learning rate."
        grows = after / before
        if abs(grows - 1) < SAME_BATCH:
            return f"The effective batch stays about {before} ({after}), and so does the learning rate."
        is_sgd = "sgd" in (self.info.optimizer or self.request.recipe.optimizer).lower()
        by, rule = (grows, "linear rule") if is_sgd else (grows**0.5, "square-root rule for Adam")
        note = (
            f"The effective batch goes from {before} to {after}: multiply the learning rate by "
            f"{'up to' if grows > 1 else 'about'} {by:.3g} ({rule})"
        )
        return f"{note} with a warm-up, and compare the loss." if grows > 1 else f"{note}, and compare the loss."

    @property
    def verdict(self) -> str:
        """The advice in one sentence."""
        best = self.best
        if best is None:
            first = next(iter(self.ranked), None)
            gain = self.gain(first) if first else None
            nothing = "Nothing of what could be looked at is worth changing" if self.faults else NOTHING
            if gain is None or gain < 1:
                return f"{nothing}."
            return f"{nothing}: the best of {len(self.options)} ways gains {100 * (gain - 1):.0f} %."
        if not self.fits_today:
            return f"The least change that makes it fit: {best.title}."
        gain = self.gain(best) or 0.0
        saved = self.saves(best)
        money = f" and saves ${saved.per_year_usd:,.0f} a year" if saved else ""
        return f"{best.title}: trains {gain:.1f}x faster than today{money}, {best.source}."

    def to_dict(self) -> dict[str, Any]:
        """The advice as JSON types; the numbers at the top are those of the best option."""
        best = self.best
        saved = self.saves(best) if best else None
        return {
            "model_name": self.request.model,
            "gpu_name": self.info.device_name,
            "source": best.source if best else (self.today.source if self.today else self.info.source),
            "verdict": self.verdict,
            "fits_today": self.fits_today,
            "worth_changing": best is not None,
            "current_batch_size": self.current_batch_size,
            "recommended_batch_size": best.batch_size if best else None,
            "recommended_recipe": best.recipe.describe(self.info.optimizer, self.info.weights_dtype) if best else None,
            "max_batch_size": best.max_batch_size if best else None,
            "speedup": self.gain(best) if best else None,
            "cost_savings_per_run": saved.per_run_usd if saved else None,
            "cost_savings_annual": saved.per_year_usd if saved else None,
            "recipe": self.request.recipe.to_dict(),
            "today": {
                "predicted": self.predicted.to_dict() if self.predicted else None,
                "measured": self.measured.to_dict() if self.measured else None,
                "usd_per_million_samples": self.usd_per_million_samples(self.today) if self.today else None,
            },
            "options": [self._option(option) for option in self.ranked],
            "refused": [{**asdict(one), "changes": list(one.changes), "title": one.title} for one in self.refused],
            "incomplete": self.incomplete,
            "faults": [{**asdict(one), "changes": list(one.changes), "title": one.title} for one in self.faults],
            "margin": self.margin,
            "usage": self.usage.to_dict(),
            "price": self.price.to_dict() if self.price else None,
            "sample": self.info.sample,
            "small": self.info.small,
            "unknown_operations": list(self.info.unknown_operations),
            "versions": self.info.versions,
            "seconds": self.seconds,
            "request": self.request.to_dict(),
            "info": self.info.to_dict(),
        }

    def _option(self, option: Option) -> dict[str, Any]:
        saved = self.saves(option)
        return {
            **option.to_dict(),
            "title": option.title,
            "recipe_in_words": option.recipe.describe(self.info.optimizer, self.info.weights_dtype),
            "source": option.source,
            "gain": self.gain(option),
            "predicted_gain": self.predicted_gain(option),
            "samples_per_second": option.trial.samples_per_second,
            "memory_gb": gib(option.trial.peak_allocated_bytes),
            "device_gb": gib(self.info.held_bytes(option.trial)),
            "usd_per_million_samples": self.usd_per_million_samples(option.trial),
            "cost_savings_per_run": saved.per_run_usd if saved else None,
            "cost_savings_annual": saved.per_year_usd if saved else None,
            "costs": [{"change": title, "cost": cost} for title, cost in option.costs],
            "learning_rate": self.learning_rate_note(option),
            "code": asdict(self.code(option)),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Advice:
        """The advice that ``to_dict`` wrote."""
        today = {
            source: Trial.from_dict(trial) if (trial := data["today"][source]) else None
            for source in ("predicted", "measured")
        }
        return cls(
            request=Request.from_dict(data["request"]),
            info=ProbeInfo.from_dict(data["info"]),
            current_batch_size=data["current_batch_size"],
            options=tuple(Option.from_dict(option) for option in data["options"]),
            refused=tuple(Refused(tuple(one["changes"]), one["why"]) for one in data["refused"]),
            faults=tuple(Fault(tuple(one["changes"]), one["reason"]) for one in data.get("faults", ())),
            margin=data["margin"],
            usage=Usage(**data["usage"]),
            price=Price(**data["price"]) if data["price"] else None,
            seconds=data["seconds"],
            **today,
        )


def _titles(changes: tuple[str, ...]) -> str:
    return " + ".join(CHANGES[change].title for change in changes) or "today's recipe"


def _ratio(then: Trial, now: Trial) -> float | None:
    if not then.samples_per_second or not now.samples_per_second:
        return None
    return then.samples_per_second / now.samples_per_second


def with_measured(option: Option, trial: Trial, predicted: Trial | None) -> Option:
    """The option as it was confirmed: at the batch that was run, with the prediction for the same batch."""
    steps = option.accumulation_steps
    if steps > 1:  # in smaller batches it takes more of them
        steps = -(-option.effective_batch_size // trial.batch_size)
    return replace(
        option,
        recipe=replace(option.recipe, accumulation_steps=steps),
        batch_size=trial.batch_size,
        accumulation_steps=steps,
        measured=trial,
        predicted=predicted,
    )
