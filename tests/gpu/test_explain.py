"""Measured steps explained: the memory at each moment is that of torch's own history."""

import pickle
from itertools import accumulate

import pytest
import torch

import memorymark as mm
from memorymark.devices import open_device
from memorymark.devices.allocations import events_until_peak
from memorymark.prediction.tracing.places import Places
from memorymark.probe import recording
from memorymark.question.target import Target
from memorymark.training.step import TrainingStep
from support.decoders import llama

pytestmark = pytest.mark.gpu
MOMENTS = 100


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    file = tmp_path_factory.mktemp("snapshot") / "snapshot.pickle"
    return mm.explain("gpt2", 8, precision="bf16", snapshot=file), file


def test_a_measured_step_is_explained_to_the_byte(explained):
    result, _ = explained
    timeline = result.timeline

    assert result.info.source == "measured"
    assert timeline.peak_bytes == result.trial.peak_allocated_bytes == sum(one.total_bytes for one in result.modules)
    assert {"attention", "mlp", "embedding"} <= {one.kind for one in result.modules}
    named = sum(bool(module) for module in timeline.modules)
    assert named > len(timeline.moments) / 2


def test_what_runs_is_counted_like_the_history_itself():
    device = open_device(Target(device="cuda"))
    step = TrainingStep(llama(), mm.Recipe(), device.torch_device)
    for _ in range(2):
        step(8)
    snapshots = []
    read = torch.cuda.memory._snapshot

    def keep(*arguments):
        snapshots.append(read(*arguments))
        return snapshots[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch.cuda.memory, "_snapshot", keep)
        trace, _ = recording.record_step(step, device, 8, lambda _: None, Places(step.models()))
    start = sum(trace.before.values())
    ours = list(accumulate((size for _, size in trace.events), initial=start))

    theirs, marks = [start], {509}
    for entry in snapshots[0]["device_traces"][device.torch_device.index]:
        sign = {"alloc": 1, "free_requested": -1}.get(entry["action"], 0)
        if sign and entry["size"] not in marks:
            theirs.append(theirs[-1] + sign * entry["size"])
    at = [len(ours) * n // MOMENTS for n in range(MOMENTS)]

    assert [ours[moment] for moment in at] == [theirs[moment] for moment in at]
    assert len(trace.sources) == len(trace.events)
    peak = trace.sources[events_until_peak(trace) - 1]
    assert peak.operation.startswith("aten.")
    makes = [source for source, (_, size) in zip(trace.sources, trace.events, strict=True) if size > 0]
    assert sum(bool(source.shape) for source in makes) > len(makes) / 2


def test_the_real_snapshot_is_written(explained):
    _, file = explained
    snapshot = pickle.loads(file.read_bytes())
    assert snapshot["segments"] and any(entry["action"] == "alloc" for entry in snapshot["device_traces"][0])
