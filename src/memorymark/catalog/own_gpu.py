"""A GPU of the caller's own: the fields of the catalog as a JSON object, most of them optional."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from memorymark.catalog.gpus import SPEEDS, GpuEntry, Price, entry_of
from memorymark.checks.nearest import did_you_mean, letters, nearest
from memorymark.checks.types import shown
from memorymark.errors import Code, UsageError

LARGEST_FACTS_BYTES = 16 * 1024
MOST_CHARACTERS = 100
# No GPU has a thousand times more than today's largest; beyond, numbers stop making sense.
MOST = 1e9
CAPABILITY = re.compile(r"[7-9]\.\d|1\d\.\d")


@dataclass(frozen=True)
class _Fact:
    """One field: what it is in words, and whether a value is that. ``least`` and ``most`` bound numbers."""

    words: str
    is_valid: Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= MOST_CHARACTERS and value.isprintable()


def _is_number(value: Any, *, least: float = 0, whole: bool = False) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return is_number and (value > 0 or (least == 0 and value == 0)) and value <= MOST and (not whole or value % 1 == 0)


def _is_context(value: Any) -> bool:
    is_list = isinstance(value, list) and len(value) == 3
    return is_list and all(_is_number(one, least=1) for one in value) and value == sorted(value)


ABOVE_0 = _Fact("a number above 0", partial(_is_number, least=1))
COUNT = _Fact("a whole number above 0", partial(_is_number, least=1, whole=True))
FROM_0 = _Fact("a number, 0 or more", _is_number)
TEXT = _Fact("a short text", _is_text)
FLAG = _Fact("true or false", lambda value: isinstance(value, bool))
SEGMENTS = ("datacenter", "workstation", "desktop")
FACTS = {
    "id": TEXT,
    "name": TEXT,
    "memory_mib": COUNT,
    "torch_memory_mib": COUNT,
    "memory_only": FLAG,
    "memory_estimated": FLAG,
    "context_mib": _Fact("three numbers: the least, the usual and the most", _is_context),
    "compute_capability": _Fact(
        'a compute capability of 7.0 or later, such as "8.9"',
        lambda value: isinstance(value, str) and CAPABILITY.fullmatch(value) is not None,
    ),
    "multiprocessors": COUNT,
    "boost_clock_mhz": ABOVE_0,
    "l2_cache_mib": ABOVE_0,
    "power_watts": ABOVE_0,
    "inline_ecc": FLAG,
    "fp32_tflops": ABOVE_0,
    "tf32_tflops": ABOVE_0,
    "half_tflops": ABOVE_0,
    "bandwidth_gb_per_second": ABOVE_0,
    "host_link_gb_per_second": ABOVE_0,
    "nvlink_gb_per_second": FROM_0,
    "usd_per_hour": FROM_0,
    "segment": _Fact("datacenter, workstation or desktop", SEGMENTS.__contains__),
    "matches": _Fact("a list of texts", lambda value: isinstance(value, list) and all(map(_is_text, value))),
}
ALWAYS = ("name", "memory_mib", "compute_capability", "multiprocessors")
FOR_SPEED = ("boost_clock_mhz", "bandwidth_gb_per_second")


def own_gpu(facts: Mapping[str, Any]) -> GpuEntry:
    """Returns the entry of a GPU that the caller describes; raises on the first field that is missing or wrong."""
    _check(facts)
    usual = {name: value for name, value in _usual(facts).items() if name not in facts}
    price = (Price(facts["usd_per_hour"], "as given"),) if "usd_per_hour" in facts else ()
    entry = entry_of({**usual, **facts, "matches": []}, price, dict(facts))
    if entry.context_bytes[-1] >= entry.torch_memory_bytes:
        raise _wrong("memory_mib of a GPU must leave more than its context_mib takes.", "out_of_range")
    return entry


def _check(facts: Any) -> None:
    if not isinstance(facts, Mapping):
        raise _wrong(f"a GPU is described by a JSON object with its {', '.join(ALWAYS)}, not {shown(facts)}.")
    for name, value in facts.items():
        if name not in FACTS:
            near = did_you_mean(nearest(name, list(FACTS))) if isinstance(name, str) else ""
            said = near or f"it may have {', '.join(FACTS)}. "
            raise _wrong(f"the description of a GPU has no field {shown(name)}: {said.strip()}", "unknown_option")
        if not FACTS[name].is_valid(value):
            raise _wrong(f"{name} of a GPU must be {FACTS[name].words}, not {shown(value)}.")
    needed = ALWAYS if facts.get("memory_only") else ALWAYS + FOR_SPEED
    missing = next((name for name in needed if name not in facts), None)
    if missing is not None:
        raise _wrong(f"the description of a GPU lacks {missing}: {FACTS[missing].words}.", "missing")
    if facts.get("torch_memory_mib", 0) > facts["memory_mib"]:
        raise _wrong("torch_memory_mib of a GPU must not be above its memory_mib, which is what the driver reports.")


def _usual(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the other fields are as a rule: those of a GeForce card of that generation."""
    memory, generation = facts["memory_mib"], tuple(map(int, facts["compute_capability"].split(".")))
    fp32 = _fp32_tflops(facts, generation)
    is_large = generation in ((8, 0), (9, 0)) or generation[0] == 10
    return {
        "id": letters(facts["name"].lower()) or "own",
        "torch_memory_mib": memory - min(memory * 0.02 + 150, memory * 0.05),
        "memory_estimated": "torch_memory_mib" not in facts,
        "context_mib": [400, 600, 850] if generation >= (9, 0) else [300, 400, 600],
        "l2_cache_mib": 40 if is_large else 32 if generation >= (8, 9) else 5,
        "fp32_tflops": fp32,
        "tf32_tflops": facts.get("fp32_tflops", fp32),
        "half_tflops": facts.get("fp32_tflops", fp32) * (4 if generation < (8, 0) else 16 if is_large else 2),
        "host_link_gb_per_second": 12 if generation < (8, 0) else 50 if generation >= (9, 0) else 24,
        "nvlink_gb_per_second": 0,
    } | (dict.fromkeys(SPEEDS, 0) if facts.get("memory_only") else {})


def _fp32_tflops(facts: Mapping[str, Any], generation: tuple[int, ...]) -> float:
    cores = 64 if generation in ((7, 0), (7, 5), (8, 0)) else 128
    return float(2 * cores * facts["multiprocessors"] * facts.get("boost_clock_mhz", 0) / 1e6)


def _wrong(sentence: str, code: Code = "wrong_type") -> UsageError:
    return UsageError(sentence, code=code, field="gpu")
