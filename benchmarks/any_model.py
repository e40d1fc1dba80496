"""Workloads of twelve families, by id, folder, function and from Python: measured, and predicted for the same memory.

python benchmarks/any_model.py [--recorded] [--only="recurrent;U-Net"] [--out=FOLDER] [--record]

Each is analysed on the GPU here, whose allocator is capped as an A10's, and predicted under the same cap: the largest
batch, and peaks and throughput at every size that was timed. With --recorded, predictions are held against what an
NVIDIA H200 did before (tests/data), which needs no GPU; --record then writes the errors there too, from which
docs/accuracy.md is made.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import memorymark as mm
from cases import CAP_GIB, flags, keep, machine, rounded, save, table, versions
from memorymark.catalog import find_gpu, find_model
from memorymark.engine.validate import PredictionCheck, validate_prediction
from memorymark.errors import MemoryMarkError
from memorymark.models.workloads import workload_of
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.probe.predicted import PredictedProbe
from memorymark.question.request import OwnRequest
from memorymark.results.trial import Trial
from memorymark.training.workload import Workload
from memorymark.units import GIB
from own_nets import encoder
from prediction import TIMED_FROM

RECORDED = Path(__file__).parents[1] / "tests" / "data" / "h200_any_model.json"
RECORD = RECORDED.with_name("h200_predicted_any_model.json")
RECORDED_GPU = "h200"
CAP_BYTES = int(CAP_GIB * GIB)
NETS = Path(__file__).parent / "own_nets.py"
BF16 = mm.Recipe(precision="bf16")


def folder_of(model: str, parent: Path) -> str:
    """A folder with nothing but the config.json of a model."""
    entry = find_model(model)
    folder = parent / model
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**entry.config, "model_type": entry.family}))
    return str(folder)


def cases(parent: Path) -> list[tuple[str, str, mm.Request, Workload | None]]:
    """Family, how it is named, what is asked, and the workload if it is Python's."""

    def named(family: str, how: str, model: str, recipe: mm.Recipe = BF16, **shape: int) -> tuple:
        return family, how, mm.Request(model=model, recipe=recipe, **shape), None

    own = encoder()
    return [
        named("encoder", "id", "roberta"),
        named("decoder, grouped-query", "id", "qwen2.5-0.5b", seq_len=512),
        named("decoder, LoRA", "id", "llama-3.2-1b", mm.Recipe(precision="bf16", lora=16), seq_len=512),
        named("encoder-decoder", "id", "t5-small"),
        named("convolution", "id", "convnext-tiny", mm.Recipe()),
        named("image and text", "id", "clip-base"),
        named("vision transformer", "folder", folder_of("deit-small", parent)),
        named("sound", "folder", folder_of("ast", parent)),
        named("disentangled attention", "folder", folder_of("deberta-v3-small", parent)),
        named("recurrent", "function", f"{NETS}:tagger(256)", mm.Recipe()),
        named("U-Net", "function", f"{NETS}:unet(32)"),
        ("plain nn.Module", "Python", OwnRequest.from_name(own.name, BF16, mm.Target()), own),
    ]


def recorded() -> dict[str, Any]:
    """What an NVIDIA H200 did with each family."""
    return json.loads(RECORDED.read_text())


def against_record(request: mm.Request, workload: Workload | None, record: dict[str, Any]) -> PredictionCheck:
    """The prediction of the sizes that were recorded."""
    gpu, trained = find_gpu(RECORDED_GPU), workload or workload_of(request)
    step = trace_training(trained, request.recipe, gpu.capability)
    probe: Any = PredictedProbe(step, request.recipe, gpu, memory_cap_bytes=CAP_BYTES)
    # What was recorded ran after the small steps of a search, not as a training that starts with that size.
    probe.try_from_start = probe.try_batch
    measured = [Trial(fits=True, source="measured", **facts) for facts in record["trials"]]
    pairs = [(trial, probe.measure(trial.batch_size)) for trial in measured]
    return PredictionCheck(request, probe.info, pairs, record["largest"], probe.forecast() or 0)


def errors(check: PredictionCheck, field: str) -> list[float]:
    """How far a number is off at every size that was timed."""
    return [abs(getattr(b, field) / getattr(a, field) - 1) for a, b in check.pairs if b.fits]


def facts(family: str, how: str, check: PredictionCheck) -> dict[str, Any]:
    """What is written down of a family."""
    return {
        "family": family,
        "model": check.request.entry.name,
        "by": how,
        "recipe": check.request.recipe.describe(),
        "largest": check.measured_maximum,
        "predicted": check.predicted_maximum,
        "allocated": rounded(errors(check, "peak_allocated_bytes")),
        "reserved": rounded(errors(check, "peak_reserved_bytes")),
        "seconds": rounded(time_errors(check.pairs)),
    }


def row(family: str, how: str, check: PredictionCheck) -> list[object]:
    def worst(field: str) -> str:
        found = errors(check, field)
        return f"{100 * statistics.median(found):.2f} / {100 * max(found):.2f}" if found else "none"

    return [
        family,
        check.request.entry.name,
        how,
        check.request.recipe.describe(),
        check.measured_maximum,
        f"{check.predicted_maximum} ({100 * check.maximum_error:+.2f} %)",
        worst("peak_allocated_bytes"),
        worst("peak_reserved_bytes"),
        median_and_worst(time_errors(check.pairs)),
    ]


def time_errors(pairs: list[tuple[Trial, Trial]]) -> list[float]:
    """How far the step time is off, at every size that is large enough to count."""
    timed = [(a, b) for a, b in pairs if a.batch_size >= TIMED_FROM and b.step_seconds]
    return [abs(b.step_seconds / a.step_seconds - 1) for a, b in timed]


def median_and_worst(errors: list[float]) -> str:
    return f"{100 * statistics.median(errors):.0f} / {100 * max(errors):.0f}" if errors else ""


def main() -> None:
    rows, documents, pairs, written = [], {}, [], []
    records = recorded() if "recorded" in flags() else None
    with tempfile.TemporaryDirectory() as folder:
        for family, how, request, workload in cases(Path(folder)):
            if "only" in flags() and family not in flags()["only"].split(";"):
                continue
            if records is not None and family not in records:
                continue
            try:
                if records is not None:
                    check = against_record(request, workload, records[family])
                else:
                    capped = replace(request, target=mm.Target(device="cuda", memory_cap_bytes=CAP_BYTES))
                    check = validate_prediction(capped, workload=workload)
            except Exception as error:  # the others still count
                said = error if isinstance(error, MemoryMarkError) else traceback.format_exc(limit=-3)
                rows.append([family, request.entry.name, how, "", "", str(said).replace("\n", " "), "", "", ""])
            else:
                rows.append(row(family, how, check))
                documents[family] = check.to_dict()
                pairs += check.pairs
                written.append(facts(family, how, check))
            print(rows[-1], flush=True)
            keep("any_model.json", json.dumps(documents))
    head = ["family", "model", "by", "recipe", "largest batch", "predicted", "allocated %", "reserved %", "time %"]
    save("any_model", table(head, rows))
    if records is not None and "record" in flags():
        command = "python benchmarks/any_model.py --recorded --record"
        RECORD.write_text(json.dumps({"command": command, "made_with": versions(), "families": written}) + "\n")
    print("errors are median / worst over the sizes that were timed; of the time from batch 16 on")
    print(f"time over all families: {median_and_worst(time_errors(pairs))}")
    print(machine())


if __name__ == "__main__":
    main()
