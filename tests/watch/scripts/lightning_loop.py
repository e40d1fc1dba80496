"""Lightning with our callback in it, on the CPU; the second fit fails in the middle."""

import json

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from memorymark.integrations.lightning import MemoryMarkCallback


class Classifier(lightning.LightningModule):
    def __init__(self, fails_at=None):
        super().__init__()
        self.layers = nn.Linear(8, 4)
        self.fails_at = fails_at

    def training_step(self, batch, index):
        if index == self.fails_at:
            raise ValueError("on purpose")
        return nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(callback, every, **options):
    data = DataLoader(TensorDataset(torch.randn(96, 8), torch.randint(0, 4, (96,))), batch_size=4)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", accumulate_grad_batches=every, callbacks=[callback], **quiet
    )
    trainer.fit(Classifier(**options), data)


whole, failed = MemoryMarkCallback(show=False), MemoryMarkCallback(show=True)
fit(whole, every=3)
try:
    fit(failed, every=2, fails_at=20)
except ValueError as error:
    print(json.dumps({"whole": whole.report.to_dict(), "failed": failed.report.to_dict(), "error": str(error)}))
