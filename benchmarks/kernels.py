"""How far the models of time and of scratch space are off for single operations on an NVIDIA H200. Needs no GPU.

python benchmarks/kernels.py [--only=convolution,resize] [--out=FOLDER] [--record]

The truth is in tests/data/h200_single_kernels.json.gz (recorded by record_kernels.py). Every third operation, by a hash
of its description, was set aside before any rule was fitted to the others. Times count where the GPU did not wait for
the host. Scratch space is compared with all that an operation allocates, its results included. With --record the errors
go into tests/data, from which docs/accuracy.md is made, and what the held-out operations run, which a test predicts.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

import torch

from cases import flags, machine, rounded, save, table, versions
from kernel_cases import CALL, Numbers
from memorymark.catalog import find_gpu
from memorymark.prediction.memory.allocator import ROUND_BYTES
from memorymark.prediction.memory.scratch import scratch_of
from memorymark.prediction.memory.scratch_space import Scratch
from memorymark.prediction.timing.roofline import device_seconds, launches
from memorymark.prediction.tracing.operation import Operation, TensorFacts
from memorymark.units import MIB

DATA = Path(__file__).parents[1] / "tests" / "data"
TRUTH = DATA / "h200_single_kernels.json.gz"
RECORD = DATA / "h200_predicted_kernels.json"
HELD_OUT = DATA / "h200_held_out_kernels.json.gz"
# Of an optimizer, what is kept has at most so many tensors.
MOST_TENSORS = 16
MEASURED = ("ms", "host_ms", "scratch", "made")
HELD_OUT_EVERY = 3
# A time counts from this many milliseconds, and this many times those of the host, on.
LEAST_MS, OF_HOST = 0.03, 1.5
# Beyond what is asked for, the allocator hands out up to this much.
BLOCK_BYTES = MIB + ROUND_BYTES
GPU = find_gpu("h200")


@dataclass(frozen=True)
class Compared:
    """One operation: how many times its true time the predicted one is, and how far its peak is off."""

    family: str
    held_out: bool
    time_ratio: float | None
    scratch_error: float


def truth() -> list[Numbers]:
    """The recorded operations."""
    rows: list[Numbers] = json.loads(gzip.decompress(TRUTH.read_bytes()))
    return [row for row in rows if "error" not in row]


def held_out(numbers: Numbers) -> bool:
    """Tells whether the rules must not be fitted to an operation."""
    description = json.dumps({name: value for name, value in numbers.items() if name not in MEASURED}, sort_keys=True)
    return int(sha256(description.encode()).hexdigest(), 16) % HELD_OUT_EVERY == 0


def family(numbers: Numbers) -> str:
    """The kind of an operation in the tables."""
    kind, backward = numbers["kind"], " backward" if numbers.get("backward") else ""
    if kind == "convolution":
        return f"convolution {len(numbers['shape']) - 2}-d{_sort(numbers)}"
    if kind in ("product", "attention"):
        return f"{kind} {numbers['type']}{backward}"
    if kind == "pointwise":
        return kind
    return f"{kind} {numbers['name']}{backward}"


def _sort(numbers: Numbers) -> str:
    if numbers["transposed"]:
        return " transposed"
    if numbers["groups"] > 1:
        return " depthwise" if numbers["groups"] == numbers["shape"][1] else " grouped"
    return " dilated" if numbers["dilation"] > 1 else ""


def traced(rows: Iterable[Numbers]) -> Iterator[tuple[Numbers, list[Operation]]]:
    """What each case runs, as a step of training is traced."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from memorymark.prediction.tracing.cuda_choices import cuda_choices
    from memorymark.prediction.tracing.tracer import Tracer

    with cuda_choices(GPU.capability):
        for row in rows:
            fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
            tracer = Tracer(fake_mode)
            with fake_mode, tracer:
                run = CALL[row["kind"]](row, "cpu")
                trace = tracer.start()
                run()
            yield row, trace.operations


def compared(row: Numbers, operations: list[Operation]) -> Compared:
    """How far both models are off for one operation."""
    ratio = None
    if row["ms"] > max(LEAST_MS, OF_HOST * row["host_ms"]):
        tf32 = row.get("type") == "tf32"
        seconds = sum(device_seconds(op, GPU, tf32=tf32) for op in operations if launches(op))
        ratio = 1e3 * seconds / row["ms"]
    error = predicted_peak(operations) - max(row["made"], 0) - row["scratch"]
    share = error / (row["scratch"] + row["made"]) if abs(error) > BLOCK_BYTES else 0.0
    return Compared(family(row), held_out(row), ratio, share)


def predicted_peak(operations: list[Operation]) -> int:
    """The peak of what the operations allocate, their results included."""
    live: dict[int, int] = {}
    peak = 0
    for op in operations:
        for storage in op.freed:
            live.pop(storage, None)
        scratch = scratch_of(op, GPU)
        copies, made = sum(map(_blocks, scratch.copies)), [_blocks(size) for _, size in op.made_on_device]
        held = sum(live.values()) + copies
        peak = max(peak, held + _highest(scratch, made))
        live |= {storage: _blocks(size) for storage, size in op.made_on_device}
    return peak


def _highest(scratch: Scratch, made: list[int]) -> int:
    """The most that results and the space after them take; with ``each_result``, each of it comes after its result."""
    if not scratch.each_result:
        return sum(made) + Scratch(scratch.after).peak_bytes
    spaces = [Scratch((space,)).peak_bytes for space in scratch.after]
    return max((sum(made[: place + 1]) + space for place, space in enumerate(spaces)), default=sum(made))


def _blocks(size: int) -> int:
    return -(-size // ROUND_BYTES) * ROUND_BYTES


def summary(results: list[Compared], number: str) -> list[list[object]]:
    """A line for each family and one for each kind: of the fitted and of the held-out operations."""
    groups: dict[str, list[Compared]] = defaultdict(list)
    for result in results:
        groups[result.family].append(result)
        groups[f"all {result.family.partition(' ')[0]}"].append(result)
    rows: list[list[object]] = []
    for name in sorted(groups):
        row: list[object] = [name]
        for held in (False, True):
            chosen = [result for result in groups[name] if result.held_out is held]
            row += COLUMNS[number][1](chosen)
        rows.append(row)
    return rows


def of_time(results: list[Compared]) -> list[object]:
    ratios = [result.time_ratio for result in results if result.time_ratio is not None]
    if not ratios:
        return [0, "", "", ""]
    errors = sorted(abs(ratio - 1) for ratio in ratios)
    return [len(ratios), f"{median(ratios):.2f}", *(f"{100 * error:.0f} %" for error in (median(errors), high(errors)))]


def of_scratch(results: list[Compared]) -> list[object]:
    errors = sorted(abs(result.scratch_error) for result in results)
    if not errors:
        return [0, "", "", ""]
    exact = sum(error == 0.0 for error in errors)
    return [
        len(errors),
        f"{100 * exact / len(errors):.0f} %",
        *(f"{100 * e:.0f} %" for e in (median(errors), high(errors))),
    ]


def high(errors: list[float]) -> float:
    """The 95th percentile of sorted errors."""
    return errors[int(0.95 * (len(errors) - 1))]


COLUMNS: dict[str, Any] = {
    "time": (["n", "median ratio", "median error", "95 %"], of_time),
    "scratch": (["n", "exact", "median error", "95 %"], of_scratch),
}


def record(results: list[Compared]) -> None:
    """Writes the errors of all operations down."""
    document: dict[str, Any] = {"command": "python benchmarks/kernels.py --record", "made_with": versions()}
    families: dict[str, Any] = defaultdict(lambda: defaultdict(list))
    for result in results:
        errors = families[result.family][f"{'held_out' if result.held_out else 'fitted'}"]
        errors.append([result.time_ratio, result.scratch_error])
    for family_name in families.values():
        for which, errors in family_name.items():
            times = [ratio - 1 for ratio, _ in errors if ratio is not None]
            family_name[which] = {"time": rounded(times), "scratch": rounded([error for _, error in errors])}
    RECORD.write_text(json.dumps(document | {"families": families}, sort_keys=True) + "\n")


def keep_held_out(cases: list[tuple[Numbers, list[Operation]]]) -> None:
    """Writes down what the held-out cases run, from which a test predicts them without tracing."""
    kept = [
        {"row": row, "operations": [_document(op) for op in operations]}
        for row, operations in cases
        if held_out(row) and len(row.get("sizes", ())) <= MOST_TENSORS
    ]
    HELD_OUT.write_bytes(gzip.compress(json.dumps(kept).encode(), mtime=0))


def kept_held_out() -> Iterator[tuple[Numbers, list[Operation]]]:
    """The cases that were written down, and what they run."""
    for case in json.loads(gzip.decompress(HELD_OUT.read_bytes())):
        yield case["row"], [_operation(document) for document in case["operations"]]


def _document(op: Operation) -> list[Any]:
    inputs, outputs = ([_facts(tensor) for tensor in tensors] for tensors in (op.inputs, op.outputs))
    return [op.name, inputs, outputs, op.arguments, op.freed, op.made]


def _facts(tensor: TensorFacts) -> list[Any]:
    return [tensor.shape, str(tensor.dtype).removeprefix("torch."), tensor.contiguous, tensor.channels_last]


def _operation(document: list[Any]) -> Operation:
    name, inputs, outputs, arguments, freed, made = document
    read, written = (
        tuple(TensorFacts(tuple(shape), getattr(torch, dtype), 0, *layout) for shape, dtype, *layout in tensors)
        for tensors in (inputs, outputs)
    )
    return Operation(name, read, written, tuple(arguments), tuple(freed), tuple(map(tuple, made)))


def main() -> None:
    only = flags()["only"].split(",") if "only" in flags() else list(CALL)
    rows = [row for row in truth() if row["kind"] in only]
    cases = list(traced(rows))
    results = [compared(row, operations) for row, operations in cases]
    tables = []
    for number, (columns, _) in COLUMNS.items():
        header = [number, *columns, *(f"held out: {column}" for column in columns)]
        tables.append(table(header, summary(results, number)))
    if "record" in flags() and "only" not in flags():
        record(results)
        keep_held_out(cases)
    save("kernels", "\n\n".join([machine(), *tables]))


if __name__ == "__main__":
    main()
