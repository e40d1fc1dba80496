"""How long one operation takes on a device, and what it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from memorymark.calibration.operations import CALL
from memorymark.devices.base import Device
from memorymark.prediction.calibration.written import write_operation
from memorymark.prediction.timing.roofline import launches
from memorymark.prediction.tracing.cuda_choices import cuda_choices
from memorymark.prediction.tracing.tracer import Tracer
from memorymark.profiles.profile import TimedOperation

# The time is the fastest of so many rounds of several runs, which together take about so long.
ROUNDS, ROUND_SECONDS, MOST_RUNS = 3, 0.003, 20
COPIED_BYTES = 64 * 2**20


def time_case(case: dict[str, Any], device: Device, capability: tuple[int, int]) -> TimedOperation:
    """Times one case; raises ``RuntimeError`` if this device cannot run it."""
    with _products_in(case.get("type")):
        run = CALL[case["kind"]](case, device.torch_device)
        run()
        device.synchronize()
        once = _fastest(run, 1, device, rounds=1)
        seconds = _fastest(run, min(max(int(ROUND_SECONDS / once), 1), MOST_RUNS), device, rounds=ROUNDS)
        started = time.perf_counter()
        run()
        host_seconds = time.perf_counter() - started
        device.synchronize()
    return TimedOperation(case, runs_of(case, capability), seconds, host_seconds)


def runs_of(case: dict[str, Any], capability: tuple[int, int]) -> list[list[Any]]:
    """Returns the kernels that a case starts on a GPU of this compute capability, as a traced step has them."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with cuda_choices(capability):
        fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
        tracer = Tracer(fake_mode)
        with fake_mode, tracer:
            run = CALL[case["kind"]](case, "cpu")
            trace = tracer.start()
            run()
    return [write_operation(op) for op in trace.operations if launches(op)]


def time_copies(device: Device, copied_bytes: int = COPIED_BYTES) -> tuple[float, float]:
    """Returns how many bytes a second are copied to a CUDA device and back, from and to pinned memory."""
    on_host = torch.empty(copied_bytes, dtype=torch.uint8, pin_memory=device.kind == "cuda")
    on_device = torch.empty(copied_bytes, dtype=torch.uint8, device=device.torch_device)

    def there() -> None:
        on_device.copy_(on_host, non_blocking=True)

    def back() -> None:
        on_host.copy_(on_device, non_blocking=True)

    there()
    back()
    to_device, to_host = (copied_bytes / _fastest(copy, 4, device, rounds=ROUNDS) for copy in (there, back))
    return to_device, to_host


def _fastest(run: Callable[[], Any], runs: int, device: Device, *, rounds: int) -> float:
    def several() -> None:
        for _ in range(runs):
            run()

    return max(min(device.time_steps(several, rounds)) / runs, 1e-9)


@contextmanager
def _products_in(dtype: str | None) -> Iterator[None]:
    """Lets matrix products use TF32, or not."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def timed(
    cases: Iterable[dict[str, Any]], device: Device, capability: tuple[int, int], until: float
) -> Iterator[TimedOperation | None]:
    """Times cases until ``time.monotonic()`` says so; yields ``None`` for one that this device cannot run."""
    for case in cases:
        if time.monotonic() >= until:
            return
        try:
            yield time_case(case, device, capability)
        except RuntimeError:  # too little memory, or no kernel for it; a broken context also fails the next ones
            device.reset()
            yield None
