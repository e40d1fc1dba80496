"""What cuDNN's recurrent layers really took on an NVIDIA H200, and the same layers traced."""

import gzip
import json
from pathlib import Path

import torch
from torch import nn

from memorymark.prediction.tracing.recurrent import BACKWARD, FORWARD
from support.operations import operation, tensor, tracing_for

RECORDED = json.loads(gzip.decompress((Path(__file__).parents[1] / "data" / "h200_recurrent.json.gz").read_bytes()))
HOPPER = (9, 0)
MODES = {"RNN": 1, "LSTM": 2, "GRU": 3}


def traced(layer, inputs, *, autocast=False, states=None, back=True):
    """Both passes of a layer; the gradient lies in memory as the output does."""
    with tracing_for(HOPPER, layer) as tracer:
        tensor = torch.empty(inputs, requires_grad=True)
        trace = tracer.start()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            output, _ = layer(tensor, states)
        gradient = torch.ones_like(output)
        tracer.mark("forward")
        if back:
            output.backward(gradient)
        tracer.mark("backward")
    return trace


def build(kind, inputs, hidden, layers, bidirectional, dropout, train, batch_first):
    layer = getattr(nn, kind)(
        inputs,
        hidden,
        layers,
        batch_first=bool(batch_first),
        bidirectional=bool(bidirectional),
        dropout=dropout if layers > 1 else 0.0,
    )
    return layer.train(bool(train))


def passes(kind, batch, length, inputs, hidden, layers, bidirectional, precision, dropout=0.0, train=True):
    """The operations of the forward pass, and those of the backward pass."""
    given = tensor(length, batch, inputs, dtype=torch.float32 if precision == "fp32" else torch.float16)
    numbers = [4, MODES[kind], hidden, 0, layers, False, dropout, bool(train), bool(bidirectional)]
    wanted = ([True, True, True, False], [False, False, False, True])
    backward = [operation(BACKWARD, [given], arguments=[*numbers, *mask]) for mask in wanted]
    return [operation(FORWARD, [given], arguments=numbers)], backward
