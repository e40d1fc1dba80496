"""The largest batch from one recorded step, against what an H200 really took."""

from dataclasses import replace

import pytest

from memorymark.prediction.memory.allocator import OutOfMemory
from memorymark.units import MIB
from memorymark.watch.estimate import ScaledStep
from memorymark.watch.maximum import estimate_maximum
from memorymark.watch.observation import DeviceFacts, MemoryFacts, Observation
from memorymark.watch.recording import StepRecording
from support.histories import CAP_BYTES, SCRATCH_LIMIT_BYTES, TRUE_MAXIMA, histories, last_steps, replay

RECORDED = [history for history in histories() if (history.model, history.recipe) in TRUE_MAXIMA]


def recording_of(history):
    """The smaller recorded step as the detector would have it; owners are read off the gradients' common end."""
    step = last_steps(history)[0]
    before = {}

    def look(allocator, recorded, blocks):
        if not before and recorded["batch"] < step.batch_size:
            before.update({-1 - number: block.size for number, block in blocks.items()})

    replay(history, look)
    events = step.trace.events
    end = len(events)
    while events[end - 1][1] < 0:
        end -= 1
    born = {key: index for index, (key, size) in enumerate(events) if size > 0}
    gradients = {born[key]: -size for key, size in events[end:] if key in born}
    end_of_backward = max(gradients) + 1
    counts = {}
    for size in gradients.values():
        counts[size // 4] = counts.get(size // 4, 0) + 1
    return StepRecording(
        batch_size=step.batch_size,
        before=before,
        events=events,
        marks=[("backward", end_of_backward), ("optimizer", end)],
        owners_made=dict.fromkeys(gradients, "gradients"),
        parameters=counts,
        cast_bytes=2 if history.recipe == "bf16" else None,
        scratch_limit_bytes=None if history.model == "resnet" else SCRATCH_LIMIT_BYTES,
    )


@pytest.mark.parametrize("history", RECORDED, ids=str)
def test_one_recorded_step_gives_the_largest_batch_within_one_per_cent(history):
    maximum, _ = TRUE_MAXIMA[history.model, history.recipe]
    estimate = ScaledStep(recording_of(history)).largest_within(CAP_BYTES)
    assert abs(estimate / maximum - 1) < 0.01


@pytest.mark.parametrize("history", RECORDED, ids=str)
def test_a_replay_at_the_recorded_batch_reaches_the_recorded_peak(history):
    marks = [action[1] for action in history.actions if isinstance(action, list) and action[0] == "mark"]
    recording = recording_of(history)
    true = next(mark for mark in marks if mark["batch"] == recording.batch_size)
    replayed = ScaledStep(recording).replay(recording.batch_size)
    assert abs(replayed.peak_allocated_bytes / true["peak_allocated"] - 1) < 0.01


def step(*, before=None, events=(), marks=(), batch_size=4, **facts):
    return StepRecording(batch_size, before or {}, list(events), list(marks), **facts)


def test_what_belongs_to_the_parameters_does_not_grow():
    recording = step(
        before={1: 10 * MIB},
        events=[(2, 20 * MIB), (3, 10 * MIB), (2, -20 * MIB), (3, -10 * MIB)],
        marks=[("forward", 1), ("backward", 2)],
        owners_before={1: "weights"},
        owners_made={1: "gradients"},
    )
    assert ScaledStep(recording).replay(8).peak_allocated_bytes == (10 + 40 + 10) * MIB
    assert ScaledStep(recording).largest_within(70 * MIB) == 10


def test_scratch_of_a_reduction_with_its_counter_inside_grows_only_to_its_limit():
    scratch = [(1, 4 * MIB), (2, 24), (2, -24), (1, -4 * MIB)]
    summed = [(3, 4 * MIB), (4, 24), (3, -4 * MIB)]  # what is summed up grows on: the sum stays when it is gone
    sizes = {
        name: ScaledStep(step(events=events, marks=[("forward", len(events))], scratch_limit_bytes=8 * MIB)).replay(64)
        for name, events in (("scratch", scratch), ("summed", summed))
    }
    assert sizes["scratch"].peak_allocated_bytes < 9 * MIB
    assert sizes["summed"].peak_allocated_bytes >= 64 * MIB


def test_what_is_larger_than_any_scratch_grows_however_soon_it_is_gone():
    """As the probabilities of a batch of which somebody asks for the largest."""
    events = [(1, 40 * MIB), (2, 4), (2, -4), (1, -40 * MIB)]
    seen = step(events=events, marks=[("forward", len(events))], scratch_limit_bytes=8 * MIB)
    assert ScaledStep(seen).replay(64).peak_allocated_bytes >= 640 * MIB


def test_an_output_that_lives_until_the_next_one_is_there_counts_twice():
    recording = step(before={1: 20 * MIB}, events=[(2, 20 * MIB), (1, -20 * MIB)])
    assert ScaledStep(recording).replay(8).peak_allocated_bytes == 2 * 40 * MIB


def test_state_of_the_optimizer_comes_with_the_first_step():
    recording = step(
        before={1: 30 * MIB},
        events=[(2, 40 * MIB), (2, -40 * MIB)],
        marks=[("backward", 2)],
        owners_before={1: "optimizer_state"},
    )
    assert ScaledStep(recording).replay(4).peak_allocated_bytes == (30 + 40) * MIB


def test_what_does_not_fit_today_is_out_of_memory():
    with pytest.raises(OutOfMemory):
        ScaledStep(step(events=[(1, 20 * MIB), (1, -20 * MIB)])).replay(4, 10 * MIB)


def test_a_recording_survives_its_way_through_json():
    import json

    recording = recording_of(RECORDED[0])
    assert StepRecording.from_dict(json.loads(json.dumps(recording.to_dict()))) == recording


def seen(peak_mib, **facts):
    recording = step(events=[(1, 40 * MIB), (1, -40 * MIB)])
    return Observation(
        steps=10,
        batch_size=4,
        recording=recording,
        device=DeviceFacts(kind="cuda", name="GPU", capacity_bytes=400 * MIB),
        memory=MemoryFacts(
            peak_allocated_bytes=peak_mib * MIB, peak_reserved_bytes=peak_mib * MIB, device_bytes=0, **facts
        ),
    )


def test_the_peak_of_a_larger_batch_than_the_recorded_one_lowers_the_estimate():
    assert estimate_maximum(seen(40)).maximum == 40
    longer = estimate_maximum(replace(seen(80), longest_batch=1.6))
    assert longer.maximum == 20
    assert "stretched by 2.00" in longer.basis


def test_a_peak_that_no_batch_explains_was_no_steps_and_says_nothing_of_the_maximum():
    assert estimate_maximum(seen(300)).maximum == 40
    # By its length alone: attention may grow with the square of it.
    assert estimate_maximum(replace(seen(300), longest_batch=1.25)).maximum == int(40 / 1.25**2)


def test_a_step_with_expandable_segments_is_replayed_with_them():
    """Blocks of 45 MiB: by default of 46 MiB, and as pages of 20 MiB one after the other."""
    recording = step(events=[(1, 45 * MIB), (2, 45 * MIB), (1, -45 * MIB), (2, -45 * MIB)])
    expandable, capped = (ScaledStep(recording, allocator="expandable", capped=capped) for capped in (False, True))
    assert ScaledStep(recording).replay(4).peak_reserved_bytes == 92 * MIB
    assert expandable.replay(4).peak_reserved_bytes == capped.replay(4).peak_reserved_bytes == 100 * MIB
    assert expandable.largest_within(104 * MIB) == 4
    # torch's own cap is checked with what the second would take by default: 46 MiB beside the 60 MiB of three pages.
    assert (capped.largest_within(104 * MIB), capped.largest_within(106 * MIB)) == (3, 4)


@pytest.mark.parametrize(("capped", "maximum"), [(False, 38), (True, 39)])
def test_the_estimate_is_that_of_the_allocator_of_the_script(capped, maximum):
    """One block that grows by 10 MiB with each sample, within 390 MiB: 19 pages, or 20 that reach beyond a cap."""
    facts = seen(40, allocator="expandable")
    estimate = estimate_maximum(replace(facts, device=replace(facts.device, capacity_bytes=390 * MIB, capped=capped)))
    assert estimate.maximum == maximum
    assert "fragmentation is left out" not in estimate.basis


def test_other_settings_of_the_allocator_are_said():
    estimate = estimate_maximum(seen(40, modelled=False))
    assert estimate.maximum == 40
    assert "fragmentation is left out" in estimate.basis
    assert estimate.recommended == 32
