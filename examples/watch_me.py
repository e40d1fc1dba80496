"""Watch a training script whose data is slow to load; it contains nothing of MemoryMark.

Run it with ``memorymark watch watch_me.py`` instead of ``python watch_me.py``.
"""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class SlowSamples(Dataset):
    def __len__(self):
        return 320

    def __getitem__(self, index):
        time.sleep(0.01)  # such as decoding an image
        return torch.rand(64), index % 10


model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.AdamW(model.parameters())
for inputs, labels in DataLoader(SlowSamples(), batch_size=16):
    nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained for 20 steps")
