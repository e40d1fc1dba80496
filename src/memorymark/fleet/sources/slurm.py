"""Reads Slurm's running jobs from ``squeue --json``: who holds which GPUs, since when.

Versions differ: numbers are plain or ``{"set", "infinite", "number"}``, a state is a word or a list of words, and the
nodes of a job are listed in three ways.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from memorymark.errors import UsageError
from memorymark.fleet.holds import Device, Holder
from memorymark.messages import Message, OptionName

# ``gpu:a100:2(IDX:0,2-3)``, of which there may be several in one text.
GRES = re.compile(r"gpu:(?:(?:\(null\)|[^:(),]+):)?\d+\(IDX:(?P<indexes>[\d,-]*)\)")
# ``gpu[01-03,07]``: the parts of a list of hosts, and one with brackets.
HOSTS = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
BRACKETS = re.compile(r"\[([^\]]*)\]")
COMMAND = "squeue --json"
MOST_HOSTS = 2**16
MOST_GPUS = 256


@dataclass(frozen=True)
class SlurmJob:
    """A running job: its holder, other ids that name it, and the indexes of its GPUs by host."""

    holder: Holder
    ids: frozenset[str]
    indexes: dict[str, frozenset[int]]


@dataclass
class SlurmJobs:
    """The running jobs, found by id or by GPU."""

    jobs: list[SlurmJob] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._by_id = {one: job for job in self.jobs for one in job.ids}
        self._by_gpu: dict[tuple[str, int], list[SlurmJob]] = {}
        for job in self.jobs:
            for host, indexes in job.indexes.items():
                for index in indexes:
                    self._by_gpu.setdefault((short_name(host), index), []).append(job)

    def described(self, holder: Holder) -> Holder:
        """Returns a job that a label names with what Slurm knows about it."""
        job = self._by_id.get(holder.id)
        return replace(job.holder, id=holder.id) if job is not None else holder

    def on(self, device: Device, when: float) -> Iterator[Holder]:
        """Yields the jobs that hold a GPU at a time, as far as jobs that still run tell."""
        if not device.index.isdigit() or device.slice:
            return
        for job in self._by_gpu.get((short_name(device.host), int(device.index)), ()):
            if job.holder.started is None or when >= job.holder.started:
                yield job.holder


def read_squeue(text: str) -> SlurmJobs:
    """Reads the output of ``squeue --json``."""
    try:
        jobs = json.loads(text)["jobs"]
        found = [_job(one) for one in jobs if "RUNNING" in _words(one.get("job_state"))]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise UsageError(
            Message(
                "{option} takes what `{command}` prints; this is something else.",
                option=OptionName("slurm"),
                command=COMMAND,
            ),
            code="malformed",
            field="slurm",
        ) from None
    return SlurmJobs(found)


def _job(document: dict[str, Any]) -> SlurmJob:
    job_id, started = str(document["job_id"]), _number(document.get("start_time"))
    array, task = _number(document.get("array_job_id")), _number(document.get("array_task_id"))
    ids = {job_id, f"{array:.0f}_{task:.0f}"} if array and task is not None else {job_id}
    owner = str(document.get("user_name") or document.get("user_id") or "")
    holder = Holder("slurm", job_id, owner, str(document.get("name") or ""), started or None)
    details = [_indexes(str(detail)) for detail in document.get("gres_detail") or ()]
    hosts = _hosts(document)
    # One detail for each host, in their order; where that does not hold, nothing is guessed.
    indexes = dict(zip(hosts, details, strict=True)) if len(hosts) == len(details) else {}
    return SlurmJob(holder, frozenset(ids), indexes)


def _hosts(document: dict[str, Any]) -> list[str]:
    resources = document.get("job_resources")
    resources = resources if isinstance(resources, dict) else {}
    nodes, allocated = resources.get("nodes"), resources.get("allocated_nodes")
    if isinstance(nodes, dict) and isinstance(nodes.get("allocation"), list):
        names = [str(one.get("name") or "") for one in nodes["allocation"] if isinstance(one, dict)]
    elif isinstance(allocated, list):
        names = [str(one.get("nodename") or "") for one in allocated if isinstance(one, dict)]
    else:
        names = []
    return names if names and all(names) else expanded(str(document.get("nodes") or ""))


def expanded(hosts: str) -> list[str]:
    """Returns the hosts of a list such as ``gpu[01-03,07],login1``."""
    found: list[str] = []
    for part in HOSTS.findall(hosts):
        pieces = BRACKETS.split(part)
        choices = [_numbers(piece) if place % 2 else [piece] for place, piece in enumerate(pieces)]
        for chosen in product(*choices):
            found.append("".join(chosen))
            if len(found) > MOST_HOSTS:
                raise ValueError("too many hosts")
    return found


def _numbers(ranges: str) -> list[str]:
    found: list[str] = []
    for part in ranges.split(","):
        first, dash, last = part.partition("-")
        if not dash:
            found.append(first)
            continue
        if int(last) - int(first) > MOST_HOSTS:
            raise ValueError("too many hosts")
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found


def _indexes(detail: str) -> frozenset[int]:
    """Returns the indexes of the GPUs in ``gpu:a100:2(IDX:0,2-3)``."""
    found: set[int] = set()
    for gres in GRES.finditer(detail):
        for part in filter(None, gres["indexes"].split(",")):
            first, _, last = part.partition("-")
            if not first.isdigit() or int(last or first) - int(first) > MOST_GPUS:
                continue
            found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)


def short_name(host: str) -> str:
    """Returns a host's name without its domain, as both sides may or may not write it."""
    is_address = re.fullmatch(r"[\d.]+", host) is not None
    return host.lower() if is_address else host.lower().partition(".")[0]


def _words(state: Any) -> list[str]:
    return [str(one) for one in state] if isinstance(state, list) else [str(state)]


def _number(value: Any) -> float | None:
    """Returns a number that is written plain, or as an object that says whether it is set."""
    if isinstance(value, dict):
        value = value["number"] if value.get("set") and not value.get("infinite") else None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None
