"""A card to share and a badge for a README: an analysis in one glance, as SVG. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memorymark.render.rates import speed_words
from memorymark.render.words import about_savings, heading, why_not_timed
from memorymark.results.analysis import Analysis
from memorymark.results.trial import Trial
from memorymark.units import format_bytes, format_ratio

View = dict[str, Any]
# The size that previews of links have.
WIDTH, HEIGHT = 1200, 630
LEFT, RIGHT, FIRST_BAR, BAR_HEIGHT, BETWEEN = 60, 1140, 262, 40, 96
# Letters of a badge, at 11 pixels, and what is left free beside them.
LETTER_WIDTH, BESIDE = 6.5, 10
# How many letters fit in a line of the card.
MOST_LETTERS = 78


def card_view(result: Analysis) -> View:
    """Returns what the card shows: today, the recommended batch and the largest on one axis, and what that gains."""
    model, how = heading(result.request, result.info, result.source)
    savings = about_savings(result)
    faster = f"{format_ratio(result.speedup)} today's throughput" if result.speedup else ""
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": RIGHT,
        "model": model,
        "how": how if len(how) <= MOST_LETTERS else f"{how[: MOST_LETTERS - 1]}…",
        "headline": _headline(result),
        "bars": list(_bars(result)),
        "gain": " · ".join(filter(None, (faster, f"saves up to {savings[0]}" if savings else ""))),
    }


def badge_view(result: Analysis) -> View:
    """Returns what the badge shows, and how wide its halves are."""
    gpu = result.info.device_name.removeprefix("NVIDIA ").removeprefix("GeForce ")
    capped = f" capped to {format_bytes(result.info.capacity_bytes)}" if result.info.capped else ""
    said = f"{result.request.entry.name}: max batch {result.max_batch_size:,} on {gpu}{capped}, {result.source}"
    label = "MemoryMark"
    left, right = (round(LETTER_WIDTH * len(text) + 2 * BESIDE) for text in (label, said))
    return {"label": label, "said": said, "left": left, "width": left + right}


def _headline(result: Analysis) -> str:
    best = result.recommended
    if best is None or best.batch_size == result.max_batch_size:
        return f"Largest batch {result.max_batch_size:,}"
    return f"Use batch {best.batch_size:,}; {result.max_batch_size:,} is the largest"


def _bars(result: Analysis) -> Iterator[View]:
    """Yields a bar for today's batch, the recommended one and the largest, with the interval of each."""
    best, maximum = result.recommended, result.maximum
    named = [("today", result.current)]
    if best is not None and best.batch_size != maximum.batch_size:
        named.append(("recommended", best))
    named.append(("maximum", maximum))
    total = result.target_bytes
    for at, (kind, trial) in enumerate(named):
        view = {"kind": kind, "y": FIRST_BAR + BETWEEN * at, "height": BAR_HEIGHT, "width": 0, "whisker": None}
        if trial is None or not trial.fits:
            yield {**view, "label": f"today: batch {result.current_batch_size:,} {why_not_timed(result)}"}
            continue
        held = result.info.held_bytes(trial)
        name = "recommended and maximum" if kind == "maximum" and trial == best else kind
        speed = f", {speed_words(trial)}" if trial.samples_per_second else ""
        label = f"{name}: batch {trial.batch_size:,}, {format_bytes(held)} of {format_bytes(total)}{speed}"
        yield {**view, "label": label, "width": _x(held, total) - LEFT, "whisker": _whisker(result, trial, total)}


def _whisker(result: Analysis, trial: Trial, total: int) -> tuple[float, float] | None:
    """Returns where the interval of a trial's memory begins and ends; ``None`` if it was measured."""
    name = "peak_reserved_bytes" if result.info.capped else "device_bytes"
    if trial.intervals is None or name not in trial.intervals:
        return None
    low, high = trial.intervals[name]
    return _x(low, total), _x(high, total)


def _x(size_bytes: float, total: int) -> float:
    return LEFT + (RIGHT - LEFT) * min(size_bytes / total, 1.0)
