"""Reads what jobstats wrote into Slurm's accounting: https://github.com/PrincetonUniversity/jobstats.

The comment of a job is ``JS1:`` and its summary as JSON, compressed and in base64. A GPU has the mean of its
utilization and the most memory that was in use; bursts cannot be seen.
"""

from __future__ import annotations

import base64
import csv
import json
import math
import re
import zlib
from collections.abc import Iterator
from typing import Any

from memorymark.errors import UsageError
from memorymark.fleet.holds import Device, Hold, Holder, Window
from memorymark.messages import Message, OptionName

PREFIX = "JS1:"
# States of jobs that have not ended; without a state, a job may run.
RUNNING = ("RUNNING", "SUSPENDED", "", None)
# Summaries without data.
EMPTY = ("Short", "None")
LARGEST_SUMMARY_BYTES = 2**24
GZIP = 31  # zlib's way to say that the data has gzip's header
# What sacct is asked for. A table of others needs the ids, the time and the comment.
FIELDS = ("JobIDRaw", "User", "JobName", "State", "ElapsedRaw", "AllocTRES", "AdminComment")
GPU_TYPE = re.compile(r"gres/gpu:([^=,]+)=\d")


def read_sacct(text: str) -> tuple[list[Hold], int]:
    """Reads a table of ``sacct -P`` with its header.

    Returns what its jobs' GPUs did, and how many summaries are damaged, or lack the utilization of their GPUs.
    """
    csv.field_size_limit(LARGEST_SUMMARY_BYTES)
    rows = list(csv.DictReader(text.splitlines(), delimiter="|", quoting=csv.QUOTE_NONE))
    columns = set(rows[0]) if rows else set(text.splitlines()[0].split("|")) if text.strip() else set()
    if "AdminComment" not in columns or not columns & {"JobIDRaw", "JobID"}:
        raise UsageError(
            Message(
                "{option} takes a table of `sacct -a -X -P -o {fields}`, with its header.",
                option=OptionName("jobstats"),
                fields=",".join(FIELDS),
            ),
            code="malformed",
            field="jobstats",
        )
    holds: list[Hold] = []
    left_out = 0
    for row in rows:
        comment = (row.get("AdminComment") or "").strip()
        if not comment.startswith(PREFIX) or comment.removeprefix(PREFIX) in EMPTY:
            continue
        try:
            about = summary(comment)
            of_job = list(_holds(row, about))
            left_out += bool(about["gpus"]) and not of_job
            holds += of_job
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, zlib.error):
            left_out += 1
    return holds, left_out


def summary(comment: str) -> dict[str, Any]:
    """Returns the summary in a comment; raises ``ValueError`` or ``zlib.error`` if it is damaged or far too large."""
    reader = zlib.decompressobj(GZIP)
    text = reader.decompress(base64.b64decode(comment.removeprefix(PREFIX), validate=True), LARGEST_SUMMARY_BYTES)
    if not reader.eof:
        raise ValueError("the summary is cut short, or too large")
    found: dict[str, Any] = json.loads(text)
    return found


def _holds(row: dict[str, str], about: dict[str, Any]) -> Iterator[Hold]:
    seconds = _finite(about["total_time"])
    job_id = row.get("JobIDRaw") or row.get("JobID") or ""
    holder = Holder("slurm", job_id, row.get("User") or "", row.get("JobName") or "")
    kinds = set(GPU_TYPE.findall(row.get("AllocTRES") or ""))
    kind = kinds.pop() if len(kinds) == 1 else ""
    for host, node in about["nodes"].items():
        busy, used, total = (
            node.get(name) or {} for name in ("gpu_utilization", "gpu_used_memory", "gpu_total_memory")
        )
        for index, percent in busy.items():
            size = total.get(index)
            device = Device(str(host), str(index), kind, total_bytes=None if size is None else int(size))
            peak = None if used.get(index) is None else _finite(used[index])
            window = Window(seconds, min(max(_finite(percent) / 100, 0.0), 1.0), None, peak)
            yield Hold(holder, device, (window,), "jobstats", seconds, ended=row.get("State") not in RUNNING)


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("not a number")
    return number
