"""Jobs of several GPUs, and their order."""

from dataclasses import replace

import pytest

from memorymark.fleet.ranking import rank
from support.fleet_holds import A100, H100, HOUR, hold


def test_a_job_adds_up_what_its_gpus_waste_and_says_of_how_many():
    job = rank([hold(0.95), hold(0.0, device=replace(A100, index="1")), hold(0.0, device=replace(A100, index="2"))])[0]

    assert (job.gpus, job.gpu_hours, job.wasted_gpu_hours) == (3, 3.0, 2.0)
    assert [(finding.finding, finding.gpus) for finding in job.findings] == [("idle", 2)]
    assert job.says == "2 of its 3 GPUs did nothing for 2.0 of 2.0 GPU-hours: ask for 1 instead of 3."
    assert job.wasted_gpu_hours_a_day == pytest.approx(48)


def test_findings_that_overlap_count_once():
    job = rank([hold(0.2, 0.2, deviation=0.12, used_gib=9, tensor=0.01, dram=0.01)])[0]

    assert [finding.finding for finding in job.findings] == ["data_bound", "oversized"]
    assert job.wasted_gpu_hours == max(finding.wasted_gpu_hours for finding in job.findings) == pytest.approx(1.6)
    assert "waits for data" in job.says
    assert "would do" in job.says


def test_money_decides_who_wastes_most_unless_a_price_is_unknown():
    cheap, dear = hold(0.0, 0.0, holder="cheap"), hold(0.0, 0.0, device=H100, holder="dear")
    longer = hold(0.0, 0.0, 0.0, holder="unknown", device=replace(A100, name="NVIDIA X"))

    assert [job.id for job in rank([cheap, dear])] == ["dear", "cheap"]
    assert rank([cheap, dear, longer])[0].id == "unknown"
    assert rank([longer])[0].wasted_usd is None


def test_a_price_of_ones_own_counts_and_that_of_a_smaller_gpu_keeps_its_proportion():
    job = rank([hold(0.33, deviation=0.02, used_gib=9, tensor=0.04, dram=0.06)], price_per_hour=3.18)[0]

    assert job.usd_per_hour == 3.18
    assert job.findings[0].smaller_usd_per_hour == pytest.approx(2 * 0.49)
    assert job.wasted_usd == pytest.approx(3.18 - 2 * 0.49)


def test_a_job_that_ended_is_not_told_to_free_what_it_holds():
    ended = rank([hold(0.0, ended=True)])[0]

    assert ended.says == "Its GPU did nothing for 1.0 of 1.0 GPU-hours: see whether the code used the GPU at all."
    assert (ended.wasted_gpu_hours, ended.wasted_gpu_hours_a_day) == (1.0, 0.0)


def test_jobs_that_are_fine_or_young_come_last_and_say_so():
    jobs = rank([hold(0.95, 0.95, holder="fine"), hold(0.0, holder="young", age=60), hold(0.0, holder="idle")])

    assert [(job.id, job.verdict) for job in jobs] == [("idle", "idle"), ("fine", "fine"), ("young", "too_young")]
    assert [job.says for job in jobs[1:]] == ["Nothing to say: busy 95 % of the time.", "Too young to judge."]


def test_a_gpu_that_two_share_is_counted_once():
    halves = [hold(0.0, seconds=HOUR / 2, holder=name) for name in ("a", "b")]

    assert sum(job.gpu_hours for job in rank(halves)) == 1.0
