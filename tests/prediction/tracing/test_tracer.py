from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from memorymark.errors import CannotPredictError
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.prediction.tracing.in_place import add_in_place
from memorymark.prediction.tracing.operation import GRADIENTS_MEET
from memorymark.question.recipe import Recipe
from support.operations import tracing, tracing_for
from support.tiny import CLASSES, WIDTH, TinyNet, tiny, tiny_batch

HOPPER = (9, 0)
FP32_BYTES = 4


def names(trace):
    return [op.name for op in trace.operations]


def test_a_storage_is_freed_at_the_operation_after_its_death_under_the_number_it_was_made_with():
    with tracing() as tracer:
        x = torch.rand(4, 8)
        trace = tracer.start()
        doubled = x * 2
        number = tracer.number_of(doubled)
        kept = x * 3
        del doubled
        last = x * 4
        assert tracer.number_of(kept) != tracer.number_of(last) != number
    first, second, third = trace.operations
    assert first.made == ((number, 4 * 8 * FP32_BYTES),)
    assert (first.freed, second.freed, third.freed) == ((), (), (number,))


def test_what_a_function_leaves_behind_is_freed_and_what_it_returns_is_not():
    with tracing() as tracer:
        x = torch.rand(4, 8)
        trace = tracer.start()
        kept = torch.exp(torch.sin(torch.cos(x)))
        tracer.mark("forward")
        number = tracer.number_of(kept)
    cos, sin, exp, end = trace.operations
    assert exp.freed == (cos.made[0][0],)
    assert end.freed == (sin.made[0][0],)
    assert exp.made[0][0] == number


def test_a_number_is_not_used_twice():
    with tracing() as tracer:
        x = torch.rand(4, 8)
        trace = tracer.start()
        for _ in range(20):
            x * 2
    numbers = [number for op in trace.operations for number, _ in op.made]
    assert len(numbers) == len(set(numbers)) == 20


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view(2, 16),
        lambda x: x.t(),
        lambda x: x[1:],
        lambda x: x.unsqueeze(0).expand(3, 4, 8),
        lambda x: x.detach(),
        lambda x: x.split(2)[1],
        lambda x: x.permute(1, 0),
    ],
)
def test_views_make_no_storage_and_keep_the_number_of_the_one_they_look_at(view):
    with tracing() as tracer:
        x = torch.rand(4, 8)
        trace = tracer.start()
        looked_at = view(x)
        assert tracer.number_of(looked_at) == tracer.number_of(x)
    assert trace.operations
    assert all(op.made == () for op in trace.operations)


def test_a_view_keeps_its_storage_alive():
    with tracing() as tracer:
        x = torch.rand(4, 8)
        trace = tracer.start()
        doubled = x * 2
        view = doubled[1:]
        del doubled
        x * 3
        del view
        x * 4
    number = trace.operations[0].made[0][0]
    assert [number in op.freed for op in trace.operations] == [False, False, False, True]


def test_changes_in_place_make_no_storage():
    with tracing() as tracer:
        x = torch.rand(4, 8)
        trace = tracer.start()
        x.mul_(2).add_(1)
    assert names(trace) == ["aten.mul_.Tensor", "aten.add_.Tensor"]
    assert all(op.made == () for op in trace.operations)


def test_numbers_without_dimensions_are_left_out():
    with tracing() as tracer:
        x = torch.rand(4, 8)
        trace = tracer.start()
        total = x.sum()
        more = total * 2 + 1
        assert more.dim() == 0
        x * more
    assert names(trace) == ["aten.sum.default", "aten.mul.Tensor"]
    summed, multiplied = trace.operations
    assert summed.made == ()
    assert [size for _, size in multiplied.made] == [4 * 8 * FP32_BYTES]


class Branching(TinyNet):
    """Does more where the mask has a hole, as Hugging Face models do."""

    def forward(self, x, labels, mask):
        if not mask.all():
            x = torch.tanh(x)
        return super().forward(x, labels)


@pytest.mark.parametrize(("fill", "padded"), [(1, False), (0, True)])
def test_a_model_that_branches_on_its_mask_takes_the_branch_of_its_values(fill, padded):
    def batch(size, device):
        mask = torch.full((size, WIDTH), fill, dtype=torch.long, device=device)
        return {**tiny_batch(size, device), "mask": mask}

    step = trace_training(tiny(Branching, batch), Recipe(), HOPPER)

    assert ("aten.tanh.default" in [growth.operation.name for growth in step.later.operations]) == padded


def test_values_follow_integers_through_arithmetic():
    with tracing():
        lengths = torch.ones(4, 8, dtype=torch.long).sum(dim=1)
        assert lengths.max().item() == 8
        assert (lengths == 8).all()
        assert not (torch.arange(8) > 6)[0]


def test_the_words_of_long_texts_are_known_and_what_looks_at_all_pairs_of_them_is_not():
    with tracing():
        assert torch.ones(5, 131_072, dtype=torch.long).all()
        places = torch.arange(16_384)
        seen = places[:, None] >= places
        with pytest.raises(CannotPredictError):
            seen.all().item()


def test_a_value_is_forgotten_when_something_unknown_is_written_over_it():
    layer = nn.Linear(8, 4)
    with tracing(layer):
        counts = torch.zeros(4)
        assert counts[0].item() == 0.0
        counts.copy_(layer.bias)
        with pytest.raises(CannotPredictError):
            counts[0].item()


def test_a_value_is_forgotten_when_something_unknown_is_written_over_a_part_of_it():
    layer = nn.Linear(8, 4)
    with tracing(layer):
        counts = torch.zeros(8)
        counts[:4].copy_(layer.bias)
        with pytest.raises(CannotPredictError):
            counts[0].item()


class AskingForAWeight(TinyNet):
    def forward(self, x, labels):
        return super().forward(x * self.inner.weight.abs().max().item(), labels)


class BranchingOnAWeight(TinyNet):
    def forward(self, x, labels):
        return super().forward(x if self.inner.bias.sum() > 0 else -x, labels)


class PickingByAWeight(TinyNet):
    def forward(self, x, labels):
        logits = self.outer(torch.relu(self.inner(x)))
        picked = logits[logits > 0]
        return SimpleNamespace(logits=logits, loss=picked.sum())


@pytest.mark.parametrize("model", [AskingForAWeight, BranchingOnAWeight, PickingByAWeight])
def test_a_model_that_needs_the_value_of_a_weight_cannot_be_predicted(model):
    with pytest.raises(CannotPredictError):
        trace_training(tiny(model), Recipe(), HOPPER)


def test_a_value_that_is_not_known_may_be_asked_for_by_the_optimizer_and_between_steps():
    layer = nn.Linear(8, 8)
    with tracing(layer) as tracer, tracer.seeing_forwards():
        tracer.start()
        with pytest.raises(CannotPredictError):
            layer.weight.norm().item()
        tracer.mark("forward")
        with pytest.raises(CannotPredictError):
            layer.weight.norm().item()
        tracer.mark("backward")
        assert isinstance(layer.weight.norm().item(), float)
        tracer.mark("optimizer")
        assert isinstance(layer.weight.norm().item(), float)
        layer.register_forward_pre_hook(lambda layer, _: layer.weight.norm().item())
        with pytest.raises(CannotPredictError):
            layer(layer.weight)


def test_adafactor_which_asks_for_the_norms_of_its_weights_is_traced():
    step = trace_training(tiny(), Recipe(optimizer="adafactor"), HOPPER)
    assert step.optimizer_state


def test_indexing_with_a_known_mask_gives_as_many_rows_as_the_mask_has_ones():
    layer = nn.Linear(8, 6)
    with tracing(layer) as tracer:
        mask = torch.tensor([True, False, True, True, False, False])
        trace = tracer.start()
        picked = layer.weight[mask]
        assert picked.shape == (3, 8)
    assert trace.operations[-1].made[0][1] == 3 * 8 * FP32_BYTES


def test_indexing_with_a_known_mask_of_two_dimensions_gives_a_flat_result():
    layer = nn.Linear(3, 2)
    with tracing(layer):
        mask = torch.tensor([[True, False, True], [True, True, False]])
        assert layer.weight[mask].shape == (4,)


class PickingByAMask(nn.Module):
    """A loss over the tokens that have a label, as in masked language models."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, labels):
        labelled = labels != -100
        logits = self.layer(x)[labelled]
        return SimpleNamespace(logits=logits, loss=cross_entropy(logits, labels[labelled]))


def test_the_gradient_of_what_a_known_mask_picked_has_the_size_of_what_it_was_picked_from():
    step = trace_training(tiny(PickingByAMask), Recipe(), HOPPER)
    shapes = {growth.operation.name: [t.shape for t in growth.at(7).outputs] for growth in step.later.operations}
    assert shapes["aten.index_put.default"] == [(7, CLASSES)]


class PickingByChance(TinyNet):
    def forward(self, x, labels):
        picked = torch.rand(len(x), device=x.device) > 0.5
        return super().forward(x[picked], labels[picked])


def test_a_result_whose_size_is_left_to_chance_cannot_be_predicted():
    with pytest.raises(CannotPredictError):
        trace_training(tiny(PickingByChance), Recipe(), HOPPER)


class SkippingByChance(TinyNet):
    """Leaves a layer out now and then, as speech models do in training."""

    def forward(self, x, labels):
        if not torch.rand([]) < 0.99:
            x = torch.tanh(x)
        return super().forward(x, labels)


def test_a_layer_that_chance_may_skip_is_not_skipped():
    step = trace_training(tiny(SkippingByChance), Recipe(), HOPPER)
    assert "aten.tanh.default" in [growth.operation.name for growth in step.later.operations]


def test_dropout_asks_for_its_mask_before_its_result():
    with tracing_for(HOPPER) as tracer:
        x = torch.rand(4, 8)
        trace = tracer.start()
        nn.functional.dropout(x, 0.1)
    (op,) = trace.operations
    assert op.name == "aten.native_dropout.default"
    assert [size for _, size in op.made] == [4 * 8, 4 * 8 * FP32_BYTES]


MEETINGS = {
    "two layers": lambda h, a, b: (a(h) + b(h)).pow(2).sum(),
    "residual": lambda h, a, b: (h + a(h)).pow(2).sum(),
    "two residuals": lambda h, a, b: ((r := h + a(h)) + b(r)).pow(2).sum(),
    "three branches": lambda h, a, b: (h + a(h) + b(h)).pow(2).sum(),
    "gate": lambda h, a, b: (h * a(h)).sum(),
    "square": lambda h, a, b: (h * h).sum(),
    "halves": lambda h, a, b: (h[:, :8] * h[:, 8:]).sum() + a(h).pow(2).sum(),
    "views": lambda h, a, b: (a(h.view(2, 4, 16)).view(8, 16) * b(h)).sum(),
    "own transpose": lambda h, a, b: (h.t() @ h).pow(2).sum(),
    "broadcast": lambda h, a, b: (h[None].expand(3, 8, 16) * 2).pow(2).sum() + a(h).pow(2).sum(),
    "mean beside a layer": lambda h, a, b: h.mean() + a(h).pow(2).mean(),
    "weight used twice": lambda h, a, b: a(torch.relu(a(h))).pow(2).sum(),
    "view first": lambda h, a, b: (b(h) * a(h.view(2, 4, 16)).view(8, 16)).sum(),
    "residual added last": lambda h, a, b: (b(h) + (h + a(h))).pow(2).sum(),
    "twice itself": lambda h, a, b: (h + h).pow(2).sum(),
    "sum beside a layer": lambda h, a, b: a(h).pow(2).sum() + h.sum(),
    "sum of a residual": lambda h, a, b: (h + a(h)).sum(),
}


def parts():
    return torch.rand(8, 16, requires_grad=True), nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)


@pytest.mark.parametrize(
    "meeting",
    MEETINGS,
)
def test_gradients_that_meet_take_new_memory_where_those_of_real_tensors_do(meeting):
    loss = MEETINGS[meeting]
    x, *layers = parts()
    real_loss = loss(x * 3, *layers)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        real_loss.backward()
    called = [event.name for event in profiler.events()]
    with tracing() as tracer:
        x, *layers = parts()
        trace = tracer.start()
        fake_loss = loss(x * 3, *layers)
        tracer.mark("forward")
        fake_loss.backward()
        tracer.mark("backward")
    sums = [op for op in add_in_place(trace).operations if op.name == GRADIENTS_MEET]
    assert len(sums) == called.count("aten::add") + called.count("aten::add_") > 0
    assert sum(bool(op.made) for op in sums) == called.count("aten::add")


FIRST = torch.zeros(6, 3, dtype=torch.long)
FILLED = {
    "scatter_add": lambda x: x.gather(1, FIRST),
    "index_put": lambda x: x[torch.tensor([0, 2])],
    "index_add": lambda x: x.index_select(0, torch.tensor([0, 2])),
    "scatter": lambda x: x.max(1).values,
}


@pytest.mark.parametrize("name", FILLED)
def test_autograd_writes_into_the_zeros_that_it_makes_as_with_real_tensors(name):
    real = FILLED[name](torch.rand(6, 8, requires_grad=True) * 3).sum()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        real.backward()
    called = {event.name.removeprefix("aten::") for event in profiler.events()}
    assert called & {f"{name}_", f"_{name}_impl_"}
    with tracing() as tracer:
        x = torch.rand(6, 8, requires_grad=True)
        trace = tracer.start()
        fake = FILLED[name](x * 3).sum()
        tracer.mark("forward")
        fake.backward()
        tracer.mark("backward")
    operations = add_in_place(trace).operations
    (filled,) = [op for op in operations if op.base_name == name]
    assert filled.made == ()
    made = [number for op in operations for number, _ in op.made]
    freed = [number for op in operations for number in op.freed if number in made]
    assert len(freed) == len(set(freed))
    (zeros,) = [op for op in operations if op.base_name in ("zeros", "new_zeros")]
    assert zeros.made[0][0] in freed


def test_zeros_of_the_forward_pass_stay_as_they_are_when_a_copy_is_filled():
    with tracing() as tracer:
        x = torch.rand(6, 3, requires_grad=True)
        trace = tracer.start()
        assert torch.zeros(6, 8).scatter_add(1, FIRST, x).shape == (6, 8)
        tracer.mark("forward")
        tracer.mark("backward")
    (filled,) = [op for op in add_in_place(trace).operations if op.base_name == "scatter_add"]
    assert [size for _, size in filled.made] == [6 * 8 * FP32_BYTES]


def test_what_takes_a_sum_in_place_is_freed_once_when_the_sum_dies():
    with tracing() as tracer:
        x, *layers = parts()
        trace = tracer.start()
        loss = MEETINGS["two layers"](x * 3, *layers)
        tracer.mark("forward")
        loss.backward()
        del loss
        tracer.mark("backward")
        x.grad = None
        for layer in layers:
            layer.zero_grad()
        tracer.mark("optimizer")
    in_place = add_in_place(trace)
    assert sum(len(op.made) for op in in_place.operations) == sum(len(op.made) for op in trace.operations) - 1
    for operations in (trace.operations, in_place.operations):
        made = [number for op in operations for number, _ in op.made]
        freed = [number for op in operations for number in op.freed if number in made]
        assert sorted(made) == sorted(freed)


def test_a_sum_in_the_forward_pass_takes_new_memory_though_its_addends_die():
    with tracing() as tracer:
        x = torch.rand(4, 8, requires_grad=True)
        trace = tracer.start()
        total = x.sin() + x.cos()
        tracer.mark("forward")
        assert total.shape == (4, 8)
    add = add_in_place(trace).operations[2]
    assert add.name == "aten.add.Tensor"
    assert [size for _, size in add.made] == [4 * 8 * FP32_BYTES]


def added_biases(run):
    """What a forward pass of a linear layer or the like asks for, and whether it adds the bias in place."""
    with tracing() as tracer:
        layer = nn.Linear(16, 16)
        strided = torch.rand(3, 8, 16).transpose(0, 1)
        trace = tracer.start()
        result = run(strided, layer).sin()
        tracer.mark("forward")
        assert result.shape[:2] == strided.shape[:2]
    return [not op.made for op in add_in_place(trace).operations if op.name == "aten.add.Tensor"]


def test_linear_layers_add_a_bias_in_place_where_it_cannot_be_a_part_of_the_product():
    assert added_biases(lambda x, layer: layer(x)) == [True]
    assert added_biases(lambda x, layer: layer(x.contiguous())) == []
    assert added_biases(lambda x, layer: x @ layer.weight + layer.bias) == [False]
    assert added_biases(lambda x, layer: (x @ layer.weight.t()) + x) == [False]


def test_operations_of_the_forward_pass_are_told_from_those_of_autograd():
    with tracing() as tracer:
        x, layer, _ = parts()
        trace = tracer.start()
        loss = layer(x).sum()
        tracer.mark("forward")
        end = len(trace.operations)
        loss.backward()
    assert all(op.eager for op in trace.operations[:end])
    assert not any(op.eager for op in trace.operations[end:] if op.name.startswith("aten"))


@pytest.mark.parametrize(("dropout", "floats"), [(0.0, []), (0.1, [0.1])])
def test_of_attentions_numbers_only_the_share_that_is_dropped_is_kept(dropout, floats):
    with tracing_for(HOPPER) as tracer:
        heads = torch.randn(2, 4, 16, 64, dtype=torch.bfloat16, requires_grad=True)
        trace = tracer.start()
        nn.functional.scaled_dot_product_attention(heads, heads, heads, dropout_p=dropout, scale=0.3)
    (attention,) = [op for op in trace.operations if "attention" in op.name]
    assert [argument for argument in attention.arguments if isinstance(argument, float) and argument] == floats
