from types import SimpleNamespace

import torch
from torch import nn

from memorymark.question.recipe import Recipe
from memorymark.training.outputs import tensors_inside
from memorymark.training.step import TrainingStep
from memorymark.training.workload import Workload

CPU = torch.device("cpu")


def test_tensors_are_found_in_outputs_of_any_structure():
    loss, logits, keys = torch.zeros(()), torch.zeros(2), torch.zeros(3)
    cache = SimpleNamespace(layers=[SimpleNamespace(keys=keys, name="first")])
    found = list(tensors_inside({"loss": loss, "logits": (logits, None), "cache": cache}))
    assert [id(tensor) for tensor in found] == [id(loss), id(logits), id(keys)]


def test_an_output_that_contains_itself_is_searched_once_deep_enough():
    outputs = SimpleNamespace(logits=torch.zeros(2))
    outputs.itself = outputs
    assert all(tensor is outputs.logits for tensor in tensors_inside(outputs))


def seen_in_backward(keep: bool) -> list[int]:
    """Returns how many outputs of the model are alive at each backward pass of three steps."""
    alive: list[int] = []
    outputs = torch.utils.weak.WeakIdKeyDictionary()

    def loss(model, batch):
        output = model(batch["x"])
        outputs[output] = True
        result = output.sum()
        result.register_hook(lambda _: alive.append(len(outputs)))
        return result

    workload = Workload(lambda: nn.Linear(4, 4), lambda size, device: {"x": torch.ones(size, 4)}, loss)
    step = TrainingStep(workload, Recipe(keep_outputs=keep), CPU)
    for _ in range(3):
        step(2)
    if keep:
        step.drop_outputs()
        assert not len(outputs)
    return alive


def test_a_loop_that_keeps_outputs_keeps_those_of_the_last_pass_alone():
    assert seen_in_backward(keep=True) == [1, 1, 1]
    assert seen_in_backward(keep=False) == [0, 0, 0]
