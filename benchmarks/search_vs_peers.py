"""The search against what a user could pick instead: same GPU, model, step and cap, each in a fresh process.

python benchmarks/search_vs_peers.py [--uncapped] [--only=ours,accelerate] [--case=bert:fp32] [--out=FOLDER] [--record]

Contenders: the published linear scan (8, 16, 24 ...; only where asked for with --only), Accelerate's
find_executable_batch_size from 2048, and Lightning's Tuner.scale_batch_size from 8 in both modes. "Proof alone" is no
contender but the least an exact answer takes: it is told N, lets the optimizer's state settle at the first batch of our
search (else N need not fit), sees N + 1 fail and N fit.
Two clocks. "Search" runs from the built model, the same for everyone, to the answer. "From config" is what a user waits
for once torch and transformers are imported: ours builds its model and searches; the others build theirs as a script
does, on the CPU and moved to the GPU, and search. Ours is exact when its N + 1 was run and failed.
With --record the results go into tests/data, from which docs/comparison.md is made.
"""

from __future__ import annotations

import json
import logging
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cases import CAP_GIB, FIVE_CASES, flags, fresh, machine, request, rounded, save, table, versions
from memorymark.largest_batch import FIRST_BATCH, find_maximum

if TYPE_CHECKING:
    from memorymark.probe.measured import MeasuredProbe
    from memorymark.results.trial import Trial

RECORD = Path(__file__).parents[1] / "tests" / "data" / "h200_search_vs_peers.json"
CONTENDERS = ["ours", "proof alone", "accelerate", "lightning power", "lightning binsearch"]


class Bench:
    """A built training step on the capped GPU, and the clock."""

    def __init__(self, model: str, recipe: str, cap_gib: float | None, *, as_script: bool) -> None:
        import torch

        from memorymark.devices import open_device
        from memorymark.models.workloads import workload_of
        from memorymark.probe.measured import MeasuredProbe

        asked = request(model, recipe, cap_gib)
        self.device = open_device(asked.target)
        torch.zeros(1, device="cuda")
        self.recipe, self.workload = asked.recipe, workload_of(asked)
        start = time.perf_counter()
        if as_script:
            self.workload.build().to("cuda")
            self.device.synchronize()
            self.build_seconds = time.perf_counter() - start
            self.device.reset()
        self.probe = MeasuredProbe(self.workload, asked.recipe, self.device)
        self.step = self.probe._step
        self.device.synchronize()
        if not as_script:
            self.build_seconds = time.perf_counter() - start


def ours(bench: Bench) -> tuple[int, int]:
    probe, trials = bench.probe, show_trials(bench.probe)
    found = find_maximum(probe.try_batch, probe.info.capacity_bytes, guide=probe)
    assert found.exact
    return found.maximum, len(trials)


def show_trials(probe: MeasuredProbe) -> list[Trial]:
    """Prints every trial from here on, and gives the list that they go into."""
    trials, run = [], probe.try_batch

    def try_batch(size: int) -> Trial:
        start = time.perf_counter()
        trials.append(run(size))
        said = "fits" if trials[-1].fits else "fails"
        print(f"    {size}: {said} in {time.perf_counter() - start:.2f} s", flush=True)
        return trials[-1]

    probe.try_batch = try_batch
    return trials


def proof_alone(bench: Bench, maximum: int) -> tuple[int, int]:
    show_trials(bench.probe)
    bench.probe._recording = False
    fits = [bench.probe.try_batch(size).fits for size in (FIRST_BATCH, maximum + 1, maximum)]
    assert fits == [True, False, True], fits
    return maximum, len(fits)


def linear(bench: Bench) -> tuple[int, int]:
    import torch

    size, best, trials = 8, 0, 0
    while True:
        trials += 1
        try:
            bench.step(size)
        except torch.OutOfMemoryError:
            return best, trials
        torch.cuda.empty_cache()
        best, size = size, size + 8


def accelerate(bench: Bench) -> tuple[int, int]:
    from accelerate.utils import find_executable_batch_size

    sizes = []

    @find_executable_batch_size(starting_batch_size=2048)
    def train(batch_size: int) -> int:
        sizes.append(batch_size)
        for _ in range(2):
            bench.step(batch_size)
        return batch_size

    return train(), len(sizes)


def lightning(mode: str, bench: Bench) -> tuple[int, int]:
    import lightning.pytorch as pl
    import torch
    from lightning.pytorch.tuner import Tuner

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")

    class Indices(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 1_000_000

        def __getitem__(self, index: int) -> int:
            return 0

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.batch_size, self.sizes, self.model = 8, [], bench.step.model

        def training_step(self, batch, index):  # noqa: ARG002 - Lightning's signature
            if not self.sizes or self.sizes[-1] != len(batch):
                self.sizes.append(len(batch))
            return self.model(**bench.workload.batch(len(batch), self.device)).loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-5)

        def train_dataloader(self):
            return torch.utils.data.DataLoader(Indices(), batch_size=self.batch_size)

    module = Module()
    precision = "bf16-mixed" if bench.recipe.precision == "bf16" else "32-true"
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = pl.Trainer(accelerator="gpu", devices=1, precision=precision, max_epochs=1, **quiet)
    answer = Tuner(trainer).scale_batch_size(module, mode=mode, init_val=8, max_trials=25, steps_per_trial=3)
    return answer, len(module.sizes)


RUN = {
    "ours": ours,
    "linear": linear,
    "accelerate": accelerate,
    "lightning power": lambda bench: lightning("power", bench),
    "lightning binsearch": lambda bench: lightning("binsearch", bench),
}


def run_one(contender: str, model: str, recipe: str, cap_gib: float | None, maximum: int | None) -> dict:
    bench = Bench(model, recipe, cap_gib, as_script=contender not in ("ours", "proof alone"))
    start = time.perf_counter()
    found, trials = proof_alone(bench, maximum) if contender == "proof alone" else RUN[contender](bench)
    seconds = time.perf_counter() - start
    return {"found": found, "trials": trials, "seconds": seconds, "from_config": seconds + bench.build_seconds}


def run_one_step(model: str, recipe: str, cap_gib: float | None) -> None:
    """Libraries that a step loads come from the disk the first time; nobody should pay for that by going first."""
    Bench(model, recipe, cap_gib, as_script=False).step(FIRST_BATCH)


def preload() -> None:
    """Imports what the contenders need, so that forked processes start from equal ground."""
    import accelerate.utils  # noqa: F401
    import lightning.pytorch
    import lightning.pytorch.tuner  # noqa: F401


def results_of(model: str, recipe: str, contenders: list[str], cap_gib: float | None) -> list[dict[str, Any]]:
    """What each contender found and how long it took, or the error that it crashed with."""
    fresh(run_one_step, model, recipe, cap_gib)
    results: list[dict[str, Any]] = []
    maximum = None
    for name in contenders:
        if name == "proof alone" and maximum is None:
            continue
        answer = fresh(run_one, name, model, recipe, cap_gib, maximum)
        if name == "ours":
            maximum = answer.get("found")
        results.append({"model": model, "recipe": recipe, "contender": name, **answer})
        print(results[-1], flush=True)
    return results


def row(result: dict[str, Any], ours: dict[str, Any] | None) -> list[object]:
    """A line of the table; ``ours`` is what to compare with, if that was asked for and did not crash."""
    head = [result["model"], result["recipe"], result["contender"]]
    if "error" in result:
        return [*head, f"crashed: {result['error']}", *[""] * 6]
    off = f"{100 * (result['found'] / ours['found'] - 1):+.1f} %" if ours else ""
    timed = []
    for clock in ("seconds", "from_config"):
        timed += [f"{result[clock]:.2f}", f"{result[clock] / ours[clock]:.1f}x" if ours else ""]
    return [*head, result["found"], off, result["trials"], *timed]


def record(results: list[dict[str, Any]], cap_gib: float | None) -> None:
    """Writes the results down, with what they were made with."""
    packages = {name: version(name) for name in ("accelerate", "lightning")}
    document = {
        "command": "python benchmarks/search_vs_peers.py --record",
        "made_with": {"machine": machine(), **versions(), **packages},
        "cap_gib": cap_gib,
        "results": [{name: rounded(value) for name, value in result.items()} for result in results],
    }
    RECORD.write_text(json.dumps(document, indent=1) + "\n")


def main() -> None:
    contenders = flags()["only"].split(",") if "only" in flags() else CONTENDERS
    cases = [tuple(flags()["case"].split(":"))] if "case" in flags() else FIVE_CASES
    cap_gib = None if "uncapped" in flags() else CAP_GIB
    if contenders != ["ours"]:
        preload()
    results, rows = [], []
    for model, recipe in cases:
        found = results_of(model, recipe, contenders, cap_gib)
        ours = next((one for one in found if one["contender"] == "ours" and "error" not in one), None)
        rows += [row(one, ours) for one in found]
        results += found
    columns = ["found", "against ours", "trials", "search s", "ours is faster by", "from config s", "ours is faster by"]
    where = f"allocator capped at {cap_gib} GiB" if cap_gib else "uncapped"
    text = table(["model", "recipe", "search", *columns], rows)
    save(f"peers_{'capped' if cap_gib else 'uncapped'}", f"{machine()}, {where}\n\n{text}")
    if "record" in flags():
        record(results, cap_gib)


if __name__ == "__main__":
    main()
