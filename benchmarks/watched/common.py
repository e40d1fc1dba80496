"""What the watched scripts share: a model of BERT's size, its data, and what torch itself says at the end."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification

GIB = 2**30
LENGTH = 128
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--cap-gib", type=float)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--starve", action="store_true", help="every sample takes 20 ms, in the main process")
    parser.add_argument("--crash", action="store_true", help="fails after the last step")
    parser.add_argument("--turn", type=int, default=0, help="so many steps watched, so many not, and so on")
    parser.add_argument("--out", type=Path, help="where what torch says goes, as JSON")
    parser.add_argument("--folder", default="watched-output")
    given = parser.parse_args()
    if given.starve:
        given.workers = 0
    if given.cap_gib is not None and given.device == "cuda":
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(given.cap_gib * GIB / total)
    return given


def build(given: argparse.Namespace) -> BertForSequenceClassification:
    return BertForSequenceClassification(BertConfig(**SMALL if given.device == "cpu" else {}))


class Samples(Dataset):
    """Random tokens."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._count = given.batch_size * given.steps * given.accumulate
        self._slow = given.starve
        self._ids = torch.randint(0, 30_000, (256, LENGTH))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        if self._slow:
            time.sleep(0.02)
        ids = self._ids[index % len(self._ids)]
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor(index % 2)}


class StepClock:
    """Counts the script's steps, and times them where watched and unwatched ones take turns.

    Both happen in one process, so that what else changes the machine's pace changes it for both.
    """

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._steps = 0
        self._turns: list[float] = []
        self._last = 0.0
        self._resting: list[Any] = []

    def step(self) -> None:
        self._steps += 1
        if self._given.turn and self._steps % self._given.turn == 0:
            if self._given.device == "cuda":
                torch.cuda.synchronize()
            now = time.perf_counter()
            self._turns += [now - self._last]
            self._take_turns()
            self._last = time.perf_counter()

    def _take_turns(self) -> None:
        """Watching ends, or goes on, for all that torch and the script can see of it.

        What asks the driver twice a second how busy the GPU is goes on for half a second more.
        """
        from memorymark.watch import hooks

        if self._resting:
            hooks.install(self._resting.pop())
        else:
            self._resting = hooks._detectors[:1]
            hooks.uninstall(self._resting[0])

    def finish(self) -> None:
        found = {
            "steps": self._steps,
            "turns": self._turns[1:],  # the first one has the script's warm-up in it, and the recorded step
            "peak_allocated_bytes": torch.cuda.max_memory_allocated() if self._given.device == "cuda" else 0,
            "peak_reserved_bytes": torch.cuda.max_memory_reserved() if self._given.device == "cuda" else 0,
        }
        if self._given.out is not None:
            self._given.out.write_text(json.dumps(found))
        if self._given.crash:
            raise ValueError("crashed on purpose")
