"""Predicted snapshots, opened with what PyTorch opens its own with."""

import pickle
import re
from itertools import pairwise

import pytest
from torch.cuda import _memory_viz as viz

import memorymark as mm
from memorymark.devices.snapshots import compact, expand
from memorymark.prediction.memory.snapshot import recording_allocator, without
from memorymark.probe.predicted import PredictedProbe
from memorymark.units import MIB
from support.explained import H200, probe_of
from support.tiny import tiny

SIZE = 16
NAMES = ["bert", "gpt2, eager attention", "decoder, outputs kept", "two layers, accumulated"]


def replayed(snapshot):
    """The bytes that are allocated and reserved after each entry."""
    allocated = reserved = 0
    signs = {"alloc": (1, 0), "free_completed": (-1, 0), "segment_alloc": (0, 1), "segment_free": (0, -1),
             "segment_map": (0, 1), "segment_unmap": (0, -1)}  # fmt: skip
    for entry in snapshot["device_traces"][0]:
        of_blocks, of_segments = signs.get(entry["action"], (0, 0))
        allocated += of_blocks * entry["size"]
        reserved += of_segments * entry["size"]
        yield allocated, reserved


@pytest.fixture(scope="module", params=NAMES)
def both(request):
    probe = probe_of(request.param)
    return probe.snapshot(SIZE), probe.try_from_start(SIZE)


def test_replaying_it_finds_the_same_peaks(both):
    snapshot, trial = both
    states = list(replayed(snapshot))

    assert max(allocated for allocated, _ in states) == trial.peak_allocated_bytes
    assert max(reserved for _, reserved in states) == trial.peak_reserved_bytes
    assert states[-1][0] == trial.resting_bytes == sum(one["allocated_size"] for one in snapshot["segments"])


def test_the_tools_of_torch_read_it(both):
    snapshot, _ = both
    summary = viz.segsum(snapshot)

    held = sum(one["total_size"] for one in snapshot["segments"])
    assert f"total_reserved: {viz.Bytes(held)}" in summary
    assert "cudaMalloc" in viz.trace(snapshot)
    for plot in (viz.trace_plot, viz.segment_plot):
        assert "snapshot.pickle" in plot(snapshot)
    flames = []
    viz.memory(snapshot, lambda text: flames.append(text) or text)
    assert re.search(r"stream_0;.*weights", flames[0])


def test_blocks_lie_side_by_side_and_within_their_segments(both):
    snapshot, _ = both
    for segment in snapshot["segments"]:
        blocks = segment["blocks"]
        assert blocks[0]["address"] == segment["address"]
        assert all(one["address"] + one["size"] == other["address"] for one, other in pairwise(blocks))
        assert sum(block["size"] for block in blocks) == segment["total_size"]
        assert all(0 < block["requested_size"] <= block["size"] for block in blocks if block["state"] != "inactive")


def test_no_two_blocks_share_an_address_at_a_time(both):
    alive = {}
    for entry in both[0]["device_traces"][0]:
        if entry["action"] == "alloc":
            assert entry["addr"] not in alive
            alive[entry["addr"]] = entry["size"]
        elif entry["action"] == "free_completed":
            assert alive.pop(entry["addr"]) == entry["size"]


def test_stacks_name_the_operation_the_module_and_the_phase():
    stacks = {tuple(frame["name"] for frame in entry["frames"])
              for entry in probe_of("bert").snapshot(SIZE)["device_traces"][0]}  # fmt: skip

    dense = "bert.encoder.layer.1.intermediate.dense"
    assert {
        ("aten.addmm.default", dense, "forward"),
        ("aten.mm.default", dense, "backward"),
        (dense, "weights"),
    } <= stacks


def test_expandable_segments_are_mapped_page_by_page():
    step = probe_of("bert").step
    probe = PredictedProbe(step, mm.Recipe(allocator="expandable"), H200, allocator="expandable")
    snapshot, trial = probe.snapshot(SIZE), probe.try_from_start(SIZE)
    actions = {entry["action"] for entry in snapshot["device_traces"][0]}

    assert "segment_map" in actions and "segment_alloc" not in actions
    assert max(allocated for allocated, _ in replayed(snapshot)) == trial.peak_allocated_bytes
    assert max(reserved for _, reserved in replayed(snapshot)) == trial.peak_reserved_bytes
    assert all(segment["is_expandable"] for segment in snapshot["segments"])


def test_a_step_that_does_not_fit_is_written_down_as_with_more_memory():
    whole = probe_of("bert")
    tight = PredictedProbe(whole.step, mm.Recipe(), H200, memory_cap_bytes=80 * MIB)
    assert not tight.try_from_start(SIZE).fits
    assert max(allocated for allocated, _ in replayed(tight.snapshot(SIZE))) > 80 * MIB


def test_it_survives_the_way_between_processes():
    snapshot = probe_of("two layers, accumulated").snapshot(SIZE)
    assert expand(compact(snapshot)) == snapshot


def test_a_file_is_written_that_unpickles(tmp_path):
    file = tmp_path / "snapshot.pickle"
    result = mm.explain(tiny(), 8, gpu="a10", snapshot=file)
    snapshot = pickle.loads(file.read_bytes())

    assert max(allocated for allocated, _ in replayed(snapshot)) == result.trial.peak_allocated_bytes


def test_devices_without_a_history_are_refused_in_a_sentence(tmp_path):
    heard = []
    with pytest.raises(mm.UsageError, match="snapshot= needs the history of a CUDA GPU's allocator"):
        mm.explain(tiny(), 8, device="cpu", snapshot=tmp_path / "snapshot.pickle", on_event=heard.append)
    assert not any("recording" in getattr(event, "message", "") for event in heard)  # before anything runs
    with pytest.raises(mm.UsageError, match="there is no such folder"):
        mm.explain(tiny(), 8, gpu="a10", snapshot="/no/such/folder/snapshot.pickle")


@pytest.mark.parametrize(
    ("intervals", "others", "left"),
    [
        ([(0, 10)], [(2, 4), (6, 8)], [(0, 2), (4, 6), (8, 10)]),
        ([(0, 10), (20, 30)], [(5, 25)], [(0, 5), (25, 30)]),
        ([(0, 10)], [(0, 10)], []),
        ([(0, 10)], [(10, 20)], [(0, 10)]),
    ],
)
def test_what_is_left_of_intervals(intervals, others, left):
    assert list(without(intervals, others)) == left


def test_segments_that_make_room_for_one_as_large_are_noted():
    allocator, history = recording_allocator("default", 60 * MIB, capped=False)
    for block in [allocator.allocate(22 * MIB) for _ in range(2)]:
        allocator.free(block)
    allocator.allocate(44 * MIB)

    segments = [(one["action"], one["size"]) for one in history.entries if one["action"].startswith("segment")]
    assert segments == [("segment_alloc", 22 * MIB)] * 2 + [("segment_free", 22 * MIB)] * 2 + [
        ("segment_alloc", 44 * MIB)
    ]
