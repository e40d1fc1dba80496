"""What is offered where a training does not fit, on GPUs by formulas."""

from dataclasses import dataclass, field, replace

import pytest

import memorymark as mm
from memorymark.advice.suggesting import MOST_TRACES, suggest
from memorymark.catalog import all_gpus, find_gpu
from memorymark.engine.analyze import analyze_with
from memorymark.errors import StoppedError, WorkerLostError
from memorymark.events import StageStarted, ignore
from memorymark.question.question import Question
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Failure, Trial
from memorymark.suggestions import in_a_sentence
from memorymark.units import GIB, MIB


@dataclass
class Anywhere:
    """A training by two formulas, on any GPU of the catalog; counts what had to be traced."""

    fixed_bytes: object
    sample_bytes: object = lambda _: 100 * MIB
    parameters: int = 1000
    workload: object = None
    traces: set = field(default_factory=set)

    def open(self, request, *, predict_without_gpu):
        assert predict_without_gpu
        return Probe(self, request)


class Probe:
    def __init__(self, machine, request):
        self._machine, self._request = machine, request
        self.retarget(request.target.entry)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def retarget(self, gpu):
        cap = self._request.target.memory_cap_bytes
        self._machine.traces.add((self._request.recipe, gpu.has_bf16, gpu.capability[0] in (9, 10)))
        self.info = ProbeInfo(
            device_kind="cuda",
            device_name=gpu.name,
            gpu_id=gpu.id,
            total_bytes=gpu.torch_memory_bytes,
            capacity_bytes=min(gpu.usable_bytes, cap or gpu.usable_bytes),
            capped=cap is not None,
            parameters=self._machine.parameters,
            source="predicted",
            sample_sizes={"tokens": 1024},
        )

    def try_batch(self, batch_size):
        taken = self._machine.fixed_bytes(self._request) + batch_size * self._machine.sample_bytes(self._request)
        there = self.info.capacity_bytes
        return Trial(
            batch_size=batch_size,
            fits=taken <= there,
            source="predicted",
            peak_allocated_bytes=int(taken),
            peak_reserved_bytes=int(taken),
            device_bytes=int(taken) + GIB // 2,
            peak_host_bytes=5 * GIB if self._request.recipe.offload != "none" else 0,
            failure=None if taken <= there else Failure("memory", "no", int(taken), there),
            samples_per_second=1.0,
        )

    try_from_start = measure = try_batch

    def forecast(self):
        return None

    def second_batch(self):
        return None


def question(gpu="t4", recipe=None, cap=None, **more):
    target = mm.Target(gpu=gpu, memory_cap_bytes=cap)
    return Question(request=mm.Request(model="gpt2-lm", target=target, recipe=recipe or mm.Recipe()), **more)


def asked(machine, about, on_event=ignore):
    with pytest.raises(mm.DoesNotFitError) as caught, machine.open(about.request, predict_without_gpu=True) as probe:
        analyze_with(about, probe, ignore, 0.0)
    machine.traces.clear()
    return suggest(about, caught.value, machine, on_event)


def gib_by(fp32, bf16=None, checkpointing=None, lora=None):
    """What a recipe takes, by the change that saves the most of it."""

    def fixed(request):
        recipe, least = request.recipe, fp32
        for is_on, size in (
            (recipe.precision != "fp32", bf16),
            (recipe.precision != "fp32" and recipe.gradient_checkpointing == "full", checkpointing),
            (recipe.lora, lora),
        ):
            least = min(least, size) if is_on and size is not None else least
        return least * GIB

    return fixed


def test_a_larger_gpu_is_the_smallest_on_which_it_fits_and_not_the_next_one():
    found = asked(Anywhere(gib_by(60)), question())

    assert [one.change for one in found] == [{"gpu": "a100-80gb"}]
    assert found[0].label == "NVIDIA A100 80 GB"
    fits = [gpu for gpu in all_gpus() if gpu.price and gpu.usable_bytes >= 60.1 * GIB]
    assert find_gpu("a100-80gb").torch_memory_bytes == min(gpu.torch_memory_bytes for gpu in fits)


def test_every_suggestion_fits_when_it_is_asked_for():
    machine = Anywhere(gib_by(60, bf16=30, checkpointing=18, lora=6))
    about = question("a10")
    found = asked(machine, about)

    assert len(found) == 2
    for one in found:
        change = dict(one.change)
        gpu = change.pop("gpu", "a10")
        recipe = replace(about.request.recipe, **change)
        request = replace(about.request, recipe=recipe, target=mm.Target(gpu=gpu))
        with machine.open(request, predict_without_gpu=True) as probe:
            answer = analyze_with(replace(about, request=request), probe, ignore, 0.0)
        assert answer.recommended is not None
        assert (answer.max_batch_size, answer.maximum.device_bytes) == (one.max_batch_size, one.device_bytes)


def test_the_least_change_of_the_recipe_comes_first():
    found = asked(Anywhere(gib_by(60, bf16=30, checkpointing=18, lora=6)), question("a10"))

    assert found[0].change == {"precision": "bf16", "fused": True, "gradient_checkpointing": "full"}
    assert found[1].change == {"gpu": "a100-80gb"}


def test_dropping_the_outputs_is_offered_as_a_change_of_the_question():
    machine = Anywhere(lambda request: (30 if request.recipe.keep_outputs else 10) * GIB)

    found = asked(machine, question("a10", mm.Recipe(keep_outputs=True)))

    assert found[0].change == {"keep_outputs": False}


def test_what_only_both_together_can_do_is_offered_on_the_smallest_gpu():
    found = asked(Anywhere(gib_by(500, lora=25)), question())

    assert len(found) == 1
    assert found[0].change["lora"] == 16
    assert (found[0].change["gpu"], found[0].change["precision"]) == ("a100-40gb", "bf16")
    assert found[0].label.endswith("on NVIDIA A100 40 GB")


def test_where_nothing_helps_nothing_is_offered_and_that_is_said():
    found = asked(Anywhere(gib_by(500)), question())

    assert found == []
    assert "no GPU of the catalog" in in_a_sentence(found)


def test_a_cap_is_dropped_where_that_is_enough():
    found = asked(Anywhere(gib_by(10)), question("a10", cap=4 * GIB))

    assert found[-1].change == {"memory_gib": None}
    assert found[-1].label == "no memory cap"


def test_a_gpu_that_keeps_no_margin_is_not_offered():
    t4, v100 = find_gpu("t4"), find_gpu("v100-16gb")
    between = (t4.usable_bytes + v100.usable_bytes) / 2
    snug = Anywhere(lambda _: int(0.99 * v100.usable_bytes), lambda _: MIB)
    assert between < 0.99 * v100.usable_bytes

    assert asked(snug, question())[0].change != {"gpu": "v100-16gb"}


def test_the_least_change_that_trains_at_all_is_offered_beside_the_one_that_keeps_the_margin():
    capacity = find_gpu("a10").usable_bytes

    def fixed(request):
        recipe = request.recipe
        saves = recipe.gradient_checkpointing == "full" or recipe.lora
        return (0.5 if saves else 0.96 if recipe.fused else 1.2) * capacity

    found = asked(Anywhere(fixed), question("a10", mm.Recipe(precision="bf16")))

    roomy, tight = found[:2]
    assert (roomy.change, roomy.missed_margin) == ({"fused": True, "gradient_checkpointing": "full"}, None)
    assert (tight.change, tight.missed_margin) == ({"fused": True}, 0.05)
    assert tight.phrase == "with fused optimizer (up to batch 8, with less than the margin of 5 % free)"
    assert roomy.conditions == ""


def test_what_trains_only_without_the_margin_is_offered_where_no_change_keeps_it():
    capacity = find_gpu("a10").usable_bytes
    machine = Anywhere(lambda request: (0.97 if request.recipe.lora else 1.2) * capacity)

    found = asked(machine, question("a10"))

    here = [one for one in found if "gpu" not in one.change]
    assert [one.missed_margin for one in here] == [0.05]
    assert set(here[0].change) == {"lora"}
    assert all(one.missed_margin is None for one in found if one not in here)


def test_with_no_margin_asked_for_nothing_is_too_tight():
    capacity = find_gpu("a10").usable_bytes
    machine = Anywhere(lambda request: (0.96 if request.recipe.fused or request.recipe.lora else 1.2) * capacity)

    found = asked(machine, question("a10", margin=0))

    assert (found[0].change, found[0].missed_margin) == ({"fused": True}, None)


@pytest.mark.parametrize("sizes", [(60, 30, 18, 6), (500, 500, 500, 30), (500, None, None, None), (20, 19, 18, 17)])
@pytest.mark.parametrize("gpu", ["t4", "a10", "h100"])
def test_the_traces_are_few_whatever_the_training(sizes, gpu):
    machine = Anywhere(gib_by(*sizes))
    about = question(gpu)
    if sizes[0] * GIB < find_gpu(gpu).usable_bytes:
        return

    asked(machine, about)

    assert len(machine.traces) <= MOST_TRACES + 1


def test_what_is_checked_is_told_as_it_happens():
    heard = []
    asked(Anywhere(gib_by(60)), question(), heard.append)

    assert {type(event) for event in heard} == {StageStarted}
    assert {event.stage for event in heard} == {"suggest"}
    assert "checking NVIDIA A100 80 GB" in [event.message for event in heard]


def test_who_stops_the_work_stops_the_suggestions():
    def stop(_):
        raise StoppedError("cancelled")

    with pytest.raises(StoppedError):
        asked(Anywhere(gib_by(60)), question(), stop)


def test_a_worker_that_is_lost_on_the_way_is_no_sign_that_nothing_helps():
    class Mortal(Anywhere):
        is_used = False

        def open(self, request, **options):
            if self.is_used:
                raise WorkerLostError("the worker was killed.")
            self.is_used = True
            return super().open(request, **options)

    assert asked(Mortal(gib_by(60)), question()) is None


def test_a_change_that_the_model_refuses_is_passed_over():
    class NoAdapters(Anywhere):
        def open(self, request, **options):
            if request.recipe.lora:
                raise mm.UsageError("there is nothing to adapt.")
            return super().open(request, **options)

    found = asked(NoAdapters(gib_by(60, bf16=30, checkpointing=18, lora=6)), question("a10"))

    assert found[0].change["gradient_checkpointing"] == "full"
    assert "lora" not in found[0].change


def test_activations_are_offloaded_where_nothing_else_saves_enough():
    offloads = Anywhere(lambda request: (10 if request.recipe.offload == "activations" else 30) * GIB)

    here, elsewhere = asked(offloads, question("a10"))

    assert here.change["offload"] == "activations"
    assert here.host_bytes == 5 * GIB
    assert here.phrase.endswith(", with 5.00 GiB of the host's memory)")
    assert elsewhere.change == {"gpu": "a100-40gb"}


def test_a_loss_in_chunks_is_offered_where_large_logits_are_what_does_not_fit():
    class Talkative(Anywhere):
        def open(self, request, **options):
            probe = super().open(request, **options)
            probe.info = replace(probe.info, language_model=True, vocabulary=10**6)
            return probe

    machine = Talkative(lambda request: (10 if request.recipe.loss == "chunked" else 30) * GIB)

    found, compiled = (asked(machine, question("a10", mm.Recipe(compile=on))) for on in (False, True))

    assert found[0].change == {"fused": True, "loss": "chunked"}
    assert all("loss" not in one.change for one in compiled)
