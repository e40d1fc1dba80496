"""How advice is found: what is tried, what is run, and what is told of what leads nowhere."""

import pytest
import torch

import memorymark as mm
from memorymark.advice.advise import advise
from memorymark.advice.training_script import script_for
from memorymark.catalog import find_gpu
from memorymark.errors import UsageError
from memorymark.events import StageStarted, TrialFinished
from memorymark.messages import Message
from memorymark.question.question import Question
from memorymark.question.recipe import Recipe
from memorymark.question.request import OwnRequest
from memorymark.units import GIB, MIB
from support.simulated_gpu import Disproved, Machine, Probe, ask, by_precision, roomy, saturating
from support.tiny import tiny

A10 = mm.Target(gpu="a10")


def test_the_recipe_that_gains_most_is_put_together_and_run():
    found = ask(roomy())

    assert found.best.changes == ("bf16", "fused")
    assert found.best.measured is not None
    assert found.measured is not None
    assert found.gain(found.best) == pytest.approx(8.8 * 48 / 16 * found.best.batch_size / (found.best.batch_size + 32))
    assert {one.changes for one in found.options} >= {("batch",), ("tf32",), ("bf16",), ("bf16", "fused")}


def test_the_best_three_are_run_and_the_others_stay_predicted():
    found = ask(roomy())

    ran = [one.changes for one in found.options if one.measured is not None]
    predicted_speeds = sorted((one.predicted.samples_per_second for one in found.options), reverse=True)
    assert len(ran) == 3
    assert len(found.options) > 3
    assert {one.predicted.samples_per_second for one in found.options if one.changes in ran} == set(
        predicted_speeds[:3]
    )


def test_what_turns_out_slower_than_predicted_is_ranked_by_what_was_measured():
    def true_speed(request, batch_size):
        return by_precision(request, batch_size) * (0.3 if request.recipe.fused else 1.0)

    found = ask(roomy(true_speed=true_speed))

    assert found.best.changes == ("bf16",)
    fused = next(one for one in found.options if one.changes == ("bf16", "fused"))
    assert found.gain(fused) < found.predicted_gain(fused)


def test_a_larger_batch_is_taken_where_the_run_shows_that_it_is_faster():
    def true_speed(request, batch_size):
        return saturating(8000.0, half_at=600)(batch_size) if request.recipe.precision == "bf16" else 100.0

    found = ask(roomy(true_speed=true_speed))

    assert found.best.predicted.batch_size == found.best.measured.batch_size == found.best.batch_size
    assert found.best.batch_size > 400


def test_a_batch_that_does_not_run_is_made_smaller_until_it_does():
    twice = Disproved(
        lambda _: GIB, lambda _: 100 * MIB, lambda _, size: 10.0 * size, true_sample_bytes=lambda _: 200 * MIB
    )

    found = ask(twice)

    assert found.best.measured.fits
    assert found.best.measured.peak_reserved_bytes <= 0.95 * 100 * GIB


def test_what_is_predicted_to_be_much_slower_is_not_run():
    def speed(request, batch_size):
        return by_precision(request, batch_size) * (0.7 if request.recipe.gradient_checkpointing == "full" else 1.0)

    ran = [one.changes for one in ask(roomy(speed=speed)).options if one.measured is not None]
    assert ran == [("bf16", "fused"), ("bf16",)]


def test_a_way_that_never_fits_is_given_up_at_batch_1():
    def true_fixed(request):
        return (200 if request.recipe.precision == "bf16" else 1) * GIB

    heard = []
    full = Disproved(lambda _: GIB, lambda _: 30 * GIB, by_precision, true_fixed_bytes=true_fixed)
    ask(full, heard=heard, batch_size=1)

    failed = [event.trial.batch_size for event in heard if isinstance(event, TrialFinished) and not event.trial.fits]
    assert failed
    assert failed.count(1) <= 3  # once for each way


def test_a_batch_of_today_that_runs_out_of_memory_does_not_fit_whatever_was_predicted():
    machine = Disproved(lambda _: GIB, lambda _: 100 * MIB, by_precision, true_sample_bytes=lambda _: 200 * MIB)
    heard = []

    found = ask(machine, batch_size=900, try_compile=True, heard=heard)

    failed = [event.trial for event in heard if isinstance(event, TrialFinished) and not event.trial.fits]
    assert failed[0].batch_size == 900
    assert (found.fits_today, found.today) == (False, None)
    assert "does not run at batch 900, against the prediction." in [one.why for one in found.refused]
    assert found.best.measured.fits
    assert (found.best.changes, found.best.batch_size, found.best.accumulation_steps) == (("batch",), 450, 2)
    assert found.best.predicted.batch_size == 450
    assert found.verdict == "The least change that makes it fit: batch 450 x 2 accumulation steps."


def test_where_today_runs_out_of_memory_the_options_are_run_and_compiled_all_the_same():
    machine = Disproved(lambda _: GIB, lambda _: 100 * MIB, by_precision, true_sample_bytes=lambda _: 200 * MIB)

    found = ask(machine, batch_size=900, try_compile=True)

    ran = [one.changes for one in found.options if one.measured is not None]
    assert len(ran) == 4
    assert "compile" in ran[-1]
    assert ("compile",) not in [one.changes for one in found.refused]


def test_a_smaller_batch_that_was_looked_at_already_is_not_looked_at_twice():
    def speed(request, batch_size):
        return by_precision(request, batch_size) * (0.5 if batch_size > 600 else 1.0)

    machine = Disproved(lambda _: GIB, lambda _: 100 * MIB, speed, true_sample_bytes=lambda _: 150 * MIB)

    found = ask(machine, batch_size=900)

    assert [one.changes for one in found.options].count(("batch",)) == 1
    assert found.best.changes == ("batch",)
    assert found.best.batch_size <= 600


def test_where_no_way_that_should_be_faster_runs_those_that_make_room_are_tried():
    def true_fixed(request):
        return (20 if request.recipe.lora else 200) * GIB

    machine = Disproved(lambda _: GIB, lambda _: GIB, by_precision, true_fixed_bytes=true_fixed)

    found = ask(machine, batch_size=1)

    assert not found.fits_today
    assert found.best.changes == ("lora",)
    assert found.best.measured.fits


def test_where_not_even_the_weights_of_today_fit_the_gpu_a_change_that_runs_is_found():
    class Crowded(Machine):
        def open(self, request, **options):
            if request.target.gpu is None and not request.recipe.lora:
                raise mm.DoesNotFitError("the weights do not fit.")
            return super().open(request, **options)

    found = ask(Crowded(lambda _: GIB, lambda _: GIB, by_precision))

    assert not found.fits_today
    assert found.best.changes == ("lora",)
    assert found.best.measured.fits


@pytest.mark.parametrize(
    ("sample_bytes", "fits"), [(100 * MIB, True), (20 * GIB, False)], ids=["today fits", "today does not"]
)
def test_on_a_gpu_that_torch_cannot_use_all_stays_predicted_for_it(sample_bytes, fits):
    machine = Machine(lambda _: GIB, lambda _: sample_bytes, by_precision, here=False)

    found = ask(machine, try_compile=True)

    assert found.fits_today is fits
    assert {one.source for one in found.options} == {"predicted"}
    assert all(one.measured is None for one in found.options)
    assert [one.why for one in found.refused if one.changes == ("compile",)]


def test_for_a_gpu_that_is_named_nothing_is_run():
    machine = roomy()

    found = ask(machine, gpu="a100-80gb", try_compile=True)

    assert {request.target.gpu for request in machine.opened} == {"a100-80gb"}
    assert found.measured is None
    assert "a year" in found.verdict
    assert "predicted" in found.verdict
    assert [one.why for one in found.refused if one.changes == ("compile",)]


def test_a_training_that_is_well_tuned_is_told_so():
    machine = roomy()

    found = ask(machine, batch_size=900, recipe=Recipe(precision="bf16", fused=True))

    assert found.best is None
    assert found.verdict.startswith("Nothing is worth changing")


def test_a_change_that_gains_nothing_is_left_and_said_so():
    found = ask(roomy(), recipe=Recipe(precision="bf16"), gpu="h200")
    slow = ask(Machine(lambda _: GIB, lambda _: 100 * MIB, lambda _, size: saturating(100.0)(size)))

    assert ("bf16", "fused") not in [one.changes for one in found.options]  # bf16 is there already
    assert [one.why for one in slow.refused if one.changes == ("bf16",)] == ["gains 0.0 %, predicted."]


def test_what_is_slower_than_today_is_no_advice():
    def speed(request, batch_size):
        return by_precision(request, batch_size) * (0.7 if request.recipe.gradient_checkpointing == "full" else 1.0)

    found = ask(Machine(lambda _: GIB, lambda _: 100 * MIB, speed), batch_size=900, recipe=Recipe(precision="bf16"))

    assert all(found.gain(one) >= 1 for one in found.options)
    assert any(one.changes[-1] == "checkpointing" and "loses" in one.why for one in found.refused)


def test_checkpointing_that_nobody_needs_is_dropped():
    def speed(request, batch_size):
        return by_precision(request, batch_size) * (0.7 if request.recipe.gradient_checkpointing == "full" else 1.0)

    tuned = Recipe(precision="bf16", fused=True, gradient_checkpointing=True)
    found = ask(Machine(lambda _: GIB, lambda _: 100 * MIB, speed), batch_size=900, recipe=tuned)

    assert found.best.changes == ("no_checkpointing",)
    assert found.gain(found.best) == pytest.approx(1 / 0.7, rel=0.05)
    predicted = ask(Machine(lambda _: GIB, lambda _: 100 * MIB, speed), batch_size=900, recipe=tuned, gpu="a10")
    assert not any({"no_checkpointing", "checkpointing"} <= set(one.changes) for one in predicted.options)


def test_a_gpu_without_fast_bf16_gets_fp16_instead(monkeypatch):
    monkeypatch.setattr(Probe, "gpu", find_gpu("t4"))

    def speed(request, batch_size):
        return saturating({"bf16": 100.0, "fp16": 900.0}[request.recipe.precision])(batch_size)

    found = ask(Machine(lambda _: GIB, lambda _: 100 * MIB, speed), recipe=Recipe(precision="bf16"), gpu="t4")

    assert found.best.recipe.precision == "fp16"


def test_an_effective_batch_that_is_nearly_as_fast_is_kept():
    found = ask(roomy(), recipe=Recipe(precision="bf16", accumulation_steps=8), batch_size=64, gpu="h200")

    assert (found.best.batch_size, found.best.accumulation_steps) == (512, 1)
    assert found.learning_rate_note(found.best).startswith("The effective batch stays 512")


def test_the_fused_optimizer_alone_may_make_room():
    found = ask(Machine(lambda r: (90 if r.recipe.fused else 120) * GIB, lambda _: GIB // 10, by_precision), gpu="h200")

    assert found.best.changes == ("fused",)
    assert found.best.batch_size == 16  # as today, though more would fit


def test_what_does_not_fit_gets_the_least_change_that_does():
    def fixed(request):
        recipe = request.recipe
        if recipe.lora:
            return 20 * GIB
        return (120 if recipe.gradient_checkpointing == "none" else 60 if recipe.precision == "fp32" else 30) * GIB

    found = ask(Machine(fixed, lambda _: GIB, by_precision), gpu="h200")

    assert not found.fits_today
    assert found.best.changes == ("fused", "checkpointing")
    assert ("lora",) in [one.changes for one in found.options]
    assert [one.why for one in found.refused if one.changes == ()] == ["does not fit even at batch 1."]


def test_a_change_that_fits_without_the_margin_is_refused():
    capacity_bytes = 100 * GIB

    def fixed(request):
        share = 0.5 if request.recipe.lora else 0.98 if request.recipe.gradient_checkpointing == "full" else 2
        return int(share * capacity_bytes)

    found = ask(Machine(fixed, lambda _: MIB, by_precision, capacity_bytes=capacity_bytes), gpu="h200")

    assert found.options
    assert all(one.recipe.lora for one in found.options)
    assert all(one.trial.peak_reserved_bytes <= 0.95 * capacity_bytes for one in found.options)
    why = {one.changes: one for one in found.refused}
    assert why[("fused", "checkpointing")].why == "leaves less than 5% of the memory free."
    assert why[("fused", "checkpointing")].does_not_fit


def test_half_weights_come_before_adapters_as_they_change_less_of_what_is_learned():
    machine = Machine(
        lambda r: (40 if r.recipe.lora or r.recipe.weights == "bf16" else 200) * GIB,
        lambda _: GIB,
        by_precision,
        parameters=8 * 10**9,
    )

    found = ask(machine, gpu="h100", recipe=mm.Recipe(precision="bf16"))

    ways = [one.changes for one in found.options]
    assert found.best.changes[0] == "bf16_weights"
    assert ways.index(("bf16_weights", "adamw8bit")) < ways.index(("lora",))
    assert not any("nf4" in changes or "int8" in changes for changes in ways)


def test_quantized_weights_are_the_way_where_nothing_else_fits():
    machine = Machine(
        lambda r: (40 if r.recipe.weights == "nf4" else 200) * GIB, lambda _: GIB, by_precision, parameters=8 * 10**9
    )

    found = ask(machine, gpu="h200")

    assert found.best.changes == ("lora", "bf16", "nf4", "checkpointing")
    assert (found.best.recipe.lora, found.best.recipe.weights) == (16, "nf4")


def test_where_the_weights_alone_are_too_large_nothing_is_traced_for_it():
    machine = Machine(
        lambda r: (40 if r.recipe.lora else 200) * GIB, lambda _: GIB, by_precision, parameters=30 * 10**9
    )

    found = ask(machine, gpu="h200")

    full = [request.recipe for request in machine.opened[1:] if not request.recipe.lora]
    assert full == []
    assert ["weights, gradients and optimizer state alone" in one.why for one in found.refused][:3] == [True] * 3
    assert found.best.changes == ("lora", "bf16")


@pytest.mark.parametrize(
    "own",
    [OwnRequest.from_name("net", Recipe(), A10), mm.Request(model="nets.py:make", target=A10)],
    ids=["workload", "factory"],
)
@pytest.mark.parametrize(("taken", "fits"), [(8, True), (30, False)], ids=["today fits", "today does not"])
def test_what_the_weights_of_ones_own_model_take_is_not_guessed_from_their_number(own, taken, fits):
    """They may be frozen or of any type: 2 billion in bf16 that are not trained take 4 GB, and not 32."""

    def fixed(request):
        return taken * GIB // (1 if fits or request.recipe.precision == "fp32" else 2)

    machine = Machine(fixed, lambda _: MIB, by_precision, capacity_bytes=22 * GIB, parameters=2 * 10**9, tokens=0)

    found = advise(Question(request=own, advise=True, try_compile=False), machine, lambda _: None)

    assert found.fits_today is fits
    assert found.best.changes == ("bf16", "fused")
    assert not [one.why for one in found.refused if "alone take" in one.why]


def test_shorter_samples_are_the_last_resort():
    machine = Machine(lambda _: GIB, lambda r: (r.seq_len or 1024) * GIB, lambda *_: 1.0, tokens=1024)

    found = ask(machine, gpu="h200")

    assert found.best.seq_len == 64
    assert found.best.changes[-1] == "shorter"
    assert "max_length=64" in found.code(found.best).pytorch


def test_what_fits_by_no_change_is_said_with_all_that_was_tried():
    with pytest.raises(
        mm.DoesNotFitError,
        match=r"none of the \d+ changes tried makes .* fit .*: even with LoRA .* it does not fit .* with 64 tokens; "
        "take a larger GPU",
    ):
        ask(Machine(lambda _: 200 * GIB, lambda _: GIB, by_precision), gpu="h200")


def test_a_change_that_the_model_refuses_is_left_with_its_reason():
    class NoCheckpointing(Machine):
        def open(self, request, **options):
            if request.recipe.gradient_checkpointing != "none":
                raise UsageError("Net has no gradient checkpointing", hint=Message("drop {gradient_checkpointing}"))
            return super().open(request, **options)

    found = ask(NoCheckpointing(lambda _: GIB, lambda _: 100 * MIB, by_precision))

    assert "Net has no gradient checkpointing." in [one.why for one in found.refused]


def test_what_cannot_be_predicted_is_run_instead():
    class Unpredictable(Machine):
        def open(self, request, **options):
            if request.target.gpu is not None:
                raise mm.CannotPredictError("no shape rule.")
            return super().open(request, **options)

    found = ask(Unpredictable(lambda _: GIB, lambda _: 100 * MIB, by_precision))

    assert found.predicted is None
    assert all(one.measured is not None for one in found.options)
    assert found.best.changes == ("bf16", "fused")


def test_todays_batch_above_the_largest_that_may_be_tried_is_refused():
    request = mm.Request(model="bert", target=A10)

    with pytest.raises(
        UsageError,
        match=r"^max_batch=8 is below today's batch_size=16, so no gain over today can be measured; .*\.$",
    ):
        Question(request=request, max_batch=8, advise=True)

    question = Question(request=request, max_batch=8, current_batch_size=8, advise=True)
    assert advise(question, roomy(), lambda _: None).fits_today


class Inverted(torch.nn.Module):
    """A layer with an inverse, which torch has for full precision alone."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(64, 64)

    def forward(self, x):
        return torch.linalg.inv(self.inner(x)).mean()


def test_a_way_that_crashes_in_this_process_is_left_and_the_others_are_not():
    workload = mm.Workload(
        build=Inverted,
        batch=lambda size, device: {"x": torch.rand(size, 64, 64, device=device)},
        loss=lambda model, batch: model(**batch),
    )

    found = mm.advise(workload, gpu="a10", max_batch=256)

    refused = {one.title: one.why for one in found.refused}
    assert refused["bf16 autocast"].startswith("loss= raised RuntimeError: linalg")
    assert found.options


def test_listeners_hear_of_every_way_and_of_every_run():
    heard = []

    found = ask(roomy(), heard=heard)

    messages = [event.message for event in heard if isinstance(event, StageStarted)]
    assert any("bf16 autocast, fused optimizer" in message and "predicted" in message for message in messages)
    runs = [event.trial for event in heard if isinstance(event, TrialFinished)]
    assert found.measured in runs
    assert {one.measured for one in found.options if one.measured} <= set(runs)


def test_a_workload_of_ones_own_is_advised_about_in_this_process():
    heard = []

    found = mm.advise(tiny(), gpu="h200", on_event=heard.append, max_batch=4096)

    assert found.predicted is not None
    assert found.today.fits
    assert found.best.batch_size > 16
    assert "torch" in found.code(found.best).pytorch
    with pytest.raises(mm.MemoryMarkError, match="only your program can build this workload"):
        script_for(found)
