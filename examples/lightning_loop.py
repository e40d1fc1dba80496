"""Find a batch size for a LightningModule, fit with it, and report what the training wastes.

Run it with ``python lightning_loop.py``. It needs Lightning: ``pip install lightning``.
"""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import memorymark as mm
from memorymark.integrations.lightning import MemoryMarkCallback


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        hidden = nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU()
        self.layers = nn.Sequential(*hidden, nn.Linear(2048, 10))

    def training_step(self, batch, _index):
        inputs, labels = batch
        return nn.functional.cross_entropy(self.layers(inputs), labels)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


def make_batch(size):
    return torch.rand(size, 512), torch.randint(10, (size,))


# The module already says how to compute its loss and how to make its optimizer.
model = Classifier()
found = mm.max_batch_size(
    model,
    make_batch,
    loss=lambda model, batch: model.training_step(batch, 0),
    optimizer=Classifier.configure_optimizers,
    max_batch=256,
)
print(f"batch {found.safe} trains on this machine")

loader = DataLoader(TensorDataset(*make_batch(4096)), batch_size=found.safe)
callback = MemoryMarkCallback()  # prints its report when the training ends
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
lightning.Trainer(max_epochs=1, callbacks=[callback], **quiet).fit(model, loader)
print(callback.report.verdict.headline)
