"""How several GPUs are advised to share a training."""

import pytest

import memorymark as mm
from memorymark.errors import DoesNotFitError
from memorymark.question.recipe import Recipe
from memorymark.units import GIB, MIB
from support.simulated_gpu import Machine, ask, saturating

EIGHT = {"recipe": Recipe(gpus=8, precision="bf16"), "gpu": "h200"}
SPEEDS = {"ddp": 1000.0, "zero1": 900.0, "zero2": 850.0, "fsdp": 800.0, "hsdp": 820.0, None: 400.0}


def fixed(request):
    return GIB + request.recipe.least_bytes(10**9)


def of_batch(request):
    saved = 4 if request.recipe.gradient_checkpointing == "full" else 1
    return 400 * MIB // saved


def speed(request, batch_size):
    recipe = request.recipe
    slower = 1.33 if recipe.gradient_checkpointing == "full" else 1.0
    top = SPEEDS[recipe.used_strategy] / slower / (1.1 if recipe.tensor_parallel > 1 else 1.0)
    return saturating(top * recipe.data_parallel)(batch_size)


class Planless(Machine):
    """A machine for a model that transformers has no plan for."""

    def open(self, request, **options):
        if request.recipe.tensor_parallel > 1:
            self.opened.append(request)
            raise mm.UsageError("no plan.", field="tensor_parallel")
        return super().open(request, **options)


def test_ways_to_share_a_training_are_ranked_by_speed():
    found = ask(Machine(fixed, of_batch, speed, parameters=10**9), **EIGHT)
    by_changes = {one.changes: one for one in found.options}

    assert found.today.fits
    assert {("fsdp",), ("zero2",), ("zero1",), ("tensor_parallel_2",), ("tensor_parallel_8",)} <= set(by_changes)
    assert ("hsdp",) not in by_changes  # in one machine there is nothing to copy
    gains = [found.gain(one) for one in found.ranked]
    assert gains == sorted(gains, reverse=True) and gains[-1] < 1
    assert ("fsdp", "checkpointing") not in by_changes  # which nothing needs
    assert by_changes[("tensor_parallel_8",)].recipe.tensor_parallel == 8


def test_several_machines_may_copy_between_them():
    recipe = Recipe(gpus=16, nodes=2, precision="bf16")
    found = ask(Machine(fixed, of_batch, speed, parameters=10**9), recipe=recipe, gpu="h200")

    assert ("hsdp",) in {one.changes for one in found.options}


def test_gpus_that_share_layers_get_their_batches_together():
    found = ask(Machine(fixed, of_batch, lambda *_: 100.0, parameters=10**9), batch_size=4, **EIGHT)
    four = next(one for one in found.options if one.changes == ("tensor_parallel_4",))

    assert found.effective_batch_size == 32
    assert (four.batch_size * four.accumulation_steps, four.effective_batch_size) == (16, 32)


def test_weights_that_are_too_large_are_not_tried_whole():
    machine = Machine(lambda r: r.recipe.least_bytes(2 * 10**10), of_batch, speed, parameters=2 * 10**10)
    found = ask(machine, **EIGHT)

    assert not found.fits_today and found.predicted is None
    assert {one.title for one in found.refused} >= {"today's recipe", "ZeRO-1"}
    assert all(request.recipe.cuts_weights for request in machine.opened)
    assert found.best.changes[0] == "zero2" and found.least_change == ("zero2",)


def test_where_todays_does_not_fit_nothing_is_gathered_again_to_keep_its_batch():
    machine = Machine(lambda r: r.recipe.least_bytes(2 * 10**10), of_batch, speed, parameters=2 * 10**10)
    found = ask(machine, batch_size=1000, **EIGHT)

    assert all(one.accumulation_steps == 1 for one in found.options)
    assert found.best.effective_batch_size < found.effective_batch_size == 8000


def test_checkpointing_is_added_where_a_batch_is_not_held_without():
    machine = Machine(fixed, lambda request: 20 * of_batch(request), speed, parameters=10**9)
    found = ask(machine, **EIGHT)

    assert any(one.changes == ("checkpointing",) for one in found.options)
    assert any(one.changes == ("fsdp", "checkpointing") for one in found.options)
    assert ("fsdp",) not in {one.changes for one in found.options}  # today's batch needed it already


def test_a_model_without_a_plan_is_asked_about_once():
    machine = Planless(fixed, of_batch, speed, parameters=10**9)
    found = ask(machine, **EIGHT)

    assert [request.recipe.tensor_parallel for request in machine.opened].count(2) == 1
    assert not any(request.recipe.tensor_parallel > 2 for request in machine.opened)
    assert "no plan." in [one.why for one in found.refused]


def test_what_fits_no_way_says_how_many_gpus_would_do():
    machine = Machine(lambda r: r.recipe.least_bytes(10**11), of_batch, speed, parameters=10**11)
    with pytest.raises(DoesNotFitError, match="take gpus=32 or more, or larger ones"):
        ask(machine, **EIGHT)


def test_the_code_to_paste_is_that_of_the_best_way():
    found = ask(Machine(lambda r: r.recipe.least_bytes(2 * 10**10), of_batch, speed, parameters=2 * 10**10), **EIGHT)

    assert "fully_shard" in found.code(found.best).pytorch
    assert found.to_dict()["options"][0]["recipe"]["strategy"] == "zero2"


def test_a_batch_that_does_not_divide_among_the_gpus_gets_no_smaller():
    shared = {"recipe": Recipe(gpus=8, tensor_parallel=8, precision="bf16"), "gpu": "h200"}
    found = ask(Machine(fixed, of_batch, lambda *_: 100.0, parameters=10**9), batch_size=12, **shared)

    assert found.effective_batch_size == 12
    assert {one.changes: one.effective_batch_size for one in found.options}["fsdp",] == 16
    assert all(one.effective_batch_size >= 12 for one in found.options)
