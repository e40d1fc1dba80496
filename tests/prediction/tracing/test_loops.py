"""Models that run some operations once for each sample."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from memorymark.catalog import find_gpu
from memorymark.errors import CannotPredictError
from memorymark.prediction.tracing import fake_step
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.probe.predicted import PredictedProbe
from memorymark.question.recipe import Recipe
from support.tiny import CLASSES, WIDTH, tiny

A10 = find_gpu("a10")
WIDE = 4096


class OneByOne(nn.Module):
    """Works on each sample alone, as detectors compare each image's boxes with its labels."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(WIDTH, WIDE), nn.Linear(WIDE, CLASSES)

    def forward(self, x, labels):
        rows = [torch.relu(self.inner(x))[n].expand(50, -1).exp().mean(0) for n in range(len(x))]
        logits = self.outer(torch.stack(rows))
        return SimpleNamespace(logits=logits, loss=cross_entropy(logits, labels))


class AfterAnother(OneByOne):
    """Hands what it computed of a sample on to the next."""

    def forward(self, x, labels):
        hidden = self.inner(x)
        state, rows = torch.zeros_like(hidden), []
        for n in range(len(x)):
            state = state + hidden
            rows.append(state[n])
        logits = self.outer(torch.stack(rows))
        return SimpleNamespace(logits=logits, loss=cross_entropy(logits, labels))


class EverMore(nn.Module):
    """Does more for each further sample than for the one before."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, labels):
        logits = self.inner(x)
        for _ in range(len(x) ** 2):
            logits = logits.exp()
        return SimpleNamespace(logits=logits, loss=cross_entropy(logits, labels))


def peak(workload, batch_size):
    step = trace_training(workload, Recipe(), A10.capability)
    return PredictedProbe(step, Recipe(), A10).measure(batch_size).peak_allocated_bytes


@pytest.mark.parametrize("batch_size", [8, 40])
@pytest.mark.parametrize("model", [OneByOne, AfterAnother])
def test_a_loop_over_samples_is_predicted_for_any_number_of_them(model, batch_size, monkeypatch):
    grown = peak(tiny(model), batch_size)
    monkeypatch.setattr(fake_step, "TRACED_BATCH", batch_size)

    assert grown == pytest.approx(peak(tiny(model), batch_size), rel=0.02)


def test_what_does_not_grow_evenly_is_refused():
    with pytest.raises(CannotPredictError, match="different things at different batch sizes"):
        trace_training(tiny(EverMore), Recipe(), A10.capability)
