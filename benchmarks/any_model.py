"""Workloads of twelve families, by id, folder, function and from Python: measured, and predicted for the same memory.

python benchmarks/any_model.py [--only="recurrent;U-Net"] [--out=FOLDER]

Each is analysed on the GPU here, whose allocator is capped as an A10's, and predicted under the same cap: the largest
batch, and peaks and throughput at every size that was timed.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import traceback
from dataclasses import replace
from pathlib import Path

import memorymark as mm
from cases import CAP_GIB, flags, keep, machine, save, table
from memorymark.catalog import find_model
from memorymark.errors import MemoryMarkError
from memorymark.own import OwnRequest
from memorymark.units import GIB
from memorymark.validation import PredictionCheck, validate_prediction
from memorymark.workload import Workload
from own_nets import encoder

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


def row(family: str, how: str, check: PredictionCheck) -> list[object]:
    def worst(field: str) -> str:
        errors = [abs(getattr(b, field) / getattr(a, field) - 1) for a, b in check.pairs if b.fits]
        return f"{100 * statistics.median(errors):.2f} / {100 * max(errors):.2f}" if errors else "none"

    timed = [abs(b.step_seconds / a.step_seconds - 1) for a, b in check.pairs if a.batch_size >= 16 and b.step_seconds]
    return [
        family,
        check.request.entry.name,
        how,
        check.request.recipe.describe(),
        check.measured_maximum,
        f"{check.predicted_maximum} ({100 * check.maximum_error:+.2f} %)",
        worst("peak_allocated_bytes"),
        worst("peak_reserved_bytes"),
        f"{100 * statistics.median(timed):.0f} / {100 * max(timed):.0f}" if timed else "",
    ]


def main() -> None:
    rows, documents = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for family, how, request, workload in cases(Path(folder)):
            if "only" in flags() and family not in flags()["only"].split(";"):
                continue
            capped = replace(request, target=mm.Target(device="cuda", memory_cap_bytes=int(CAP_GIB * GIB)))
            try:
                check = validate_prediction(capped, workload=workload)
            except Exception as error:  # the others still count
                said = error if isinstance(error, MemoryMarkError) else traceback.format_exc(limit=-3)
                rows.append([family, request.entry.name, how, "", "", str(said).replace("\n", " "), "", "", ""])
            else:
                rows.append(row(family, how, check))
                documents[family] = check.to_dict()
            print(rows[-1], flush=True)
            keep("any_model.json", json.dumps(documents))
    head = ["family", "model", "by", "recipe", "largest batch", "predicted", "allocated %", "reserved %", "time %"]
    save("any_model", table(head, rows))
    print("errors are median / worst over the sizes that were timed; of the time from batch 16 on")
    print(machine())


if __name__ == "__main__":
    main()
