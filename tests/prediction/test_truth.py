"""Predictions against what an NVIDIA H200 really did, one workload of each family, and against the published table."""

import json
from functools import cache
from pathlib import Path
from statistics import median

import pytest

from cases import find_from_start
from memorymark.units import MIB
from prediction import PUBLISHED, PUBLISHED_MIB, RECORD, RECORDED_UNDER_GIB, TIMED_FROM, probe_for, truth
from support.torch_versions import needs_torch_of_records

pytestmark = needs_torch_of_records
TRUE = {f"{true['workload']}:{true['recipe']}": true for true in truth()}
PAIRS = [
    "bert:fp32",
    "bert:bf16-checkpointing",
    "gpt2-lm:bf16",
    "llama:bf16",
    "t5:bf16",
    "resnet:fp32",
    "convnext:bf16",
    "vit:bf16",
    "wav2vec2:fp32",
    "wav2vec2:bf16",
    "mlp:fp32",
    "torch-encoder:bf16",
    "lstm:fp32",
    "gru:bf16",
    "swin:fp32",
    "qwen3:bf16",
    "bart:bf16",
]
WRITTEN = {f"{pair['workload']}:{pair['recipe']}": pair for pair in json.loads(RECORD.read_text())["pairs"]}
LARGEST_BATCH_WITHIN = 0.04
# Of these every large allocation of a step is known, so both peaks are what they were on the GPU.
TO_THE_BYTE = ["bert:fp32", "gpt2-lm:bf16", "llama:bf16", "t5:bf16", "mlp:fp32"]
# Step times count where two sittings agree on them, more or less.
TIMES = {
    pair: [row for row in TRUE[pair]["times"] if row["batch_size"] >= TIMED_FROM and len(row["recorded_seconds"]) > 1]
    for pair in PAIRS
}
TIMED = [pair for pair in PAIRS if TIMES[pair]]
each_pair = pytest.mark.parametrize("pair", PAIRS)
RECORDED_STARTS = [
    (f"{start['workload']}:{start['recipe']}", start["cap_gib"], start["from_start"])
    for start in json.loads((Path(__file__).parents[1] / "data" / "h200_starts.json").read_text())
]
# Sizes from 2,100 on fit and fail by turns there: labels that are cut out of a tensor on the GPU, and copied where the
# loss wants them in one piece, may hold a large block, which is not modelled.
UNSTEADY = ("gru:bf16", 39.0, 2143)
STARTS = [start for start in RECORDED_STARTS if start != UNSTEADY]
BAD_STARTS = [pytest.param(*UNSTEADY, marks=pytest.mark.xfail(reason="sizes fit and fail by turns"))]


@cache
def probe_of(pair):
    return probe_for(*pair.split(":"), "h200")


@cache
def errors_of_allocated(pair):
    probe = probe_for(*pair.split(":"), "h200", probe_of(pair).step, RECORDED_UNDER_GIB)
    trials = [(row, probe.try_batch(row["batch_size"])) for row in TRUE[pair]["rows"]]
    return [abs(trial.peak_allocated_bytes / row["allocated"] - 1) for row, trial in trials]


@cache
def errors_of_maxima(pair):
    """How far the largest batch is off, by the cap."""
    step = probe_of(pair).step
    return {
        cap: abs(probe_for(*pair.split(":"), "h200", step, float(cap)).forecast() / largest - 1)
        for cap, largest in TRUE[pair]["maxima"].items()
        if largest
    }


@cache
def errors_of_seconds(pair):
    return [abs(probe_of(pair).measure(row["batch_size"]).step_seconds / row["seconds"] - 1) for row in TIMES[pair]]


@each_pair
def test_the_peak_of_allocated_memory_is_within_two_percent_at_every_batch_and_mostly_far_closer(pair):
    errors = errors_of_allocated(pair)

    assert len(errors) == len(TRUE[pair]["rows"]) > 5
    assert max(errors) < 0.02
    assert median(errors) < 0.005


@pytest.mark.parametrize("pair", TO_THE_BYTE)
def test_peaks_are_what_they_were_on_the_gpu(pair):
    trials = [(row, probe_of(pair).try_batch(row["batch_size"])) for row in TRUE[pair]["rows"]]

    allocated = [abs(trial.peak_allocated_bytes - row["allocated"]) for row, trial in trials]
    assert median(allocated) < MIB / 16
    assert max(allocated) < MIB  # a block of about the right size may be handed out whole
    reserved = [abs(trial.peak_reserved_bytes - row["reserved"]) for row, trial in trials]
    assert median(reserved) == 0
    assert max(reserved) <= 20 * MIB


@each_pair
def test_the_largest_batch_is_within_four_percent_under_every_cap(pair):
    errors = errors_of_maxima(pair)

    assert len(errors) >= 4
    for cap, error in errors.items():
        assert error < LARGEST_BATCH_WITHIN, f"{cap} GiB"


def test_most_largest_batches_are_exact():
    errors = [error for pair in PAIRS for error in errors_of_maxima(pair).values()]

    assert sum(error == 0 for error in errors) > 0.6 * len(errors)


def test_the_largest_batch_is_mostly_within_one_percent():
    assert median(error for pair in PAIRS for error in errors_of_maxima(pair).values()) < 0.01


@cache
def error_from_start(pair, cap_gib, largest):
    probe = probe_for(*pair.split(":"), "h200", probe_of(pair).step, cap_gib)
    found, _ = find_from_start(probe)
    return found.maximum / largest - 1


@pytest.mark.parametrize(("pair", "cap_gib", "largest"), [*STARTS, *BAD_STARTS])
def test_the_largest_batch_of_a_training_that_starts_with_it_is_within_two_percent(pair, cap_gib, largest):
    assert abs(error_from_start(pair, cap_gib, largest)) < 0.02


def test_most_largest_batches_of_trainings_that_start_with_them_are_exact():
    assert sum(error_from_start(*start) == 0 for start in STARTS) > 0.8 * len(STARTS)


@pytest.mark.parametrize("pair", TIMED)
def test_the_time_of_a_step_is_within_thirty_percent(pair):
    assert max(errors_of_seconds(pair)) < 0.30


def test_the_time_of_a_step_is_mostly_within_ten_percent():
    errors = [error for pair in PAIRS for error in errors_of_seconds(pair)]

    assert len(errors) > 30
    assert median(errors) < 0.1


@each_pair
def test_the_documentation_shows_the_errors_of_this_code(pair):
    shown = WRITTEN[pair]

    message = "run `python benchmarks/prediction.py --record`, then `make generated`"
    assert [abs(error) for error in shown["allocated"]] == pytest.approx(errors_of_allocated(pair), abs=1e-4), message
    assert [abs(error) for error in shown["seconds"]] == pytest.approx(errors_of_seconds(pair), abs=1e-3), message


@cache
def published(model, gpu):
    return probe_for(model, "published", gpu)


@pytest.mark.parametrize(("gpu", "model", "largest"), PUBLISHED)
def test_the_published_maxima_come_out_within_two_percent(gpu, model, largest):
    assert published(model, gpu).forecast() == pytest.approx(largest, rel=0.02)


def test_the_published_memory_comes_out_within_two_percent():
    gpu, model, size, mib = PUBLISHED_MIB

    assert (gpu, model, size, mib) == ("a10", "bert", 16, 1.62 * 1024)
    assert published(model, gpu).try_batch(size).peak_allocated_bytes / MIB == pytest.approx(mib, rel=0.02)
