from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from memorymark.errors import CannotPredictError
from memorymark.prediction.tracing import fake_step
from memorymark.prediction.tracing.fake_step import TRACED_BATCH, trace_training
from memorymark.prediction.tracing.operation import StepTrace
from memorymark.prediction.tracing.program import Growth, merge
from memorymark.question.recipe import Recipe
from support.operations import operation, program, tensor
from support.tiny import CLASSES, HIDDEN, PARAMETERS, WIDTH, TinyNet, tiny

HOPPER = (9, 0)
BATCH_SIZES = (2, 9, 1000)


class Images(nn.Module):
    """A little of what vision models are made of."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(8 * 4 * 4, CLASSES),
        )

    def forward(self, x, labels):
        logits = self.body(x)
        return SimpleNamespace(logits=logits, loss=cross_entropy(logits, labels))


class Tokens(nn.Module):
    """A little of what language models are made of."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, WIDTH)
        self.layer = nn.TransformerEncoderLayer(WIDTH, 2, HIDDEN, dropout=0.1, batch_first=True)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, labels):
        logits = self.head(self.layer(self.embedding(x)).mean(1))
        return SimpleNamespace(logits=logits, loss=cross_entropy(logits, labels))


class Contrastive(nn.Module):
    """Every sample against every other, as in CLIP."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(WIDTH, 8), nn.Linear(WIDTH, 8)

    def forward(self, x, labels):
        logits = self.one(x) @ self.other(x).t()
        return SimpleNamespace(logits=logits, loss=cross_entropy(logits, torch.arange(len(x), device=x.device)))


class Compared(nn.Module):
    """Samples compared in ways that take more than a matrix of them."""

    def __init__(self, compare):
        super().__init__()
        self.inner, self.compare = nn.Linear(WIDTH, 8), compare

    def forward(self, x, labels):
        return SimpleNamespace(loss=self.compare(self.inner(x)).square().mean())


def triplets(x):
    distances = x @ x.t()
    return torch.relu(distances[:, :, None] - distances[:, None, :] + 1.0)


def flattened_pairs(x):
    return torch.relu((x[:, None] - x[None]).flatten(0, 1))


def different_pairs(x):
    return torch.pdist(x).exp()


def pairs_of_pairs(x):
    distances = (x @ x.t()).flatten()
    return torch.relu(distances[:, None] - distances[None])


def labelled(make):
    def batch(size, device):
        return {"x": make(size, device), "labels": torch.randint(0, CLASSES, (size,), device=device)}

    return batch


def images(size, device):
    return torch.rand(size, 3, 16, 16, device=device)


def tokens(size, device):
    return torch.randint(0, 50, (size, 12), device=device)


def seen(operations):
    return [
        (op.name, [(t.shape, t.dtype, t.contiguous) for t in (*op.inputs, *op.outputs)], op.made, op.freed)
        for op in operations
    ]


@pytest.mark.parametrize("batch_size", BATCH_SIZES)
@pytest.mark.parametrize(
    ("workload", "recipe"),
    [
        (tiny(), Recipe()),
        (tiny(), Recipe(precision="bf16", accumulation_steps=2)),
        (tiny(Images, labelled(images)), Recipe(optimizer="sgd")),
        (tiny(Tokens, labelled(tokens)), Recipe(precision="bf16")),
        (tiny(Contrastive), Recipe()),
        (tiny(lambda: Compared(triplets)), Recipe()),
        (tiny(lambda: Compared(flattened_pairs)), Recipe(precision="bf16")),
        (tiny(lambda: Compared(pairs_of_pairs)), Recipe()),
    ],
    ids=[
        "tiny",
        "tiny bf16",
        "images",
        "tokens",
        "contrastive",
        "triplets",
        "flattened pairs",
        "pairs of pairs",
    ],
)
def test_two_traces_give_the_step_at_any_batch_size_as_a_trace_of_it_would(workload, recipe, batch_size, monkeypatch):
    assert_grows_as_traced(workload, recipe, batch_size, monkeypatch)


@pytest.mark.parametrize("batch_size", BATCH_SIZES[1:])  # of two samples there is one pair, which is a special case
def test_pairs_of_different_samples_grow_as_traced(batch_size, monkeypatch):
    assert_grows_as_traced(tiny(lambda: Compared(different_pairs)), Recipe(), batch_size, monkeypatch)


def assert_grows_as_traced(workload, recipe, batch_size, monkeypatch):
    grown = trace_training(workload, recipe, HOPPER)
    monkeypatch.setattr(fake_step, "TRACED_BATCH", batch_size)
    traced = trace_training(workload, recipe, HOPPER)
    for ours, theirs in ((grown.first, traced.first), (grown.later, traced.later)):
        assert ours.marks == theirs.marks
        at_size = [growth.at(batch_size) for growth in ours.operations]
        assert seen(at_size) == seen([growth.operation for growth in theirs.operations])


def test_a_growing_operation_says_the_same_as_its_storages():
    step = trace_training(tiny(), Recipe(), HOPPER)
    for growth in step.later.operations:
        assert growth.at(77).made == growth.made_at(77)


def test_what_grows_grows_by_the_same_for_every_sample():
    smaller = operation("aten.relu.default", [tensor(4, 7)], [tensor(4, 7)], made=[(3, 4 * 7 * 4)])
    larger = operation("aten.relu.default", [tensor(5, 7)], [tensor(5, 7)], made=[(3, 5 * 7 * 4)])
    grown = Growth(smaller, larger, 4).at(100)
    assert [t.shape for t in (*grown.inputs, *grown.outputs)] == [(100, 7), (100, 7)]
    assert grown.made == ((3, 100 * 7 * 4),)


def test_what_follows_the_backward_pass_does_not_grow():
    step = trace_training(tiny(), Recipe(), HOPPER)
    for traced in (step.first, step.later):
        end = dict(traced.marks)["backward"]
        updates = traced.operations[end:]
        assert any("_foreach" in growth.operation.name for growth in updates)
        assert seen([growth.at(1000) for growth in updates]) == seen([growth.operation for growth in updates])
        shapes = {t.shape for growth in updates for t in growth.operation.inputs}
        assert shapes <= {(HIDDEN, WIDTH), (HIDDEN,), (CLASSES, HIDDEN), (CLASSES,), ()}


def test_the_first_step_makes_the_optimizers_state_and_later_ones_do_not():
    step = trace_training(tiny(), Recipe(), HOPPER)
    assert sum(step.optimizer_state.values()) == 2 * PARAMETERS * 4
    made_later = {number for growth in step.later.operations for number, _ in growth.operation.made}
    assert not made_later & set(step.optimizer_state)


def test_marks_name_the_phases_in_order_and_the_last_one_ends_the_step():
    step = trace_training(tiny(), Recipe(accumulation_steps=2), HOPPER)
    for traced in (step.first, step.later):
        assert [phase for phase, _ in traced.marks] == ["forward", "backward"] * 2 + ["optimizer"]
        ends = [end for _, end in traced.marks]
        assert ends == sorted(ends)
        assert ends[-1] == len(traced.operations)


class InPairs(TinyNet):
    def forward(self, x, labels):
        return super().forward(torch.cat(x.split(2)), labels)


class OtherShapes(TinyNet):
    def forward(self, x, labels):
        x = torch.sin(x.view(-1, 2, WIDTH) if len(x) % 2 == 0 else x.view(-1, WIDTH))
        return super().forward(x.view(-1, WIDTH), labels)


@pytest.mark.parametrize(
    "model",
    [InPairs, OtherShapes],
)
def test_a_model_that_does_different_things_at_different_batch_sizes_is_refused(model):
    with pytest.raises(CannotPredictError, match="different batch sizes"):
        trace_training(tiny(model), Recipe(), HOPPER)


def test_traces_with_other_operations_are_refused():
    ends = [("backward", 1), ("optimizer", 1)]
    relu = StepTrace([operation("aten.relu.default")], ends)
    gelu = StepTrace([operation("aten.gelu.default")], ends)
    merge([relu, relu], TRACED_BATCH)
    with pytest.raises(CannotPredictError):
        merge([relu, gelu], TRACED_BATCH)


def step_of(batches):
    """A step that adds up gradients: of the first batch, and of further ones that are alike."""
    first, further = [operation("f1")], [operation("f2")]
    back, back_again = [operation("b1"), operation("c1")], [operation("b2")]
    later = [("forward", further), ("backward", back_again)] * (batches - 1)
    return program(("forward", first), ("backward", back), *later, ("optimizer", [operation("o")]))


@pytest.mark.parametrize("batches", [2, 3, 5])
def test_a_second_batch_stands_for_all_that_follow(batches):
    step = step_of(2).accumulating(batches)

    assert [growth.operation.name for growth in step.operations] == [
        "f1",
        "b1",
        "c1",
        *["f2", "b2"] * (batches - 1),
        "o",
    ]
    assert step.marks == step_of(batches).marks
    counted = [(phase, growth.operation.name, times) for phase, growth, times in step_of(2).counted(batches)]
    assert counted == [
        ("forward", "f1", 1),
        ("backward", "b1", 1),
        ("backward", "c1", 1),
        ("forward", "f2", batches - 1),
        ("backward", "b2", batches - 1),
        ("optimizer", "o", 1),
    ]


def test_a_step_of_one_batch_stays_as_it_is():
    step = step_of(1)

    assert step.accumulating(1) is step
    assert [times for _, _, times in step.counted(1)] == [1, 1, 1, 1]


class Remembering(TinyNet):
    """Computes a table in its first step and keeps it."""

    table = None

    def forward(self, x, labels):
        if self.table is None:
            self.table = torch.arange(WIDTH).exp()
        return super().forward(x + self.table, labels)


def test_a_model_that_fills_a_cache_in_its_first_step_is_predicted_as_it_runs_afterwards():
    step = trace_training(tiny(build=Remembering), Recipe(), HOPPER)

    names = [growth.operation.base_name for growth in step.later.operations]
    assert "exp" not in names
    assert sum(step.optimizer_state.values()) >= 2 * 4 * PARAMETERS
