"""What an advice says of its numbers, and in which order it says it."""

import json
from dataclasses import replace

import pytest

import memorymark as mm
from memorymark.render.html import fragment
from memorymark.render.terminal import print_result
from memorymark.results.option import Refused
from memorymark.results.result import result_from_dict
from support.advices import FP32, advice, option


def test_the_fastest_comes_first_and_its_gain_is_over_today():
    found = advice(option(("tf32",), 300.0), option(("bf16",), 500.0), option(("batch",), 150.0, recipe=FP32))

    assert [found.gain(one) for one in found.ranked] == [5.0, 3.0, 1.5]
    assert found.best.changes == ("bf16",)
    assert found.verdict == "bf16 autocast, batch 64: trains 5.00x faster than today and saves $576 a year, predicted."


def test_of_those_that_are_as_fast_the_smallest_batch_comes_first():
    found = advice(option(("bf16",), 500.0, 1024), option(("bf16", "fused"), 495.0, 256), option(("tf32",), 480.0, 16))

    assert [one.batch_size for one in found.ranked] == [256, 1024, 16]


def test_a_smaller_batch_does_not_come_first_if_it_alone_is_not_worth_the_change():
    found = advice(option(("bf16",), 106.0, 1024), option(("fused",), 104.6, 256))

    assert [one.batch_size for one in found.ranked] == [1024, 256]
    assert found.best.batch_size == 1024
    assert found.to_dict()["worth_changing"] is True


def test_where_nothing_is_worth_the_change_the_smallest_batch_comes_first_all_the_same():
    found = advice(option(("bf16",), 104.0, 1024), option(("fused",), 103.0, 256))

    assert [one.batch_size for one in found.ranked] == [256, 1024]
    assert found.best is None


def test_a_gain_compares_measured_with_measured_and_predicted_with_predicted():
    ran, only_predicted = option(("bf16",), 500.0, measured=330.0), option(("tf32",), 600.0)
    found = advice(ran, only_predicted, predicted=100.0, measured=110.0)

    assert (found.gain(ran), found.predicted_gain(ran)) == (3.0, 5.0)
    assert found.gain(only_predicted) == 6.0


def test_what_was_confirmed_comes_before_what_only_looks_better():
    found = advice(option(("tf32",), 900.0), option(("bf16",), 500.0, measured=330.0), measured=110.0)

    assert found.best.changes == ("bf16",)
    assert "measured" in found.verdict


def test_a_training_that_is_well_tuned_is_told_so():
    found = advice(option(("fused",), 103.0), option(("checkpointing",), 80.0))

    assert found.best is None
    assert found.verdict == "Nothing is worth changing: the best of 2 options gains 3 %."
    assert found.to_dict()["worth_changing"] is False


def test_where_every_other_way_is_slower_no_gain_is_told():
    assert advice(option(("checkpointing",), 80.0)).verdict == "Nothing is worth changing."


def test_where_today_does_not_fit_the_least_change_comes_first_however_slow():
    lora = option(("lora", "bf16"), 900.0)
    checkpointing = option(("checkpointing",), 10.0, 2, steps=8)
    found = advice(lora, checkpointing, option(("bf16",), 20.0), predicted=None)

    assert [one.changes for one in found.ranked] == [("checkpointing",), ("bf16",), ("lora", "bf16")]
    assert found.verdict == (
        "The least change that makes it fit: gradient checkpointing, batch 2 x 8 accumulation steps."
    )
    assert found.gain(lora) is None


@pytest.mark.parametrize(
    ("optimizer", "batch", "steps", "said"),
    [
        ("adamw", 2, 8, "stays 16"),
        ("adamw", 64, 1, "from 16 to 64: multiply the learning rate by up to 2 (square-root rule for Adam)"),
        ("sgd", 64, 1, "multiply the learning rate by up to 4 (linear rule)"),
    ],
)
def test_the_learning_rate_follows_the_effective_batch(optimizer, batch, steps, said):
    request = mm.Request(model="bert", recipe=mm.Recipe(optimizer=optimizer))
    chosen = option(("bf16",), 500.0, batch, steps=steps, recipe=mm.Recipe(precision="bf16", optimizer=optimizer))

    assert said in advice(chosen, request=request).learning_rate_note(chosen)


def test_a_batch_that_hardly_grows_and_another_optimizer_have_notes_of_their_own():
    hardly, other = option(("bf16",), 500.0, 17), option(("adafactor",), 9.0, recipe=mm.Recipe(optimizer="adafactor"))

    assert "stays about 16 (17), and so does the learning rate" in advice(hardly).learning_rate_note(hardly)
    assert "a different optimizer needs a different learning rate" in advice(other).learning_rate_note(other)


def test_the_effective_batch_of_today_counts_its_accumulation_steps():
    request = mm.Request(model="bert", recipe=mm.Recipe(accumulation_steps=4))
    chosen = option(("bf16",), 500.0, 64)

    assert advice(chosen, request=request).learning_rate_note(chosen).startswith("The effective batch stays 64")


def test_money_follows_from_the_throughput():
    chosen = option(("bf16",), 500.0)
    found = advice(chosen)

    assert found.usd_per_million_samples(chosen.trial) == pytest.approx(3.6 / 3600 / 500 * 1e6)
    assert found.saves(chosen).per_run_usd == pytest.approx(2 * 3.6 * (1 - 1 / 5))
    assert advice(chosen, price=None).saves(chosen) is None


@pytest.mark.parametrize("fits", [True, False])
def test_the_document_reads_back_as_the_same_advice(fits):
    found = advice(
        option(("bf16", "fused"), 500.0, measured=330.0),
        option(("checkpointing",), 80.0, 2, steps=8),
        predicted=100.0 if fits else None,
        measured=110.0 if fits else None,
        refused=(Refused(("compile",), "no."),),
    )
    document = json.loads(json.dumps(found.to_dict()))

    read = result_from_dict(document)

    assert replace(read, options=()) == replace(found, options=())
    assert read.ranked == found.ranked
    assert json.loads(json.dumps(read.to_dict())) == document


def test_reports_show_the_verdict_the_costs_the_code_and_what_was_left(capsys):
    found = advice(
        option(("bf16", "fused"), 500.0, measured=330.0), measured=110.0, refused=(Refused(("lora",), "too much."),)
    )

    print_result(found)
    text, page = capsys.readouterr().out, fragment(found)

    for report in (text, page):
        assert "3.00x" in report
        assert "5.00x predicted" in report
        assert "torch.autocast" in report
        assert "Products and activations keep 8 bits" in " ".join(report.split())
        assert "LoRA rank 16" in report
        assert "too much." in report
