"""Find the largest batch for your own module, on this machine and on GPUs you do not have.

Run it with ``python own_module.py``.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import memorymark as mm

model = nn.Sequential(nn.Linear(64, 4096), nn.ReLU(), nn.Linear(4096, 10))
optimizer = torch.optim.AdamW(model.parameters())


def make_batch(size):
    return torch.rand(size, 64), torch.randint(10, (size,))


def loss_of(model, batch):
    inputs, labels = batch
    return nn.functional.cross_entropy(model(inputs), labels)


# A small share of the memory, so that this is quick everywhere; leave it out to use all.
found = mm.max_batch_size(model, make_batch, loss_of, optimizer, memory_gib=0.05)
print(f"this machine: {found} is the largest batch, train with {found.safe} ({found.source})")

for gpu in ("t4", "a100-80gb"):
    there = mm.max_batch_size(model, make_batch, loss_of, optimizer, gpu=gpu)
    print(f"{gpu}: {there} is the largest batch, train with {there.safe} ({there.source})")

# The search left the model and the optimizer as they were, so the training starts from scratch.
dataset = TensorDataset(*make_batch(2_000))
for batch in DataLoader(dataset, batch_size=found.safe, shuffle=True):
    loss_of(model, batch).backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"trained on {len(dataset)} samples in batches of {found.safe}")
