"""Records what a GPU really does with the zoo: the truth that the prediction is held against.

python benchmarks/record_truth.py memory|time --out=FOLDER [--seconds=540] [--pairs=bert:fp32,vit:bf16]
python benchmarks/record_truth.py histories --out=FOLDER [--allocator=expandable] [--pairs=bert:fp32,vit:bf16]
python benchmarks/record_truth.py keep --out=FOLDER

``memory`` gives peaks at rising batch sizes, the exact largest batch under several caps, the allocator's history of one
step, and the scratch space of every operation. Several pairs run side by side, each kept to its share of the GPU.
``time`` gives step times and the time of every operation, one pair after the other, alone on the GPU.
``histories`` gives all that the allocator was asked for in a training, and its counters at the end of each phase.
``keep`` needs no GPU: it puts what the other two left in the folder into tests/data, and writes down which operations
the prediction has now been held against.
"""

from __future__ import annotations

import faulthandler
import gzip
import json
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import histories
import memorymark as mm
from cases import flags, machine
from memorymark.prediction.timing.known import KNOWN
from memorymark.prediction.timing.roofline import launches
from memorymark.units import GIB
from prediction import RECORDED_UNDER_GIB, TRUTH, lines_of, probe_for
from zoo import HELD_BACK, PAIRS, WORKLOADS, recipe

CAPS_GIB = [9.5, 14.2, 21.7, RECORDED_UNDER_GIB]
LARGE_CAP_GIB = 78.0
WITH_LARGE_CAP = {
    "bert:fp32",
    "bert:bf16",
    "bert:published",
    "gpt2:fp32",
    "resnet:fp32",
    "resnet:bf16",
    "llama:bf16",
    "vit:bf16",
    "t5:fp32",
    "wav2vec2:bf16",
    "unet:fp32",
    "qwen3:bf16",
    "swin:bf16",
    "bart:bf16",
}
GPU_GIB = 134.0
CONTEXT_GIB = 1.0
TRACED_SIZES = (8, 64)
TIMED_SIZES = (16, 32, 64, 128, 256, 1024, 4096)
# The fastest of several rounds: whatever else the host has to do only makes a round slower.
ROUNDS, ROUND_SECONDS, MOST_STEPS = 3, 0.25, 6


def open_probe(workload: str, recipe_name: str, cap_gib: float) -> Any:
    from memorymark.devices import open_device
    from memorymark.probe.measured import MeasuredProbe

    device = open_device(mm.Target(device="cuda", memory_cap_bytes=int(cap_gib * GIB)))
    return MeasuredProbe(WORKLOADS[workload](), recipe(recipe_name), device), device


def record_memory(workload: str, recipe_name: str) -> dict[str, Any]:
    caps = [*CAPS_GIB, *([LARGE_CAP_GIB] if f"{workload}:{recipe_name}" in WITH_LARGE_CAP else [])]
    probe, device = open_probe(workload, recipe_name, RECORDED_UNDER_GIB)
    probe.try_batch(2)
    rows, traces, recordings = [], {}, []
    size = 1
    while size <= 2**17:
        trial = probe.try_batch(size)
        if not trial.fits or trial.allocator_retries:
            break
        rows.append(
            {
                "batch_size": size,
                "allocated": trial.peak_allocated_bytes,
                "reserved": trial.peak_reserved_bytes,
                "forward": trial.forward_peak_bytes,
                "backward": trial.backward_peak_bytes,
                "resting": trial.resting_bytes,
                "device": trial.device_bytes,
            }
        )
        recordings.append(probe._recordings[-1])
        if size in TRACED_SIZES:
            traces[size] = compact(recordings[-1].trace)
        size *= 2
    scratch = {}
    for size in TRACED_SIZES:
        if size <= rows[-1]["batch_size"]:
            scratch[size] = scratch_of_operations(probe._step, size)
    probe._recording = False
    maxima = {cap: edge(probe, device, cap, recordings, rows) for cap in caps}
    facts = {"workload": workload, "recipe": recipe_name, "rows": rows, "maxima": maxima}
    return {**facts, "traces": traces, "scratch": scratch}


def edge(probe: Any, device: Any, cap_gib: float, recordings: list[Any], rows: list[dict[str, int]]) -> int | None:
    """The exact largest batch under a cap, from a guess outwards; ``None`` where not even one sample fits."""
    from memorymark.prediction.memory.forecast import forecast_maximum

    device.cap(int(cap_gib * GIB))
    device.reset()
    guess = forecast_maximum(recordings[-2], recordings[-1], device.layout(), int(cap_gib * GIB))
    if guess is None:
        last, before = rows[-1], rows[-2]
        slope = (last["allocated"] - before["allocated"]) / (last["batch_size"] - before["batch_size"])
        guess = int(last["batch_size"] + (0.985 * cap_gib * GIB - last["allocated"]) / slope)
    fits, fails, size, stride = 0, 2**30, max(guess, 1), 1
    while fails - fits > 1:
        if probe.try_batch(size).fits:
            fits = size
            size = min(size + stride, (fits + fails) // 2)
        else:
            fails = size
            size = max(size - stride, (fits + fails) // 2)
        stride *= 2
    return fits or None


def compact(trace: Any) -> dict[str, Any]:
    """Requests as sizes, frees as -1 - the number of the request; what lived before has numbers from -1 down."""
    numbers: dict[Any, int] = {}
    actions, count = [], 0
    for key, size in trace.events:
        if size > 0:
            numbers[key] = count
            actions.append(size)
            count += 1
        elif key in numbers:
            actions.append(-1 - numbers.pop(key))
    return {"before": list(trace.before.values()), "actions": actions, "marks": trace.marks}


def signature(func: Any, args: Any, kwargs: Any) -> str:
    def word(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            layout = "" if value.is_contiguous() else "~"
            return f"{str(value.dtype)[6:]}{list(value.shape)}{layout}"
        if isinstance(value, torch.UntypedStorage):
            return "storage"  # its words are its bytes, read from the GPU one by one
        return str(value)

    return f"{func}|" + ";".join(word(leaf) for leaf in tree_leaves((args, kwargs)))


class ScratchMeter(TorchDispatchMode):
    """How much each operation takes beyond what it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.scratch: dict[str, list[int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = signature(func, args, kwargs)
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        result = func(*args, **(kwargs or {}))
        after = torch.cuda.memory_allocated()
        beyond = torch.cuda.max_memory_allocated() - max(before, after)
        count, most, _ = self.scratch.get(name, [0, 0, 0])
        self.scratch[name] = [count + 1, max(most, beyond), after - before]
        return result


def scratch_of_operations(step: Any, size: int) -> dict[str, list[int]]:
    with ScratchMeter() as meter:
        step(size)
    return meter.scratch


class Stopwatch(TorchDispatchMode):
    """The device's time for each operation."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[str, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        result = func(*args, **(kwargs or {}))
        end.record()
        self.events.append((signature(func, args, kwargs), start, end))
        return result


def time_of_operations(step: Any, size: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    for _ in range(2):
        with Stopwatch() as watch:
            step(size)
        torch.cuda.synchronize()
        for name, start, end in watch.events:
            times.setdefault(name, []).append(start.elapsed_time(end))
    return {name: [len(values) / 2, round(median(values), 5)] for name, values in times.items()}


def record_time(workload: str, recipe_name: str) -> dict[str, Any]:
    probe, device = open_probe(workload, recipe_name, LARGE_CAP_GIB)
    probe._recording = False
    probe.try_batch(2)
    rows, operations = [], {}
    for size in TIMED_SIZES:
        trial = probe.try_batch(size)
        if not trial.fits:
            break
        seconds = fastest(lambda count, size=size: device.time_steps(lambda: probe._step(size), count))
        rows.append({"batch_size": size, "seconds": seconds, "allocated": trial.peak_allocated_bytes})
        if size in (64, 256):
            operations = {size: time_of_operations(probe._step, size)}
        if trial.peak_allocated_bytes > 12 * GIB:
            break
    return {"workload": workload, "recipe": recipe_name, "rows": rows, "operations": operations}


def fastest(time_steps: Callable[[int], list[float]]) -> float:
    steps = min(max(int(ROUND_SECONDS / time_steps(1)[0]), 2), MOST_STEPS)
    return min(median(time_steps(steps)) for _ in range(ROUNDS))


def run_all(job: Callable[..., Any], pairs: list[tuple[str, str]], weight: Callable[..., float]) -> Iterator[Any]:
    """Runs each pair in a process of its own, as many side by side as the GPU has room for."""
    import transformers

    for name in dict.fromkeys(name for name, _ in pairs):
        WORKLOADS[name]().build  # noqa: B018 - resolves the workload
    for kind in ("Bert", "GPT2", "Llama", "T5", "ViT", "Wav2Vec2"):
        getattr(transformers, f"{kind}Config")
    from transformers import AutoModelForSequenceClassification  # noqa: F401

    context = get_context("fork")
    waiting, running, used = list(pairs), {}, 0.0
    deadline = time.monotonic() + float(flags().get("seconds", 540))
    while waiting or running:
        while waiting and time.monotonic() < deadline and used + weight(*waiting[0]) <= GPU_GIB:
            pair = waiting.pop(0)
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_send, args=(sender, job, pair))
            process.start()
            sender.close()
            running[receiver] = (pair, process, time.monotonic())
            used += weight(*pair)
        if not running:
            break
        for receiver in wait(list(running), timeout=5):
            pair, process, started = running.pop(receiver)
            used -= weight(*pair)
            try:
                result = receiver.recv()
            except EOFError:
                result = {"error": f"died with exit code {process.exitcode}"}
            process.join()
            print(*pair, f"{time.monotonic() - started:.1f} s", result.get("error", ""), flush=True)
            yield pair, result
        if time.monotonic() > deadline + 40:
            for pair, process, _ in running.values():
                print("stopped", *pair, flush=True)
                process.kill()
            break


def _send(sender: Connection, job: Callable[..., Any], pair: tuple[str, str]) -> None:
    faulthandler.dump_traceback_later(60)  # says where a step hangs
    try:
        sender.send(job(*pair))
    except Exception as error:
        sender.send({"error": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"})


def keep(folder: Path) -> None:
    """Adds what was recorded to the truth; the memory of a pair that was recorded before is replaced."""
    kept = {(true["workload"], true["recipe"]): true for true in lines_of(TRUTH)}
    for pair in lines_of(folder / "memory.jsonl"):
        rows = [{name: row[name] for name in ("batch_size", "allocated", "reserved")} for row in pair["rows"]]
        times = kept.get((pair["workload"], pair["recipe"]), {}).get("times", [])
        kept[pair["workload"], pair["recipe"]] = {**pair, "rows": rows, "times": times}
    for pair in lines_of(folder / "time.jsonl"):
        name = {"workload": pair["workload"], "recipe": pair["recipe"]}
        true = kept.setdefault(tuple(name.values()), {**name, "rows": [], "maxima": {}, "times": []})
        true["times"] = with_recording(true["times"], pair["rows"])
    TRUTH.write_text("".join(json.dumps(kept[pair]) + "\n" for pair in sorted(kept)))
    steps = [probe_for(workload, recipe_name, "h200")._step for workload, recipe_name in kept]
    operations = [growth.operation for step in steps for growth in (*step.first.operations, *step.later.operations)]
    names = sorted({operation.name for operation in operations if launches(operation)})
    KNOWN.write_text("".join(f"{name}\n" for name in names))


def with_recording(times: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Step times with those of one more sitting; kept twice, it counts once."""
    recorded = {time["batch_size"]: time["recorded_seconds"] for time in times}
    for row in rows:
        seconds, before = round(row["seconds"], 6), recorded.get(row["batch_size"], [])
        recorded[row["batch_size"]] = before if seconds in before else [*before, seconds]
    return [{"batch_size": size, "recorded_seconds": recorded[size]} for size in sorted(recorded)]


def main() -> None:
    what = sys.argv[1]
    if what == "keep":
        keep(Path(flags()["out"]))
        return
    asked = flags().get("pairs")
    named = [tuple(pair.split(":")) for pair in asked.split(",")] if asked else []
    if what == "histories":
        histories.record_all(Path(flags()["out"]), flags().get("allocator", "default"), named or histories.PAIRS)
        print(machine())
        return
    pairs = named or [*PAIRS, *HELD_BACK]

    def weight(workload: str, recipe_name: str) -> float:
        if what == "time":
            return GPU_GIB
        large = f"{workload}:{recipe_name}" in WITH_LARGE_CAP
        return (LARGE_CAP_GIB if large else max(CAPS_GIB)) + CONTEXT_GIB

    job = record_memory if what == "memory" else record_time
    folder = Path(flags()["out"])
    details = ("traces", "scratch", "operations")
    with (folder / f"{what}.jsonl").open("w") as plain, gzip.open(folder / f"{what}_details.jsonl.gz", "wt") as packed:
        for pair, result in run_all(job, pairs, weight):
            if "error" in result:
                continue
            short = {key: value for key, value in result.items() if key not in details}
            plain.write(json.dumps(short) + "\n")
            plain.flush()
            long = {key: value for key, value in result.items() if key in details}
            packed.write(json.dumps({"workload": pair[0], "recipe": pair[1], **long}) + "\n")
    print(machine())


if __name__ == "__main__":
    main()
