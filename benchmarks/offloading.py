"""What is offloaded from a GPU: memory of the device and of the host, and time, measured and predicted.

    python benchmarks/offloading.py [--out FOLDER] [--layers 4] [--batch 8]

Trains a decoder of a few layers, checks that offloading trains the same weights, and prints a table.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

import memorymark as mm
from memorymark.catalog import GpuEntry, match_gpu
from memorymark.devices import open_device
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.probe.measured import MeasuredProbe
from memorymark.probe.predicted import PredictedProbe
from memorymark.training.step import TrainingStep
from memorymark.units import gib

RECIPES: tuple[dict[str, Any], ...] = (
    {"precision": "bf16"},
    {"precision": "bf16", "offload": "activations"},
    {"precision": "bf16", "offload": "activations", "gradient_checkpointing": "full"},
    {"precision": "bf16", "offload": "optimizer"},
    {"weights": "bf16", "offload": "optimizer"},
)
COLUMNS = ("peak_allocated_bytes", "peak_reserved_bytes", "peak_host_bytes", "step_seconds")


def decoder(layers: int, seq_len: int = 512) -> mm.Workload:
    """A Llama of a few layers."""
    vocabulary = 32_000

    def build() -> torch.nn.Module:
        from transformers import LlamaConfig, LlamaForCausalLM

        return LlamaForCausalLM(
            LlamaConfig(
                hidden_size=2048,
                intermediate_size=8192,
                num_hidden_layers=layers,
                num_attention_heads=16,
                num_key_value_heads=4,
                vocab_size=vocabulary,
            )
        )

    def batch(size: int, device: torch.device) -> dict[str, torch.Tensor]:
        ids = torch.randint(0, vocabulary, (size, seq_len), device=device)
        return {"input_ids": ids, "labels": ids}

    return mm.Workload(build, batch, name="Llama")


def main() -> None:
    """Prints the table, and writes it to a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8)
    asked = parser.parse_args()
    gpu = match_gpu(torch.cuda.get_device_name())
    if gpu is None:
        raise SystemExit("this GPU is not in the catalog")
    workload, rows = decoder(asked.layers), []
    print(f"{gpu.name}, torch {torch.__version__}, {asked.layers} layers, batch {asked.batch}")
    print(f"same weights: {_difference(decoder(1)):.1e} apart")
    for options in RECIPES:
        row = _row(workload, mm.Recipe(**options), asked.batch, gpu)
        rows.append(row)
        print(row["recipe"])
        for name in COLUMNS:
            real, expected = row["measured"][name], row["predicted"][name]
            unit, factor = ("ms", 1e3) if name == "step_seconds" else ("GiB", gib(1))
            off = f"{100 * (expected / real - 1):+.2f} %" if real else ""
            print(f"  {name:22} {factor * real:10.3f} {factor * expected:10.3f} {unit:4} {off}", flush=True)
    if asked.out is not None:
        (asked.out / "offloading.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


def _row(workload: mm.Workload, recipe: mm.Recipe, batch_size: int, gpu: GpuEntry) -> dict[str, Any]:
    with MeasuredProbe(workload, recipe, open_device(mm.Target(device="cuda"))) as probe:
        measured = probe.measure(batch_size)
    predicted = PredictedProbe(trace_training(workload, recipe, gpu.capability), recipe, gpu).measure(batch_size)
    return {"recipe": recipe.describe(), "measured": measured.to_dict(), "predicted": predicted.to_dict()}


def _difference(workload: mm.Workload) -> float:
    """Returns how far weights are apart after three steps with and without offloading."""
    trained = []
    for offload in ("none", "activations", "optimizer"):
        torch.manual_seed(0)
        step = TrainingStep(workload, mm.Recipe(offload=offload), torch.device("cuda", 0))
        torch.manual_seed(1)
        for _ in range(3):
            step(2)
        trained.append(torch.cat([weight.detach().flatten().cpu() for weight in step.model.parameters()]))
    return max(float((one - trained[0]).abs().max()) for one in trained[1:])


if __name__ == "__main__":
    main()
