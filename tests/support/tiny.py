"""A model of a few kilobytes, so that a step takes a millisecond and its bytes can be counted by hand."""

from types import SimpleNamespace

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import memorymark as mm

WIDTH, HIDDEN, CLASSES = 16, 64, 4
PARAMETERS = WIDTH * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES


class TinyNet(nn.Module):
    """Two linear layers, dropout, and a buffer that counts the calls; the output is like a Hugging Face model's."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(WIDTH, HIDDEN)
        self.dropout = nn.Dropout(0.1)
        self.outer = nn.Linear(HIDDEN, CLASSES)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x, labels=None):
        self.calls += 1
        logits = self.outer(self.dropout(torch.relu(self.inner(x))))
        return SimpleNamespace(logits=logits, loss=None if labels is None else cross_entropy(logits, labels))


def tiny_batch(size, device):
    return {
        "x": torch.rand(size, WIDTH, device=device),
        "labels": torch.randint(0, CLASSES, (size,), device=device),
    }


def tiny(build=TinyNet, batch=tiny_batch, loss=None):
    return mm.Workload(build=build, batch=batch, loss=loss, name="tiny")
