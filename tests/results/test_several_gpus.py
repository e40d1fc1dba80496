"""What an analysis says of several GPUs: memory of each, money of all."""

from dataclasses import replace

import pytest

from memorymark.catalog import find_gpu
from memorymark.engine.analyze import price_of
from memorymark.question.question import Question
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.render.several import several_notes
from memorymark.results.analysis import Analysis
from memorymark.results.trial import Trial
from support.analyses import analysis

SEVERAL = Recipe(gpus=8, strategy="fsdp")


def of_eight():
    one = analysis("h100", {8: 100.0, 16: 180.0})
    trials = [replace(trial, gpus=8, strategy="fsdp") for trial in one.trials]
    return replace(one, trials=trials, request=replace(one.request, recipe=SEVERAL))


def test_the_document_says_how_many_gpus_share_the_work_and_what_each_holds():
    document = of_eight().to_dict()

    assert (document["gpus"], document["strategy"]) == (8, "fsdp")
    assert document["per_gpu"]["samples_per_second"] == of_eight().recommended.samples_per_second / 8
    assert document["per_gpu"]["device_bytes"] == of_eight().recommended.device_bytes
    assert Analysis.from_dict(document) == of_eight()


def test_one_gpu_has_no_parts():
    document = analysis("h100", {8: 100.0}).to_dict()
    assert (document["gpus"], document["strategy"], document["per_gpu"]) == (1, None, None)


@pytest.mark.parametrize("given", [None, 2.0])
def test_an_hour_of_eight_gpus_costs_eight_times_that_of_one(given):
    info = of_eight().info
    one, eight = (
        price_of(Question(request=Request(model="bert", recipe=recipe), price_per_hour=given), info)
        for recipe in (Recipe(), SEVERAL)
    )

    assert one.usd_per_hour == (given or find_gpu("h100").price.usd_per_hour)
    assert eight.usd_per_hour == pytest.approx(8 * one.usd_per_hour)


def test_efficiency_is_the_part_of_a_step_that_a_gpu_computes():
    trial = Trial(batch_size=1, fits=True, gpus=8, step_seconds=2.0, computing_seconds=1.5)
    assert trial.scaling_efficiency == 0.75
    assert Trial(batch_size=1, fits=True).scaling_efficiency is None


def test_reports_say_whose_numbers_they_are_and_what_is_assumed():
    found = of_eight()
    info = replace(found.info, nccl_bytes=(2**28, 2**29, 2**30), nccl_source="somewhere", links=("NVLink 4",))
    said = " ".join(several_notes(info, SEVERAL, found.recommended))

    assert "each of the 8 GPUs; throughput and money are of all" in said
    assert "NVLink 4" in said and "0.25 GiB to 1.00 GiB for NCCL (somewhere)" in said
    assert several_notes(info, Recipe(), found.recommended) == []


def test_a_measured_rank_says_what_it_leaves_out():
    found = of_eight()
    said = several_notes(replace(found.info, source="measured"), SEVERAL, found.recommended)[0]

    assert "group sends nothing" in said and "without the time to talk" in said
