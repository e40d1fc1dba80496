"""Loops for the detector to watch, and a GPU's allocator stood in for by counted tensors."""

from contextlib import contextmanager
from types import SimpleNamespace

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from memorymark.devices.tracked import TensorTracker, TrackedRecorder
from memorymark.watch.detector import Detector
from memorymark.watch.hooks import install, uninstall
from memorymark.watch.observation import DeviceFacts, MemoryFacts

WIDTH = 64


def loader(samples=64, batch_size=4):
    return DataLoader(TensorDataset(torch.randn(samples, WIDTH), torch.randn(samples, 1)), batch_size=batch_size)


def network():
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))


def train(model, batches, optimizer=None, every=1):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    for index, (inputs, targets) in enumerate(batches, 1):
        nn.functional.mse_loss(model(inputs), targets).backward()
        if index % every == 0:
            optimizer.step()
            optimizer.zero_grad()


class CountedGpu:
    """What the detector asks of a GPU, with tensors counted on the CPU in place of an allocator."""

    def __init__(self, tracker, capacity_bytes):
        self.tracker, self.capacity_bytes = tracker, capacity_bytes
        self.clock = SimpleNamespace(begin=int, end=int, collect=int, reset=int, seconds=0.0, gaps=0)
        self.sampler = SimpleNamespace(stepped=float, stop=int, reset=int, samples=0)
        self.recorder = None

    def usable(self):
        return True

    def facts(self):
        return DeviceFacts(kind="cuda", name="counted", total_bytes=0, capacity_bytes=self.capacity_bytes)

    def memory(self, *, settled):
        peak = self.tracker.peak_bytes
        return MemoryFacts(peak_allocated_bytes=peak, peak_reserved_bytes=peak, device_bytes=peak, modelled=False)

    def start_recording(self):
        self.recorder = TrackedRecorder(self.tracker)
        return True

    @property
    def recording(self):
        return self.recorder is not None

    def mark(self, phase):
        self.recorder.mark(phase)

    def finish_recording(self):
        recorder, self.recorder = self.recorder, None
        return recorder.finish() if recorder else None

    def abandon_recording(self):
        self.finish_recording()

    def keys_of(self, tensors):
        found = [self.tracker.serial_of(tensor.untyped_storage()) for tensor in tensors]
        return [serial for serial in found if serial is not None]

    def scratch_limit_bytes(self):
        return None


@contextmanager
def counted(capacity_bytes, open_gpu=CountedGpu):
    """A detector of what is trained with counted tensors, and what counts them."""
    tracker = TensorTracker("cpu")
    detector = Detector(open_gpu=lambda _: open_gpu(tracker, capacity_bytes))
    install(detector)
    try:
        with tracker:
            yield detector, tracker
        detector.ended(None)
    finally:
        uninstall(detector)
