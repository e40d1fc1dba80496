"""Time lost to waiting for data."""

from __future__ import annotations

from collections.abc import Iterator

from memorymark.watch import code as changes
from memorymark.watch.findings.base import STEPS_FOR_TIMES, WAITING_COUNTS, WAITING_RULES, Finding, gained
from memorymark.watch.gains import Gain
from memorymark.watch.observation import LoaderFacts, Observation

# A step without waiting is assumed to take at least this fraction of its time.
LEAST_STEP = 0.1
# Taking a batch from another process costs about this; a shorter wait gains nothing from workers.
LEAST_WAIT_SECONDS = 1e-3
# Beyond this many workers the main process is the limit.
MOST_WORKERS = 16


def waiting(seen: Observation) -> Iterator[Finding]:
    """Finds that steps wait for their data."""
    lost, step_seconds = seen.lost, seen.step_seconds
    if lost is None or step_seconds is None or seen.timed_steps < STEPS_FOR_TIMES or lost < WAITING_COUNTS:
        return
    if (seen.lost_seconds or 0.0) / max(seen.micro_batches, 1) < LEAST_WAIT_SECONDS:
        return
    if seen.loader is not None:
        yield _in_loader(seen, seen.loader, step_seconds, lost)
    elif lost >= WAITING_RULES:  # the time between steps is not only loading data
        yield _between_steps(seen, step_seconds, lost)


def _in_loader(seen: Observation, loader: LoaderFacts, step_seconds: float, lost: float) -> Finding:
    """Returns the finding that the data loader does not keep up."""
    workers, wanted, rules = loader.num_workers, _workers(seen), lost >= WAITING_RULES
    how = "loaded in the main process (num_workers=0)" if not workers else f"with {workers} workers"
    may_pin = _is_on_gpu(seen) and not loader.pin_memory
    headline = f"Waiting for data takes {100 * lost:.0f} % of the time"
    too_many = (
        f"More workers than the {seen.processors} processors here do not help: decode and augment once, ahead of the "
        "training, or on the GPU."
    )
    return Finding(
        kind="data",
        headline="You are bound by the data loader, a larger batch will not help" if rules else headline,
        title=f"Load data in {wanted} workers" if wanted > workers else "Make loading a sample cheaper",
        reason=f"{_part(seen, step_seconds, lost)} for data, {how}",
        code=changes.loader(seen, max(wanted, workers)) if wanted > workers or may_pin else "",
        note="" if wanted > workers else too_many,
        **gained(_less_waiting(step_seconds, lost, workers, wanted)),
    )


def _between_steps(seen: Observation, step_seconds: float, lost: float) -> Finding:
    """Returns the finding that much time passes between steps without a data loader."""
    wanted, part = _workers(seen), _part(seen, step_seconds, lost)
    return Finding(
        kind="data",
        headline="Much of the time passes between the steps, where a larger batch does not help",
        title="Prepare batches while the step runs, in the workers of a DataLoader",
        reason=f"{part} between an optimizer step and the next forward pass; no DataLoader was seen",
        code=changes.loader(seen, wanted),
        **gained(_less_waiting(step_seconds, lost, 0, wanted)),
    )


def _part(seen: Observation, step_seconds: float, lost: float) -> str:
    who = "the GPU" if _is_on_gpu(seen) else "the training"
    return f"of each {_time(step_seconds)} step, {who} waits {_time(seen.lost_seconds or 0.0)} ({100 * lost:.0f} %)"


def _less_waiting(step_seconds: float, lost: float, workers: int, wanted: int) -> Gain:
    """Returns the gain if ``wanted`` workers share the loading, or if loading cost nothing when there are that many."""
    work, loading = step_seconds * (1 - lost), step_seconds * (workers or lost)
    shared = loading / wanted if wanted > workers else 0.0
    most = step_seconds / max(work, shared, step_seconds * LEAST_STEP)
    return Gain(most, 1.0, most, "measured")


def _workers(seen: Observation) -> int:
    """Returns as many workers as the processors allow."""
    return max(min(seen.processors, MOST_WORKERS), 1)


def _is_on_gpu(seen: Observation) -> bool:
    return seen.device is not None and seen.device.kind == "cuda"


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"
