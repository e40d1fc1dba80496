"""What GPUs did, made by hand."""

from memorymark.fleet.holds import Device, Hold, Holder, Window
from memorymark.fleet.ranking import rank
from memorymark.results.fleet import Fleet, totals
from memorymark.units import GIB

HOUR = 3600.0
A100 = Device("g1", "0", "NVIDIA A100-SXM4-80GB", total_bytes=80 * GIB)
H100 = Device("g2", "0", "NVIDIA H100 80GB HBM3", total_bytes=80 * GIB)


def windows(*busy, seconds=HOUR, deviation=0.0, used_gib=60, tensor=0.4, dram=0.4):
    """Windows, each as busy as it says."""
    return tuple(Window(seconds, one, deviation, used_gib * GIB, tensor, dram) for one in busy)


def hold(*busy, device=A100, holder="1", age=24 * HOUR, ended=False, source="prometheus", **facts):
    """What one GPU did for a job."""
    who = Holder("slurm", holder, "alice", "train")
    return Hold(who, device, windows(*busy, **facts), source, age, ended)


def fleet_of(holds, **facts):
    """The fleet of these, as Prometheus would say it of a week."""
    jobs = rank(holds)
    whole = {
        "at": "2026-11-19T20:00:00.000+00:00",
        "seconds": 7 * 86_400.0,
        "window_seconds": 1800.0,
        "sampled": False,
        "sources": ("prometheus",),
        "price_per_hour": None,
        "gpus": len(holds),
        "free_gpu_hours": 0.0,
    }
    return Fleet(**{**whole, **totals(jobs), "jobs": jobs, **facts})
