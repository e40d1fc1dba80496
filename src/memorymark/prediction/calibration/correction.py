"""Corrects predicted times by those of a profile.

The logarithm of measured over predicted seconds is taken as a sum: a part that the whole GPU shares, one of each family
of operations, one of each kind, one of each sort, all of which change smoothly with size and intensity, and the scatter
of single operations. How much the parts vary is assumed, how much single operations scatter is found in each family of
the profile; from these follows how far what was timed speaks for any other operation (a Gaussian process). Where little
was timed, or it scatters, the correction tends to that of the kind, the family, the GPU, and last to none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, log

import torch
from torch import Tensor

from memorymark.catalog import GpuEntry
from memorymark.prediction.calibration.likeness import Traits, traits_of
from memorymark.prediction.calibration.written import read_operation
from memorymark.prediction.timing import roofline
from memorymark.prediction.timing.roofline import KERNEL_GAP_SECONDS, device_seconds
from memorymark.prediction.tracing.operation import Operation
from memorymark.profiles.profile import HostStep, Profile, TimedOperation

# A profile's call counts if one of the operations that it runs takes this share of it.
MAIN_SHARE = 0.8
DeviceSeconds = Callable[[Operation, GpuEntry, bool], float]


@dataclass(frozen=True)
class Spread:
    """How much the logarithm of the ratio varies from one group to the next, as standard deviations.

    ``sizes`` is how far the logarithms of seconds, or of intensity, lie apart where a group's ratios begin to differ.
    """

    shared: float = 0.7
    family: float = 0.3
    kind: float = 0.3
    sort: float = 0.35
    sizes: float = 2.5


SPREAD = Spread()
# The scatter of single operations: what it is taken for at first, the least, and how often it is found again from how
# far each operation is from what the others say of it.
FIRST_SCATTER, LEAST_SCATTER, ROUNDS = 0.12, 0.02, 3
# From the median of absolute values to a standard deviation.
OF_MEDIAN = 1.4826


def by_rules(op: Operation, gpu: GpuEntry, tf32: bool) -> float:
    """Returns the time that the rules predict."""
    return device_seconds(op, gpu, tf32=tf32)


@dataclass(frozen=True)
class Point:
    """A timed operation: its traits and the logarithm of measured over predicted seconds."""

    traits: Traits
    log_ratio: float


class Correction:
    """How many times longer than predicted the operations of one GPU take, as its profile says."""

    def __init__(
        self, profile: Profile, gpu: GpuEntry, *, rules: DeviceSeconds = by_rules, spread: Spread = SPREAD
    ) -> None:
        self.profile = profile
        self.gpu, self._spread = _with_measured_link(gpu, profile), spread
        self.host_ratio = 1.0 if profile.host is None else profile.host.seconds / _predicted_host_seconds(profile.host)
        found = (_point(timed, gpu, rules) for timed in profile.operations if not timed.waited_for_host)
        self.points = [point for point in found if point is not None]
        self._known: dict[Traits, float] = {}
        self.scatter: dict[str, float] = {}
        if self.points:
            self._ids: dict[str, int] = {}
            self._table = self._columns([point.traits for point in self.points])
            self.scatter, self._weights = self._fitted()

    def seconds(self, op: Operation, predicted: float, *, tf32: bool) -> float:
        """Returns the time of an operation that the rules predict to take so long."""
        work = predicted - KERNEL_GAP_SECONDS
        if work <= 0 or not self.points:
            return predicted
        return KERNEL_GAP_SECONDS + work * self.ratio(traits_of(op, self.gpu, work, tf32=tf32))

    def ratio(self, traits: Traits) -> float:
        """Returns how many times longer than predicted an operation takes."""
        if traits not in self._known:
            likeness = self._likeness(self._columns([traits]), self._table)
            self._known[traits] = exp(float(likeness[0] @ self._weights))
        return self._known[traits]

    def _fitted(self) -> tuple[dict[str, float], Tensor]:
        """Returns the scatter of each family, and the weight of each point."""
        ratios = torch.tensor([point.log_ratio for point in self.points], dtype=torch.float64)
        families = self._table["family"]
        likeness, scatter = self._likeness(self._table, self._table), torch.full_like(ratios, FIRST_SCATTER)
        for _ in range(ROUNDS):
            inverse = torch.linalg.inv(likeness + torch.diag(scatter**2))
            alone = (inverse @ ratios) / torch.diagonal(inverse)  # how far each is from what the others say
            for family in families.unique():
                found = OF_MEDIAN * float(alone[families == family].abs().median())
                scatter[families == family] = max(found, LEAST_SCATTER)
        weights = torch.linalg.solve(likeness + torch.diag(scatter**2), ratios)
        return {point.traits.family: float(one) for point, one in zip(self.points, scatter, strict=True)}, weights

    def _columns(self, several: Sequence[Traits]) -> dict[str, Tensor]:
        groups = {name: [f"{name} {getattr(one, name)}" for one in several] for name in ("family", "kind", "sort")}
        numbers = {
            name: torch.tensor([self._ids.setdefault(label, len(self._ids)) for label in labels])
            for name, labels in groups.items()
        }
        place = torch.tensor([(one.size, one.intensity) for one in several], dtype=torch.float64)
        return {**numbers, "place": place}

    def _likeness(self, these: dict[str, Tensor], those: dict[str, Tensor]) -> Tensor:
        """Returns the covariance of the logarithms of ratios."""
        spread = self._spread
        same = {name: (these[name][:, None] == those[name][None, :]).double() for name in ("family", "kind", "sort")}
        near = torch.exp(-(torch.cdist(these["place"], those["place"]) ** 2) / (2 * spread.sizes**2))
        smooth = spread.family**2 * same["family"] + spread.kind**2 * same["kind"] + spread.sort**2 * same["sort"]
        return spread.shared**2 + smooth * (1 + near)


def _point(timed: TimedOperation, gpu: GpuEntry, rules: DeviceSeconds) -> Point | None:
    """Returns what a timed call says of its main operation; ``None`` if it has none."""
    tf32 = timed.case.get("type") == "tf32"
    runs = [read_operation(document) for document in timed.runs]
    seconds = [rules(op, gpu, tf32) - KERNEL_GAP_SECONDS for op in runs]
    predicted, measured = sum(seconds), timed.seconds - KERNEL_GAP_SECONDS * len(runs)
    if predicted <= 0 or measured <= 0 or max(seconds) < MAIN_SHARE * predicted:
        return None
    main = runs[seconds.index(max(seconds))]
    return Point(traits_of(main, gpu, max(seconds), tf32=tf32), log(measured / predicted))


def _with_measured_link(gpu: GpuEntry, profile: Profile) -> GpuEntry:
    rates = [profile.to_device_bytes_per_second, profile.to_host_bytes_per_second]
    known = [rate for rate in rates if rate is not None]
    return replace(gpu, host_link_bytes_per_second=min(known)) if known else gpu


def _predicted_host_seconds(host: HostStep) -> float:
    """Returns how long the rules say that the host takes for the step that was timed."""
    calls = roofline.EAGER_CALL_SECONDS * host.eager_calls + roofline.AUTOGRAD_CALL_SECONDS * host.autograd_calls
    others = roofline.VIEW_SECONDS * host.views + roofline.UPDATE_SECONDS * host.updated_tensors
    return roofline.STEP_SECONDS + calls + others
