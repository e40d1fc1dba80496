"""When advice compiles, what, and at which sizes."""

import pytest

import memorymark as mm
from memorymark.advice import compiling
from memorymark.errors import WorkerError
from memorymark.events import TrialFinished
from memorymark.question.recipe import Recipe
from memorymark.units import GIB, MIB
from support.simulated_gpu import Machine, Probe, ask, by_precision, roomy


def test_compile_is_run_on_top_of_the_best_and_has_no_prediction():
    def true_speed(request, batch_size):
        return by_precision(request, batch_size) * (2.0 if request.recipe.compile else 1.0)

    found = ask(roomy(true_speed=true_speed), try_compile=True)

    assert found.best.changes == ("bf16", "fused", "compile")
    assert found.best.recipe.compile
    assert found.best.predicted is None
    assert "torch.compile(model)" in found.code(found.best).pytorch


@pytest.mark.parametrize(
    ("speeds", "today", "tried", "chosen"),
    [
        ({64: 1.0, 128: 0.9, 256: 0.8}, 16, [128, 64], 64),
        ({64: 0.9, 128: 1.0, 256: 0.95}, 16, [128, 64, 256], 128),
        ({64: 0.7, 128: 0.9, 256: 1.0}, 16, [128, 64, 256], 256),
        ({64: 0.995, 128: 1.0, 256: 0.9}, 16, [128, 64, 256], 64),
        ({64: 1.0, 128: 0.9, 256: 0.8}, 100, [128, 256], 128),
        ({64: 1.0, 128: 0.9, 256: 0.8}, 200, [256], 256),
    ],
    ids=["smaller", "in the middle", "larger", "as fast", "as large as today's", "not below today's"],
)
def test_compiled_code_is_run_at_the_sizes_that_may_suit_it(speeds, today, tried, chosen):
    def speed(request, size):
        return {"fp32": 1000.0, "bf16": 8000.0}[request.recipe.precision] * min(size, 256) / 256

    def true_speed(request, size):
        return 20000.0 * speeds[size] if request.recipe.compile else speed(request, size)

    heard = []
    machine = roomy(speed, true_speed=true_speed)
    found = ask(machine, try_compile=True, batch_size=today, heard=heard)

    trials = [event.trial for event in heard if isinstance(event, TrialFinished)]
    assert [trial.batch_size for trial in trials if trial.samples_per_second > 8000] == tried
    assert "compile" in found.best.changes
    assert (found.best.batch_size, found.best.measured.batch_size) == (chosen, chosen)


def test_a_slow_compiler_is_asked_once(monkeypatch):
    monkeypatch.setattr(compiling, "COMPILING_SECONDS", 0.0)
    machine = roomy()
    ask(machine, try_compile=True)

    assert sum(request.recipe.compile for request in machine.opened) == 1


def test_of_recipes_as_fast_the_one_with_more_changes_that_cost_nothing_is_compiled():
    def true_speed(request, batch_size):
        return by_precision(request, batch_size) * (0.9 if request.recipe.fused else 1.0)  # so both are as fast

    found = ask(roomy(true_speed=true_speed), try_compile=True)
    assert [one.changes for one in found.options if one.recipe.compile] == [("bf16", "fused", "compile")]


def test_a_compiler_that_fails_costs_no_advice():
    class Broken(Machine):
        def open(self, request, **options):
            if request.recipe.compile:
                raise WorkerError("the compiler crashed.")
            return super().open(request, **options)

    found = ask(Broken(lambda _: GIB, lambda _: 100 * MIB, by_precision), try_compile=True)

    assert found.best.changes == ("bf16", "fused")
    assert (("bf16", "fused", "compile"), "the compiler crashed.") in [(one.changes, one.why) for one in found.refused]


def test_a_compiler_that_fails_in_this_process_costs_no_advice_either():
    class Crashing(Probe):
        def measure(self, batch_size):
            if self._request.recipe.compile:
                raise RuntimeError("backend='inductor' raised:\nand more")
            return super().measure(batch_size)

    class Broken(Machine):
        def open(self, request, **options):
            return Crashing(self, request, super().open(request, **options).info.source)

    found = ask(Broken(lambda _: GIB, lambda _: 100 * MIB, by_precision), try_compile=True)

    assert found.best.changes == ("bf16", "fused")
    assert "backend='inductor' raised:" in [one.why for one in found.refused]


def test_a_compiled_training_cannot_be_predicted():
    with pytest.raises(mm.CannotPredictError):
        ask(roomy(), recipe=Recipe(compile=True), gpu="h200")


def test_a_compiled_training_is_run_compiled_where_the_gpu_is_here():
    found = ask(roomy(), recipe=Recipe(compile=True))

    assert found.best.recipe.compile
    assert found.best.measured is not None
    assert sum(one.measured is not None for one in found.options) == 1
