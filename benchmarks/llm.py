"""Fine-tunings of language models, as predicted and as an NVIDIA H200 really ran them.

python benchmarks/llm.py [--only=QLoRA,llama-3.1-8b] [--record]     the table; needs no GPU
python benchmarks/llm.py measure --out=FOLDER [--set=held-out] [--only=QLoRA,llama-3.1-8b] [--seconds=540] [--gib=134]
python benchmarks/llm.py foretell --out=FOLDER [--set=second]      what is predicted before it is measured
python benchmarks/llm.py keep --out=FOLDER

``measure`` needs a CUDA GPU of 141 GB, peft, and bitsandbytes for quantized weights and its optimizers. Cases run
side by side, each with its allocator capped, since memory does not depend on what else runs; times are not taken.
``--set=missing`` measures what tests/data does not have yet. ``keep`` puts what was measured there, and the names of
new operations among those whose memory is known; ``--record`` writes the errors of predictions, for docs/accuracy.md.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache
from importlib.util import find_spec
from math import nan
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from statistics import median
from typing import Any

import memorymark as mm
from cases import flags, machine, rounded, save, table, versions
from llm_cases import HELD_OUT, LOOKED_AT, SECOND, Case
from memorymark.keywords import make_request
from memorymark.largest_batch import find_maximum
from memorymark.prediction.timing.known import UNTIMED, never_timed
from memorymark.units import GIB

DATA = Path(__file__).parents[1] / "tests" / "data"
TRUTH, RECORD = DATA / "h200_llm.jsonl", DATA / "h200_predicted_llm.json"
CONTEXT_GIB = 1.0
SIDE_BY_SIDE = 6


def request_of(case: Case, **target: Any) -> mm.Request:
    """The case as a request for a device or a GPU."""
    facts = {"seq_len": case.seq_len, "memory_gib": case.cap_gib, "small": False}
    return make_request(case.model, {**facts, **case.options, **target})


def measured(case: Case) -> dict[str, Any]:
    """Peaks at the case's sizes, each as a training that starts with it, and the largest batch under its cap."""
    from memorymark.devices import open_device
    from memorymark.models.workloads import workload_of
    from memorymark.probe.measured import MeasuredProbe

    request = request_of(case, device="cuda")
    device, workload = open_device(request.target), workload_of(request)
    workload = one_text(workload, case.seq_len) if case.longest else workload
    recipe = request.recipe
    with flash_kernels(recipe), MeasuredProbe(workload, recipe, device, allocator=recipe.allocator) as probe:
        return {**asdict(case), **answers(probe, case.sizes)}


def one_text(workload: Any, unit: int) -> Any:
    """The workload with batches of one text, whose size counts units of so many tokens."""
    import torch

    def batch(size: int, device: Any) -> dict[str, Any]:
        words = torch.randint(1000, 2000, (1, size * unit), device=device)
        return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": words.clone()}

    return replace(workload, batch=batch)


@contextmanager
def flash_kernels(recipe: Any) -> Iterator[None]:
    """Lets models run FlashAttention without the package: torch has the same kernels."""
    if recipe.attention != "flash" or find_spec("flash_attn") is not None:
        yield
        return
    from functools import partial

    import torch
    import transformers.modeling_flash_attention_utils  # noqa: F401 - the context changes it if it is imported

    from memorymark.prediction.tracing.flash_attention import flash_attention
    from memorymark.training import step

    real = step.prepare_model
    step.prepare_model = partial(real, to_trace=True)
    try:
        with flash_attention(torch.cuda.get_device_capability()):
            yield
    finally:
        step.prepare_model = real


def predicted(case: Case, sizes: list[int]) -> dict[str, Any]:
    """The same, predicted."""
    if case.longest:
        return {"rows": rows_of(length_trials(case, sizes)), "maximum": longest_of(case, sizes)}
    return answers(probe_for(case), sizes)


def length_trials(case: Case, sizes: Any) -> list[Any]:
    """Predicted trials of one text of these sizes, each of which takes a trace."""
    found = []
    for size in sizes:
        length = replace(case, longest=False, seq_len=size * case.seq_len)
        found.append(replace(probe_for(length).try_from_start(1), batch_size=size))
    return found


def longest_of(case: Case, sizes: list[int]) -> int:
    """The largest size that is predicted to fit, found near where the memory of smaller ones leads."""
    from memorymark.largest_batch import MAX_BATCH, largest_that

    small, large = length_trials(case, (sizes[0], sizes[-1]))
    each = (large.peak_reserved_bytes - small.peak_reserved_bytes) / (sizes[-1] - sizes[0])
    guess = int(sizes[-1] + (case.cap_gib * GIB - large.peak_reserved_bytes) / each)

    @cache
    def fits(size: int) -> bool:
        return bool(length_trials(case, [size])[0].fits)

    return largest_that(fits, max(guess, 1), MAX_BATCH, stride=max(guess // 50, 1))


def probe_for(case: Case) -> Any:
    """A probe that predicts the case."""
    from memorymark.catalog import find_gpu
    from memorymark.models.workloads import workload_of
    from memorymark.prediction.tracing.fake_step import trace_training
    from memorymark.probe.predicted import PredictedProbe

    request, gpu = request_of(case, gpu="h200"), find_gpu("h200")
    step = trace_training(workload_of(request), request.recipe, gpu.capability)
    cap_bytes, kind = request.target.memory_cap_bytes, request.recipe.allocator
    return PredictedProbe(step, request.recipe, gpu, memory_cap_bytes=cap_bytes, allocator=kind)


def answers(probe: Any, sizes: Any) -> dict[str, Any]:
    trials = [probe.try_from_start(size) for size in sizes]
    found = find_maximum(probe.try_batch, probe.info.capacity_bytes, guide=probe, from_start=probe.try_from_start)
    return {"rows": rows_of(trials), "maximum": found.maximum}


def rows_of(trials: list[Any]) -> list[dict[str, Any]]:
    return [
        {
            "batch_size": one.batch_size,
            "allocated": one.peak_allocated_bytes,
            "reserved": one.peak_reserved_bytes,
            "forward": one.forward_peak_bytes,
            "backward": one.backward_peak_bytes,
            "resting": one.resting_bytes,
        }
        for one in trials
        if one.fits
    ]


def measure(cases: list[Case], folder: Path) -> None:
    """Runs each case in a process of its own, as many side by side as the GPU has room for."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "llm.jsonl").open("w") as file:
        for result in _run_all(measured, cases, float(flags().get("seconds", 540)), float(flags().get("gib", 134))):
            file.write(json.dumps(result) + "\n")
            file.flush()


def _run_all(
    job: Callable[[Case], dict[str, Any]], cases: list[Case], seconds: float, room_gib: float
) -> Iterator[dict[str, Any]]:
    # Asked through the driver's library, torch leaves CUDA alone in this process, and a fork stays usable.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification  # noqa: F401

    context = get_context("fork")
    waiting, running, used = sorted(cases, key=lambda case: -case.cap_gib), {}, 0.0
    deadline = time.monotonic() + seconds
    while waiting or running:
        for case in list(waiting):
            room = case.cap_gib + CONTEXT_GIB
            if len(running) < SIDE_BY_SIDE and used + room <= room_gib and time.monotonic() < deadline:
                waiting.remove(case)
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_send, args=(sender, job, case))
                process.start()
                sender.close()
                running[receiver] = (case, process, time.monotonic())
                used += room
        if not running:
            break
        for receiver in wait(list(running), timeout=5):
            case, process, started = running.pop(receiver)
            used -= case.cap_gib + CONTEXT_GIB
            try:
                result = receiver.recv()
            except EOFError:
                result = {"error": f"died with exit code {process.exitcode}"}
            process.join()
            said = result.get("error", result.get("maximum"))
            print(case.model, case.name, f"{time.monotonic() - started:.1f} s", said, flush=True)
            yield {**asdict(case), **result}
        if time.monotonic() > deadline + 30:
            for case, process, _ in running.values():
                print("stopped", case.model, case.name, flush=True)
                process.kill()
            return
    for case in waiting:
        print("no time for", case.model, case.name, flush=True)


def _send(sender: Connection, job: Callable[[Case], dict[str, Any]], case: Case) -> None:
    try:
        sender.send(job(case))
    except Exception as error:
        sender.send({"error": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"})


def keep(folder: Path) -> None:
    """Adds what was measured to the truth; a case that was measured before is replaced."""
    kept = {case_of(true).key: true for true in truth()}
    for line in (folder / "llm.jsonl").read_text().splitlines():
        if "error" not in (true := json.loads(line)):
            kept[case_of(true).key] = {name: true[name] for name in (*asdict(case_of(true)), "rows", "maximum")}
    ordered = [kept[case.key] for case in (*LOOKED_AT, *HELD_OUT, *SECOND) if case.key in kept]
    TRUTH.write_text("".join(json.dumps(true) + "\n" for true in ordered))
    steps = [probe_for(replace(case_of(true), longest=False)).step for true in ordered]
    names = {name for step in steps for program in (step.first, step.later) for name in never_timed(program)}
    UNTIMED.write_text("".join(f"{name}\n" for name in sorted(names)))


def foretell(cases: list[Case], folder: Path) -> None:
    """Writes down what is predicted of cases that were not measured yet."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "llm_foretold.jsonl").open("a") as file:
        for case in cases:
            start = time.monotonic()
            found = {**asdict(case), **predicted(case, list(case.sizes))}
            print(case.model, case.name, f"{time.monotonic() - start:.0f} s", found["maximum"], flush=True)
            file.write(json.dumps(found) + "\n")
            file.flush()


def truth() -> list[dict[str, Any]]:
    """What was measured."""
    return [json.loads(line) for line in TRUTH.read_text().splitlines()] if TRUTH.exists() else []


def case_of(true: dict[str, Any]) -> Case:
    facts = {name: true[name] for name in ("name", "model", "seq_len", "options", "cap_gib")}
    return Case(**facts, sizes=tuple(true["sizes"]), longest=true.get("longest", False))


def cases_of(name: str) -> list[Case]:
    """The cases of a set."""
    if name == "missing":
        known = {case_of(true).key for true in truth()}
        return [case for case in (*LOOKED_AT, *HELD_OUT, *SECOND) if case.key not in known]
    return {"looked-at": LOOKED_AT, "held-out": HELD_OUT, "second": SECOND}[name]


def compare(true: dict[str, Any]) -> dict[str, Any]:
    """How far the predictions of a measured case are off, as shares; positive if they are too high.

    A size that is not predicted to fit has no peaks; that it was missed shows in the largest batch.
    """
    case = case_of(true)
    said = predicted(case, [row["batch_size"] for row in true["rows"]])
    by_size = {row["batch_size"]: row for row in said["rows"]}
    pairs = [(by_size[row["batch_size"]], row) for row in true["rows"] if row["batch_size"] in by_size]
    return {
        **{name: getattr(case, name) for name in ("model", "name", "seq_len", "cap_gib")},
        "held_out": case in (*HELD_OUT, *SECOND),
        "allocated": [mine["allocated"] / row["allocated"] - 1 for mine, row in pairs],
        "reserved": [mine["reserved"] / row["reserved"] - 1 for mine, row in pairs],
        "largest": true["maximum"],
        "predicted": said["maximum"],
    }


def report(wanted: Callable[[Case], bool]) -> None:
    """Prints how far the predictions of all measured cases are off."""
    found = [compare(true) for true in truth() if wanted(case_of(true))]
    header = ["model", "recipe", "tokens", "set", "allocated, worst", "reserved, worst", "under"]
    rows = [
        [
            *(one[name] for name in ("model", "name", "seq_len")),
            "held out" if one["held_out"] else "looked at",
            *(f"{100 * max(one[name], key=abs, default=nan):+.3f} %" for name in ("allocated", "reserved")),
            *(f"{one['cap_gib']} GiB", one["largest"], one["predicted"]),
        ]
        for one in found
    ]
    save("llm", table([*header, "largest batch", "predicted"], rows))
    for title, held_out in (("looked at", False), ("held out", True)):
        summarize(title, [one for one in found if one["held_out"] is held_out])
    if "record" in flags():
        cases = [{name: rounded(value) for name, value in one.items()} for one in found]
        command = "python benchmarks/llm.py --record"
        RECORD.write_text(json.dumps({"made_with": versions(), "command": command, "cases": cases}, indent=1) + "\n")


def summarize(title: str, found: list[dict[str, Any]]) -> None:
    """Prints the errors of a set in a few lines."""
    if not found:
        return
    print(f"{title}: {len(found)} cases")
    for name in ("allocated", "reserved"):
        errors = [abs(error) for one in found for error in one[name]]
        print(f"  {name}: median {100 * median(errors):.3f} %, worst {100 * max(errors):.3f} %, {len(errors)} peaks")
    off = [abs(one["predicted"] / one["largest"] - 1) for one in found]
    print(f"  largest batch: {off.count(0)} of {len(off)} exact, worst off by {100 * max(off):.1f} %")


def main() -> None:
    """Does what the first argument says."""
    asked = flags()

    def wanted(case: Case) -> bool:
        return any(part in f"{case.model} {case.name}" for part in asked.get("only", "").split(","))

    cases = [case for case in cases_of(asked.get("set", "looked-at")) if wanted(case)]
    if "measure" in sys.argv:
        measure(cases, Path(asked["out"]))
    elif "foretell" in sys.argv:
        foretell(cases, Path(asked["out"]))
        return
    elif "keep" in sys.argv:
        keep(Path(asked["out"]))
        return
    else:
        report(wanted)
    print(machine())


if __name__ == "__main__":
    main()
