"""Expandable segments on a real GPU, against their model."""

import json
import random
import subprocess
import sys

import pytest
import torch

import memorymark as mm
from memorymark.catalog import match_gpu
from memorymark.devices import open_device
from memorymark.devices.allocator_settings import use_allocator
from memorymark.models.workloads import workload_of
from memorymark.prediction.memory.allocator import OutOfMemory
from memorymark.prediction.memory.expandable import ExpandableAllocator
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.probe.measured import MeasuredProbe
from memorymark.probe.predicted import PredictedProbe
from memorymark.units import GIB, MIB

pytestmark = pytest.mark.gpu

# Not a multiple of 2 MiB, so that no request meets the cap exactly: torch has it as a fraction.
CAP_BYTES = 601 * MIB
ASK = """
import json, sys, torch
import memorymark as mm
from memorymark.devices import open_device
device = open_device(mm.Target(device="cuda", memory_cap_bytes=int(sys.argv[1])))
device.use_allocator("expandable")
alive, seen = {}, []
for number, action in enumerate(json.load(sys.stdin)):
    try:
        if action == "empty":
            torch.cuda.empty_cache()
        elif action > 0:
            alive[number] = torch.empty(action, dtype=torch.uint8, device="cuda")
        else:
            alive.pop(-action, None)
    except torch.OutOfMemoryError:
        pass
    now = device.reading()
    seen.append([number in alive, now.allocated_bytes, now.reserved_bytes, now.allocator_retries])
print(json.dumps(seen))
"""


def actions_of(seed):
    """Requests by their bytes, frees by the negative place of the request, and a cache emptied now and then."""
    chance = random.Random(seed)
    actions, places = ["empty"], []
    for place in range(1, 600):
        kind = chance.random()
        if kind < 0.02:
            actions.append("empty")
        elif places and kind < 0.48:
            actions.append(-places.pop(chance.randrange(len(places))))
        else:
            actions.append(chance.randrange(1, 2 * MIB) if chance.random() < 0.4 else chance.randrange(MIB, 90 * MIB))
            places.append(place)
    return actions


@pytest.mark.parametrize("seed", range(5))
def test_random_requests_reserve_what_the_model_says(seed):
    actions = actions_of(seed)
    ran = subprocess.run(
        [sys.executable, "-c", ASK, str(CAP_BYTES)],
        input=json.dumps(actions),
        capture_output=True,
        text=True,
        check=True,
    )
    allocator, alive = ExpandableAllocator(CAP_BYTES, capped=True), {}
    for number, (action, seen) in enumerate(zip(actions, json.loads(ran.stdout), strict=True)):
        try:
            if action == "empty":
                allocator.empty_cache()
            elif action > 0:
                alive[number] = allocator.allocate(action)
            elif -action in alive:
                allocator.free(alive.pop(-action))
        except OutOfMemory:
            pass
        counters = [number in alive, allocator.allocated_bytes, allocator.reserved_bytes, allocator.retries]
        assert counters == seen, f"after action {number}: {action}"
    assert allocator.retries > 0


@pytest.fixture
def allocator_as_it_was():
    yield
    use_allocator("default")
    torch.cuda.empty_cache()


@pytest.mark.parametrize("kind", ["default", "expandable"])
def test_a_step_reserves_what_is_predicted_for_this_allocator(kind, allocator_as_it_was):
    gpu = match_gpu(torch.cuda.get_device_name())
    if gpu is None:
        pytest.skip("the GPU here is not in the catalog")
    request = mm.Request(model="bert", target=mm.Target(device="cuda", memory_cap_bytes=6 * GIB))
    workload = workload_of(request)
    measured = MeasuredProbe(workload, request.recipe, open_device(request.target), allocator=kind)
    step = trace_training(workload, request.recipe, gpu.capability)
    predicted = PredictedProbe(step, request.recipe, gpu, memory_cap_bytes=6 * GIB, allocator=kind)
    for size in (2, 16, 32):
        seen, said = (probe.try_from_start(size) for probe in (measured, predicted))
        assert said.peak_allocated_bytes == pytest.approx(seen.peak_allocated_bytes, rel=0.01)
        assert said.peak_reserved_bytes == pytest.approx(seen.peak_reserved_bytes, rel=0.01)


def test_the_largest_batch_is_forecast_with_expandable_segments(allocator_as_it_was):
    request = mm.Request(model="bert", target=mm.Target(device="cuda", memory_cap_bytes=6 * GIB))
    device = open_device(request.target)
    probe = MeasuredProbe(workload_of(request), request.recipe, device, allocator="expandable")
    for size in (2, 4):
        assert probe.try_batch(size).fits
    forecast = probe.forecast()
    assert device.allocator == "expandable"
    assert probe.try_batch(int(0.99 * forecast)).fits
    assert not probe.try_batch(int(1.01 * forecast) + 1).fits
