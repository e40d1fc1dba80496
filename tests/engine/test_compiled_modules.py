"""A module that was given to torch.compile is run compiled, or not at all; never eagerly in silence."""

import pytest
import torch
from torch import nn

import memorymark as mm
from memorymark.question.recipe import Recipe
from memorymark.training.step import TrainingStep
from support.tiny import TinyNet, tiny_batch


def whole():
    return torch.compile(TinyNet(), backend="eager")


def in_place():
    module = TinyNet()
    module.compile(backend="eager")
    return module


def in_part():
    module = TinyNet()
    module.inner = torch.compile(module.inner, backend="eager")
    return module


compiled = pytest.mark.parametrize("make", [whole, in_place, in_part])


@compiled
def test_a_compiled_module_is_not_measured_where_it_would_run_eagerly(make):
    with pytest.raises(
        mm.UsageError, match=r"torch.compile cannot be measured on the .* as it was before torch.compile"
    ):
        mm.max_batch_size(make(), tiny_batch, device="cpu")


@compiled
def test_a_compiled_module_is_not_predicted(make):
    with pytest.raises(mm.CannotPredictError, match="a compiled step cannot be predicted; pass the module as it was"):
        mm.max_batch_size(make(), tiny_batch, gpu="a10")


@compiled
def test_nor_is_a_workload_that_builds_one(make):
    made = mm.Workload(build=make, batch=tiny_batch)

    with pytest.raises(mm.CannotPredictError, match="a compiled step cannot be predicted; pass the model as it was"):
        mm.predict(made, 4, gpu="a10")
    with pytest.raises(mm.UsageError, match=r"torch.compile cannot be measured"):
        mm.measure(made, 4, device="cpu")


def test_a_refused_module_is_as_it_was():
    module = whole()
    module.eval()

    with pytest.raises(mm.UsageError):
        mm.max_batch_size(module, tiny_batch, device="cpu")

    assert not module.training


@pytest.mark.parametrize("recipe", [Recipe(), Recipe(compile=True)], ids=["as it is", "with compile"])
def test_the_step_calls_the_module_as_it_was_compiled(recipe):
    calls = []

    def backend(graph, _examples):
        def run(*inputs):
            calls.append(graph)
            return graph(*inputs)

        return run

    module = torch.compile(nn.Linear(4, 1), backend=backend)
    made = mm.Workload(
        build=lambda: module,
        batch=lambda size, device: {"input": torch.rand(size, 4, device=device)},
        loss=lambda model, batch: model(**batch).mean(),
    )
    step = TrainingStep(made, recipe, torch.device("cpu"))
    step(2)
    step(2)

    assert len(calls) == 2
