import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from memorymark.catalog import find_gpu
from memorymark.errors import CannotPredictError
from memorymark.prediction.memory.allocator import CachingAllocator
from memorymark.prediction.memory.scratch import scratch_of
from memorymark.prediction.memory.simulate import Memory
from memorymark.prediction.timing.known import split_unknown
from memorymark.prediction.tracing.cuda_choices import cuda_choices
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.prediction.tracing.program import Growth, Program
from memorymark.prediction.tracing.recurrent import BACKWARD, FORWARD
from memorymark.question.recipe import Recipe
from support.operations import tracing_for
from support.recurrent_layers import HOPPER, RECORDED, build, traced
from support.tiny import tiny

H200 = find_gpu("h200")


class Recorder(CachingAllocator):
    """Writes down what is asked for, and as a negative number what is given back."""

    def __init__(self):
        super().__init__(None)
        self.history, self._asked = [], {}

    def allocate(self, size, stream=0):
        block = super().allocate(size, stream)
        self.history.append(size)
        self._asked[id(block)] = size
        return block

    def free(self, block):
        self.history.append(-self._asked.pop(id(block)))
        super().free(block)


def replayed(trace):
    """The requests and frees of each pass."""
    memory = Memory(None, 0)
    memory.allocator = Recorder()
    step = Program([Growth(op, op, 1) for op in trace.operations], trace.marks)
    ends = [
        len(memory.allocator.history) for _ in memory.run(step, 1, lambda growth, _: scratch_of(growth.operation, H200))
    ]
    return memory.allocator.history[: ends[0]], memory.allocator.history[ends[0] :]


def in_order(history):
    """Frees that follow one another come in any order: nothing is asked for between them."""
    ordered, frees = [], []
    for size in (*history, 0):
        if size < 0:
            frees.append(size)
        else:
            ordered += [*sorted(frees), size]
            frees = []
    return ordered[:-1]


@pytest.mark.parametrize("recorded", RECORDED["histories"], ids=lambda recorded: "-".join(map(str, recorded["layer"])))
def test_every_request_and_free_is_the_one_recorded_on_a_gpu(recorded):
    kind, batch, length, inputs, hidden, layers, bidirectional, precision, dropout, train, batch_first = recorded[
        "layer"
    ]
    layer = build(kind, inputs, hidden, layers, bidirectional, dropout, train, batch_first)
    trace = traced(layer, (batch, length, inputs), autocast=precision == "bf16", back=bool(train))
    forward, backward = replayed(trace)
    assert in_order(forward) == in_order(recorded["forward"])
    assert in_order(backward) == in_order(recorded["backward"])


def names(trace):
    return [op.name for op in trace.operations]


def test_the_backward_pass_makes_gradients_of_the_input_first_and_then_those_of_the_weights():
    ran = [name for name in names(traced(nn.GRU(8, 16), (5, 2, 8))) if "rnn" in name]
    assert ran == [FORWARD, BACKWARD, BACKWARD]


def test_weights_lie_in_one_piece_and_so_do_their_gradients():
    layer = nn.LSTM(8, 16, num_layers=2)
    elements = sum(weight.numel() for weight in layer.parameters())
    traced(layer, (5, 2, 8))
    for tensors in ([*layer.parameters()], [weight.grad for weight in layer.parameters()]):
        assert len({tensor.untyped_storage()._cdata for tensor in tensors}) == 1
        assert tensors[0].untyped_storage().nbytes() == 4 * elements


def test_without_biases_each_gradient_is_a_copy():
    layer = nn.LSTM(8, 16, bias=False)
    traced(layer, (5, 2, 8))
    assert layer.weight_ih_l0.untyped_storage().nbytes() == 4 * (4 * 16 * (8 + 16) + 2 * 4 * 16)
    assert [w.grad.untyped_storage().nbytes() for w in layer.parameters()] == [
        4 * w.numel() for w in layer.parameters()
    ]


def test_weights_that_are_shared_stay_where_they_are():
    first, second = nn.GRU(8, 8), nn.GRU(8, 8)
    second.weight_hh_l0 = first.weight_hh_l0
    both = nn.ModuleList([first, second])
    with tracing_for(HOPPER, both):
        output, _ = second(first(torch.empty(5, 2, 8))[0])
        output.sum().backward()
    assert second.weight_hh_l0 is first.weight_hh_l0
    assert first.weight_ih_l0.untyped_storage()._cdata == first.weight_hh_l0.untyped_storage()._cdata
    assert second.weight_ih_l0.untyped_storage()._cdata != second.bias_ih_l0.untyped_storage()._cdata
    assert second.weight_ih_l0.grad.shape == (24, 8)


@pytest.mark.parametrize("autocast", [torch.bfloat16, torch.float16])
def test_autocast_runs_recurrent_layers_in_fp16_whatever_it_is_for(autocast):
    layer = nn.LSTM(8, 16)
    with tracing_for(HOPPER, layer), torch.autocast("cpu", autocast):
        output, (hidden, cell) = layer(torch.empty(5, 2, 8))
        output.sum().backward()
    assert {tensor.dtype for tensor in (output, hidden, cell)} == {torch.float16}
    assert {weight.grad.dtype for weight in layer.parameters()} == {torch.float32}


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_shapes_are_those_of_a_real_layer(kind, batch_first):
    layer = kind(8, 16, num_layers=3, batch_first=batch_first, bidirectional=True)
    real = layer(torch.rand(5, 2, 8))
    with tracing_for(HOPPER, layer):
        fake = layer(torch.empty(5, 2, 8))
    for there, here in zip(torch.utils._pytree.tree_leaves(fake), torch.utils._pytree.tree_leaves(real), strict=True):
        assert there.shape == here.shape
    assert fake[0].transpose(0, 1).is_contiguous() is batch_first


def test_gradients_reach_the_states_that_were_given():
    layer = nn.LSTM(8, 16)
    with tracing_for(HOPPER, layer):
        hidden, cell = (torch.empty(1, 2, 16, requires_grad=True) for _ in range(2))
        _, (last, _) = layer(torch.empty(5, 2, 8), (hidden, cell))
        last.sum().backward()
    assert hidden.grad.shape == cell.grad.shape == (1, 2, 16)


class Tagger(nn.Module):
    """A recurrent layer over vectors, and what it saw last."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


def step(model, **recipe):
    def batch(size, device):
        return {"x": torch.rand(size, 5, 8, device=device), "labels": torch.randint(0, 4, (size,), device=device)}

    def loss(model, batch):
        return nn.functional.cross_entropy(model(batch["x"]), batch["labels"])

    return trace_training(tiny(lambda: model, batch, loss), Recipe(**recipe), HOPPER)


@pytest.mark.parametrize(
    "recipe",
    [{}, {"precision": "bf16"}, {"precision": "fp16"}, {"optimizer": "sgd"}, {"accumulation_steps": 2}],
    ids=str,
)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_whole_steps_are_traced_and_their_operations_are_known(kind, recipe):
    later = step(Tagger(kind(8, 16, num_layers=2, dropout=0.1, batch_first=True)), **recipe).later
    ran = {growth.operation.name for growth in later.operations}
    assert {FORWARD, BACKWARD} <= ran
    assert split_unknown(later) == ((), ())


def test_each_parameter_is_updated_wherever_it_lies():
    traced_step = step(Tagger(nn.LSTM(8, 16, batch_first=True)))
    assert len(traced_step.weights) == 3
    assert traced_step.tensors == 6


def test_packed_sequences_are_refused():
    layer = nn.LSTM(8, 16, batch_first=True)
    with tracing_for(HOPPER, layer), pytest.raises(CannotPredictError, match="packed sequences"):
        layer(pack_padded_sequence(torch.empty(2, 5, 8), [5, 3], batch_first=True))


def test_sequences_that_come_packed_are_refused():
    layer = nn.GRU(8, 16)
    packed = pack_padded_sequence(torch.rand(5, 2, 8), [5, 3])
    with tracing_for(HOPPER, layer), pytest.raises(CannotPredictError, match="packed sequences"):
        layer(packed)


def test_projections_are_refused():
    layer = nn.LSTM(8, 16, proj_size=4)
    with tracing_for(HOPPER, layer), pytest.raises(CannotPredictError, match="projection"):
        layer(torch.empty(5, 2, 8))


def test_there_is_no_backward_pass_in_evaluation_mode():
    with pytest.raises(CannotPredictError, match="evaluation mode"):
        traced(nn.LSTM(8, 16).eval(), (5, 2, 8))


def test_packing_works_again_afterwards():
    with cuda_choices(HOPPER):
        pass
    packed = pack_padded_sequence(torch.rand(5, 2, 8), [5, 3])
    assert nn.LSTM(8, 8)(packed)[0].data.shape == (8, 8)
