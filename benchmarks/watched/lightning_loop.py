"""Lightning."""

import argparse
from typing import Any

import torch
from common import Samples, StepClock, arguments, build
from torch.utils.data import DataLoader

try:
    import lightning
except ImportError:
    import pytorch_lightning as lightning


class Classifier(lightning.LightningModule):
    def __init__(self, given: argparse.Namespace) -> None:
        super().__init__()
        self.model, self.options = build(given), {"fused": True} if given.fused else {}

    def training_step(self, batch: dict[str, torch.Tensor], _index: int) -> torch.Tensor:
        return self.model(**batch).loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-5, **self.options)


class Clock(lightning.Callback):
    def __init__(self, clock: StepClock, every: int) -> None:
        self.clock, self.every = clock, every

    def on_train_batch_end(self, _trainer: Any, _module: Any, _outputs: Any, _batch: Any, batch_idx: int) -> None:
        if (batch_idx + 1) % self.every == 0:
            self.clock.step()


def main() -> None:
    given = arguments()
    clock = StepClock(given)
    loader = DataLoader(Samples(given), given.batch_size, num_workers=given.workers, pin_memory=given.device == "cuda")
    trainer = lightning.Trainer(
        max_steps=given.steps,
        accelerator="gpu" if given.device == "cuda" else "cpu",
        devices=1,
        precision="bf16-mixed" if given.bf16 else "32-true",
        accumulate_grad_batches=given.accumulate,
        callbacks=[Clock(clock, given.accumulate)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(given), loader)
    clock.finish()


if __name__ == "__main__":
    main()
