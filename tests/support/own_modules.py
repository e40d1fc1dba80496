"""Models in use, in the middle of a training, and what must not change about them."""

import random

import numpy as np
import torch
from torch import nn

from support.tiny import TinyNet

SMALL = {"device": "cpu", "memory_gib": 1 / 1024}


class Lived(TinyNet):
    """A model in use: batch norm with its own statistics, half of it frozen in eval mode, gradients of its own."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x, labels=None):
        return super().forward(self.norm(x), labels)


def snapshot(model):
    """Everything that must be the same later; a missing gradient is no tensor."""
    return {
        **{f"value of {name}": tensor.clone() for name, tensor in model.state_dict().items()},
        **{f"gradient of {name}": p.grad.clone() for name, p in model.named_parameters() if p.grad is not None},
        **{f"mode of {name}": torch.tensor(module.training) for name, module in model.named_modules()},
        "random state": torch.get_rng_state(),
    }


def differences(after, before):
    same = {name for name in after.keys() & before.keys() if torch.equal(after[name], before[name])}
    return sorted((after.keys() | before.keys()) - same)


def whole(module, optimizer):
    """Everything that must be the same afterwards."""
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    state = {
        f"{key} of {names[id(parameter)]}": torch.as_tensor(value).clone()
        for parameter, values in optimizer.state.items()
        for key, value in values.items()
    }
    memory = {f"memory of {name}": torch.tensor(p.data_ptr()) for name, p in module.named_parameters()}
    rate = {"rate": torch.tensor(optimizer.param_groups[0]["lr"])}
    others = {
        "python": torch.tensor(random.getstate()[1][:600]),
        "numpy": torch.tensor(np.random.get_state()[1].astype(np.int64)),
    }
    return {**snapshot(module), **state, **memory, **rate, **others}
