"""Ranks what to change, each with its reason in numbers. Pure: facts in, sentences out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf

from memorymark.watch.findings import batch, data, memory, speed
from memorymark.watch.findings.base import STEPS_FOR_TIMES, Estimate, Finding
from memorymark.watch.gains import Gains
from memorymark.watch.observation import Observation


@dataclass(frozen=True)
class Verdict:
    """A headline and its findings, those that gain most first."""

    headline: str
    findings: list[Finding] = field(default_factory=list)


def judge(seen: Observation, estimate: Estimate | None = None, exit_code: int | None = None) -> Verdict:
    """Returns the verdict on an observation."""
    if (sentence := _nothing_seen(seen, exit_code)) is not None:
        return Verdict(sentence)
    found = (*memory.ran_out(seen, estimate), *data.waiting(seen), *_on_gpu(seen, estimate))
    findings = sorted(_each_once(found), key=lambda finding: -(inf if finding.speedup is None else finding.speedup))
    return Verdict(_headline(seen, findings), findings)


def _on_gpu(seen: Observation, estimate: Estimate | None) -> Iterator[Finding]:
    if seen.device is None or seen.device.kind != "cuda":
        return
    gains = Gains(seen)
    yield from speed.precision(seen, gains)
    yield from batch.batch(seen, estimate, gains)
    yield from memory.allocator(seen)
    yield from memory.outputs(estimate)
    yield from speed.compiling(seen, gains)
    yield from speed.channels_last(seen, gains)
    yield from speed.checkpointing(seen, gains)
    yield from speed.optimizer(seen, gains)


def _each_once(found: Iterable[Finding]) -> list[Finding]:
    """Leaves out advice to compile that another finding gives, with what was measured."""
    findings = list(found)
    names_host = any(finding.kind == "host" for finding in findings)
    return [finding for finding in findings if finding.kind != "compile" or not names_host]


def _nothing_seen(seen: Observation, exit_code: int | None) -> str | None:
    ended = "" if not exit_code else f" The script ended with exit code {exit_code}."
    if seen.problem is not None and not seen.steps:
        return f"Watching failed, so there is nothing to report ({seen.problem}).{ended}"
    if not seen.torch_imported:
        return f"The script never imported torch in its own process, so there was no training to watch.{ended}"
    if not seen.steps and seen.ending is not None and not seen.ending.out_of_memory:
        return f"The script ended with {seen.ending.kind} before its first optimizer step: there was nothing to watch."
    if not seen.steps and seen.ending is None:
        why = "its own process updated no module's parameters, with or without an optimizer"
        return f"The script never trained: {why}. Processes that it starts are not watched.{ended}"
    return None


def _headline(seen: Observation, findings: list[Finding]) -> str:
    first = findings[0] if findings else None
    if first is not None and not first.is_small:
        return f"{first.headline}."
    if seen.timed_steps < STEPS_FOR_TIMES:
        return f"Only {seen.steps} steps ran: too few to say what to change."
    if seen.device is not None and seen.device.kind != "cuda":
        where = "CPU" if seen.device.kind == "cpu" else seen.device.name
        pace = "Little time passes between the steps" if seen.loader is None else "The data loader keeps up"
        return f"{pace}. It trained on the {where}, which does not show what to change on a GPU."
    if first is not None:
        return f"Close to what this GPU can do; one small thing is left: {first.title[0].lower()}{first.title[1:]}."
    return "Nothing is worth changing."
