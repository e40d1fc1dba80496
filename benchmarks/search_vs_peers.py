"""The search against what a user could pick instead: same GPU, model, step and cap, each in a fresh process.

    python benchmarks/search_vs_peers.py [--uncapped] [--only=ours,accelerate] [--case=bert:fp32]

Contenders: the published linear scan (8, 16, 24 ...; only where asked for with --only), Accelerate's
find_executable_batch_size from 2048, and Lightning's Tuner.scale_batch_size from 8 in both modes.
Everyone gets the model built by the same code; seconds run from the built model to the answer, and
"with build" adds the building. Ours is exact when its N + 1 was run and failed.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings

from cases import CAP_GIB, FIVE_CASES, RECIPES, fresh, machine, request, save, table

CONTENDERS = ["ours", "accelerate", "lightning power", "lightning binsearch"]


class Bench:
    """A built training step on the capped GPU, and the clock."""

    def __init__(self, model: str, recipe: str, cap_gib: float | None) -> None:
        import torch

        from memorymark.builtin import builtin_workload
        from memorymark.devices import open_device
        from memorymark.probe.measured import MeasuredProbe

        asked = request(model, recipe, cap_gib)
        self.device = open_device(asked.target)
        torch.zeros(1, device="cuda")
        start = time.perf_counter()
        self.recipe, self.workload = asked.recipe, builtin_workload(asked)
        self.probe = MeasuredProbe(self.workload, asked.recipe, self.device)
        self.step = self.probe._step
        self.device.synchronize()
        self.build_seconds = time.perf_counter() - start


def ours(bench: Bench) -> tuple[int, int]:
    from memorymark.search import find_maximum

    info = bench.probe.info
    found = find_maximum(bench.probe.try_batch, info.capacity_bytes, fixed_bytes=info.fixed_bytes)
    assert found.exact
    return found.maximum, len(found.trials)


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


def run_one(contender: str, model: str, recipe: str, cap: str) -> dict:
    process_start = time.perf_counter()
    bench = Bench(model, recipe, None if cap == "none" else float(cap))
    start = time.perf_counter()
    found, trials = RUN[contender](bench)
    end = time.perf_counter()
    return {
        "found": found,
        "trials": trials,
        "seconds": end - start,
        "with_build": end - start + bench.build_seconds,
        "from_import": end - process_start,
    }


def main() -> None:
    flags = dict(a[2:].partition("=")[::2] for a in sys.argv[1:] if a.startswith("--"))
    contenders = flags["only"].split(",") if "only" in flags else CONTENDERS
    cases = [tuple(flags["case"].split(":"))] if "case" in flags else FIVE_CASES
    cap = "none" if "uncapped" in flags else str(CAP_GIB)
    rows = []
    for model, recipe in cases:
        answers = {name: fresh(__file__, "run", name, model, recipe, cap) for name in contenders}
        mine = answers.get("ours", {})
        for name, answer in answers.items():
            if "error" in answer:
                rows.append([model, recipe, name, answer["error"][:80], "", "", "", "", ""])
                continue
            ratio = f"{answer['seconds'] / mine['seconds']:.1f}x" if "seconds" in mine else ""
            low = f"{100 * (answer['found'] / mine['found'] - 1):+.1f} %" if "found" in mine else ""
            timed = [f"{answer['seconds']:.2f}", f"{answer['with_build']:.2f}"]
            rows.append([model, recipe, name, answer["found"], low, answer["trials"], *timed, ratio])
            print(rows[-1], flush=True)
    header = ["model", "recipe", "search", "found", "against ours", "trials", "seconds", "with build", "our gain"]
    where = "uncapped" if cap == "none" else f"allocator capped at {cap} GiB"
    save(f"peers_{'uncapped' if cap == 'none' else 'capped'}", f"{machine()}, {where}\n\n{table(header, rows)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        print(json.dumps(run_one(*sys.argv[2:6])))
    else:
        main()
