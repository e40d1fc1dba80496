"""Makes jobs of what single GPUs did, and ranks them by what they waste. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from memorymark.fleet.holds import Hold, Holder, deviation, mean
from memorymark.fleet.judging import Found, findings, is_too_young
from memorymark.fleet.smaller import known_gpu
from memorymark.results.cost import SECONDS_PER_HOUR
from memorymark.results.fleet import FindingKind, FleetFinding, FleetJob


def rank(holds: Iterable[Hold], price_per_hour: float | None = None) -> tuple[FleetJob, ...]:
    """Returns the jobs, those that waste most first: by money if all that waste have a price, else by GPU-hours.

    ``price_per_hour`` is the caller's price of any GPU; without it, the catalog's count.
    """
    by_job: dict[tuple[str, str], list[Hold]] = {}
    for hold in holds:
        by_job.setdefault((hold.holder.kind, hold.holder.id), []).append(hold)
    jobs = [_job(of_job, price_per_hour) for of_job in by_job.values()]
    by_money = all(job.usd_per_hour is not None for job in jobs if job.wasted_gpu_hours)

    def worst_first(job: FleetJob) -> tuple[float, bool, float, str]:
        wasted = job.wasted_usd if by_money else job.wasted_gpu_hours
        return -(wasted or 0.0), not job.findings, -job.gpu_hours, job.id

    return tuple(sorted(jobs, key=worst_first))


def _job(holds: list[Hold], price_per_hour: float | None) -> FleetJob:
    holder, first = _best_known(holds), holds[0]
    windows = tuple(window for hold in holds for window in hold.windows)
    found = [(hold, findings(hold)) for hold in holds]
    fullest = max(holds, key=lambda hold: hold.used_bytes or 0)
    price = price_per_hour if price_per_hour is not None else _price(holds)
    return FleetJob(
        holder=holder.kind,
        id=holder.id,
        owner=holder.owner,
        name=holder.name,
        hosts=tuple(dict.fromkeys(hold.device.host for hold in holds)),
        gpus=len({(hold.device.host, hold.device.index, hold.device.slice) for hold in holds}),
        gpu_names=tuple(dict.fromkeys(_name(hold) for hold in holds)),
        source=first.source,
        age_seconds=max((hold.age_seconds for hold in holds if hold.age_seconds is not None), default=None),
        ended=all(hold.ended for hold in holds),
        gpu_hours=_hours(sum(hold.seconds for hold in holds)),
        busy=mean(windows, "busy") or 0.0,
        busy_deviation=deviation(windows),
        idle_gpu_hours=_hours(sum(hold.idle_seconds for hold in holds)),
        used_bytes=fullest.used_bytes,
        total_bytes=fullest.device.total_bytes,
        tensor_active=mean(windows, "tensor"),
        usd_per_hour=price,
        too_young=all(is_too_young(hold) for hold in holds),
        wasted_gpu_hours=_hours(sum(max((one.wasted_seconds or 0.0 for one in of), default=0.0) for _, of in found)),
        findings=_merged(found, price),
    )


def _merged(found: list[tuple[Hold, list[Found]]], price: float | None) -> tuple[FleetFinding, ...]:
    """Returns the findings about a job's GPUs, one of each kind, the worst first."""
    by_kind: dict[FindingKind, list[tuple[Hold, Found]]] = {}
    for hold, of_gpu in found:
        for one in of_gpu:
            by_kind.setdefault(one.kind, []).append((hold, one))
    merged = [_finding(kind, about, price) for kind, about in by_kind.items()]
    return tuple(sorted(merged, key=lambda finding: -(finding.wasted_gpu_hours or 0.0)))


def _finding(kind: FindingKind, about: list[tuple[Hold, Found]], price: float | None) -> FleetFinding:
    known = [one.wasted_seconds for _, one in about if one.wasted_seconds is not None]
    # Of several GPUs, the largest of those that would do for each does for all.
    smaller = max((one.smaller for _, one in about if one.smaller), key=lambda gpu: gpu.memory_bytes, default=None)
    wasted, held = sum(known), sum(hold.seconds for hold, _ in about)
    return FleetFinding(
        finding=kind,
        gpus=len(about),
        gpu_hours=_hours(held),
        wasted_gpu_hours=_hours(wasted) if known else None,
        smaller_gpu=smaller.id if smaller is not None else None,
        smaller_usd_per_hour=price * (1 - wasted / held) if smaller is not None and price is not None else None,
    )


def _best_known(holds: list[Hold]) -> Holder:
    return max((hold.holder for hold in holds), key=lambda holder: (bool(holder.owner), bool(holder.name)))


def _price(holds: list[Hold]) -> float | None:
    """Returns the catalog's price of a job's GPUs, averaged over their time; ``None`` unless all have one."""
    total = usd = 0.0
    for hold in holds:
        known = known_gpu(hold.device.name, hold.device.total_bytes) if not hold.device.slice else None
        if known is None or known.price is None:
            return None
        total, usd = total + hold.seconds, usd + hold.seconds * known.price.usd_per_hour
    return usd / total if total else None


def _name(hold: Hold) -> str:
    known = known_gpu(hold.device.name, hold.device.total_bytes) if not hold.device.slice else None
    if known is not None:
        return known.name
    return f"{hold.device.name or 'GPU'}{' slice' if hold.device.slice else ''}"


def _hours(seconds: float) -> float:
    return seconds / SECONDS_PER_HOUR
