"""Advice about the batch that a step sees: accumulated, split, kept."""

import pytest

from memorymark.advice.screening import split
from memorymark.question.recipe import Recipe
from memorymark.units import GIB, MIB
from support.simulated_gpu import Disproved, Machine, ask, by_precision, roomy, saturating


def test_accumulation_of_today_becomes_a_larger_batch():
    found = ask(roomy(), recipe=Recipe(accumulation_steps=8), batch_size=16, gpu="h200")

    assert found.effective_batch_size == 128
    assert all(one.effective_batch_size >= 128 for one in found.options)
    assert found.best.accumulation_steps == 1


def test_a_batch_that_is_too_large_is_split_so_that_the_effective_batch_stays():
    found = ask(Machine(lambda _: GIB, lambda _: 20 * GIB, by_precision), gpu="h200")

    least = found.best
    assert (least.batch_size, least.accumulation_steps) == (2, 8)
    assert least.changes == ("batch",)
    assert found.learning_rate_note(least).startswith("The effective batch stays 16")


def waiting_gradients(gradient_bytes, without=GIB):
    """What a recipe takes whose gradients wait for those of further batches."""
    return lambda request: without + gradient_bytes * (request.recipe.accumulation_steps > 1)


def test_a_split_batch_leaves_room_for_the_gradients_that_wait_for_the_next():
    machine = Machine(waiting_gradients(50 * GIB), lambda _: 2 * GIB, by_precision)

    least = ask(machine, batch_size=64, gpu="h200").best

    assert (least.batch_size, least.accumulation_steps) == (16, 4)  # 32 fit where nothing waits
    assert least.trial.peak_allocated_bytes == (1 + 50 + 16 * 2) * GIB
    assert least.max_batch_size == 24
    assert least.recipe.accumulation_steps == 4


def test_a_way_on_which_only_one_batch_at_a_time_fits_is_none():
    def fixed(request):
        return GIB if request.recipe.lora else waiting_gradients(90 * GIB)(request)

    found = ask(Machine(fixed, lambda _: 20 * GIB, by_precision), gpu="h200")

    at_once = {"in_backward", "offload_optimizer"}  # with these, no gradient waits
    assert all("lora" in one.changes for one in found.options if at_once.isdisjoint(one.changes))
    why = [one.why for one in found.refused if one.changes == ()]
    assert why == ["does not fit even at batch 1, with gradient accumulation."]


def test_updates_in_the_backward_pass_or_on_the_host_accumulate_nothing_and_say_what_that_means_for_the_batch():
    found = ask(Machine(waiting_gradients(90 * GIB), lambda _: 20 * GIB, by_precision), gpu="h200")

    early = [one for one in found.options if {"in_backward", "offload_optimizer"} & set(one.changes)]
    assert {one.recipe.offload for one in early} == {"none", "optimizer"}
    assert all(one.accumulation_steps == 1 and one.effective_batch_size < 16 for one in early)
    assert all("The effective batch goes from 16" in found.learning_rate_note(one) for one in early)


def test_todays_speed_is_that_of_its_accumulated_steps():
    def speed(request, batch_size):
        return by_precision(request, batch_size) * (2 if request.recipe.accumulation_steps > 1 else 1)

    machine = roomy(speed)

    found = ask(machine, recipe=Recipe(accumulation_steps=8), batch_size=16, gpu="h200")

    assert found.predicted.samples_per_second == 2 * saturating(1000.0)(16)


@pytest.mark.parametrize(("steps", "is_known"), [(1, True), (4, False)])
def test_what_a_change_gains_at_todays_batch_is_said_of_the_same_accumulation(steps, is_known):
    found = ask(roomy(), recipe=Recipe(accumulation_steps=steps), batch_size=16, gpu="h200")

    in_one_batch = [one for one in found.options if one.accumulation_steps == 1]
    assert in_one_batch
    assert all((one.at_todays_batch is not None) == is_known for one in in_one_batch)


def test_a_free_change_that_keeps_the_effective_batch_may_be_a_little_slower_than_a_larger_batch():
    def speed(request, batch_size):
        top = saturating(1000.0, half_at=4)(batch_size)
        # The fused optimizer makes today's batch fast enough to be kept, which the plain one is not.
        return top if not request.recipe.fused else 1000.0 * (0.975 if batch_size <= 64 else 1.0)

    found = ask(
        Machine(lambda _: GIB, lambda _: 200 * MIB, speed), recipe=Recipe(precision="bf16"), batch_size=64, gpu="h200"
    )

    fused = next(one for one in found.options if one.changes == ("fused",))
    assert fused.batch_size == 64
    assert next(one for one in found.options if one.changes == ("batch",)).batch_size > 64


def test_a_run_in_smaller_batches_takes_more_of_them():
    machine = Disproved(lambda _: GIB, lambda _: 20 * GIB, by_precision, true_sample_bytes=lambda _: 40 * GIB)

    found = ask(machine)

    least = next(one for one in found.options if one.changes == ("batch",))
    assert least.measured is not None
    assert (least.batch_size, least.accumulation_steps, least.recipe.accumulation_steps) == (2, 8, 8)


@pytest.mark.parametrize(
    ("effective", "largest", "parts"), [(16, 64, (64, 1)), (16, 5, (4, 4)), (17, 4, (4, 5)), (8, 1, (1, 8))]
)
def test_an_effective_batch_is_split_into_equal_parts_that_fit(effective, largest, parts):
    assert split(effective, largest) == parts
