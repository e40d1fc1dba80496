"""Train embeddings and weights with different optimizers, and see how much memory that saves.

Run it with ``python two_optimizers.py``.
"""

import torch
from torch import nn

import memorymark as mm

ITEMS, WIDTH, HISTORY = 2_000_000, 256, 20


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(ITEMS, WIDTH)
        self.tower = nn.Sequential(nn.Linear(WIDTH, 1024), nn.ReLU(), nn.Linear(1024, WIDTH))

    def forward(self, seen, bought):
        user = self.tower(self.items(seen).mean(dim=1))
        return (user * self.items(bought)).sum(dim=1)


def make_batch(size, device):
    return {
        "seen": torch.randint(ITEMS, (size, HISTORY), device=device),
        "bought": torch.randint(ITEMS, (size,), device=device),
    }


def loss_of(model, batch):
    return -nn.functional.logsigmoid(model(**batch)).mean()


def sgd_for_items(model):
    return [torch.optim.SGD(model.items.parameters(), lr=1.0), torch.optim.AdamW(model.tower.parameters())]


for name, optimizer in (("AdamW for all", None), ("SGD for the items, AdamW for the rest", sgd_for_items)):
    workload = mm.Workload(Recommender, make_batch, loss_of, optimizer=optimizer, name=name)
    trial = mm.predict(workload, 1024, gpu="t4")
    if trial.fits:
        print(f"{name}: {trial.peak_reserved_bytes / 2**30:.2f} GiB at batch 1024 on a T4, {trial.source}")
    else:
        print(f"{name}: batch 1024 does not fit on a T4, {trial.source}")
