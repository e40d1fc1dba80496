"""Whatever is wrong with an argument in Python: one sentence, of MemoryMark's own error, that names the argument."""

import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import memorymark as mm
from support.tiny import WIDTH, TinyNet, tiny, tiny_batch

CPU = torch.device("cpu")
HERE = {"device": "cpu", "memory_gib": 1 / 1024}
RUN_OR_PREDICTED = pytest.mark.parametrize("where", [HERE, {"gpu": "a10"}], ids=["run", "predicted"])


def divides(*_):
    return 1 / 0


def no_arguments():
    return None


def four_arguments(a, b, c, d):
    return None


class Callable2:
    def __call__(self, module):
        return module


LOSSES = {
    "of something else": lambda module, batch: 2 * torch.ones((), requires_grad=True),
    "string": "mean",
    "number": 5,
    "list": [lambda module, batch: module(**batch).loss],
    "criterion": nn.CrossEntropyLoss(),
    "no arguments": no_arguments,
    "one argument": lambda module: module,
    "four arguments": four_arguments,
    "object of one argument": Callable2(),
    "raises": divides,
    "gives nothing": lambda module, batch: None,
    "gives a number": lambda module, batch: 1.0,
    "gives a string": lambda module, batch: "low",
    "gives many": lambda module, batch: module(**batch).logits,
    "gives a pair": lambda module, batch: (module(**batch).loss, 1),
    "gives the output": lambda module, batch: module(**batch),
    "detached": lambda module, batch: module(**batch).loss.detach(),
    "constant": lambda module, batch: torch.zeros(()),
    "wrong key": lambda module, batch: module(batch["pixels"]).logits.mean(),
    "wrong attribute": lambda module, batch: module(**batch).cost,
    "wrong shape": lambda module, batch: module(batch["x"][:, :3]).logits.mean(),
}
BATCHES = {
    "nothing": None,
    "number": 16,
    "string": "random",
    "list": [torch.rand(4, WIDTH)],
    "dict": tiny_batch(4, CPU),
    "tensor": torch.rand(4, WIDTH),
    "loader": DataLoader(TensorDataset(torch.rand(8, WIDTH))),
    "dataset": TensorDataset(torch.rand(8, WIDTH)),
    "no arguments": no_arguments,
    "four arguments": four_arguments,
    "raises": divides,
    "gives nothing": lambda size: None,
    "gives a loader": lambda size: DataLoader(TensorDataset(torch.rand(8, WIDTH)), batch_size=size),
    "gives a number": lambda size: size,
    "gives a list": lambda size: [torch.rand(size, WIDTH)],
    "gives a tensor": lambda size: torch.rand(size, WIDTH),
    "gives always as much": lambda size: tiny_batch(4, CPU),
    "gives ever less": lambda size: tiny_batch(10 - size, CPU),
}
OPTIMIZERS = {
    "number": 5,
    "unknown name": "lamb",
    "class": torch.optim.AdamW,
    "class in a list": [torch.optim.AdamW],
    "empty list": [],
    "list of names": ["adamw", "sgd"],
    "parameters": list(TinyNet().parameters()),
    "dict": {"lr": 0.1},
    "closure": lambda module: torch.optim.LBFGS(module.parameters()),
    "of others": torch.optim.AdamW(TinyNet().parameters()),
    "one of two of others": lambda module: [
        torch.optim.AdamW(module.parameters()),
        torch.optim.AdamW(TinyNet().parameters()),
    ],
    "raises": divides,
    "no arguments": no_arguments,
    "two arguments": lambda module, rate: torch.optim.SGD(module.parameters(), rate),
    "gives nothing": lambda module: None,
    "gives a class": lambda module: torch.optim.SGD,
    "gives a string": lambda module: "sgd",
    "of the module itself": lambda module: torch.optim.SGD(module),
}


def refused(call, argument):
    """The sentence with which a call is refused; it names the argument as Python does."""
    with pytest.raises(mm.MemoryMarkError) as caught:
        call()
    said = str(caught.value)
    assert re.search(rf"\b{argument}\b", said), said
    assert "--" not in said
    assert "\n" not in said
    assert said.endswith(".")
    return said


@RUN_OR_PREDICTED
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_wrong_loss(loss, where):
    refused(lambda: mm.max_batch_size(TinyNet(), tiny_batch, loss, **where), "loss")


@RUN_OR_PREDICTED
@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
def test_a_wrong_batch(batch, where):
    refused(lambda: mm.max_batch_size(TinyNet(), batch, **where), "batch")


@RUN_OR_PREDICTED
@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_wrong_optimizer(optimizer, where):
    refused(lambda: mm.max_batch_size(TinyNet(), tiny_batch, optimizer=optimizer, **where), "optimizer")


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"max_batch": 0}, "max_batch"),
        ({"max_batch": 2.5}, "max_batch"),
        ({"max_batch": True}, "max_batch"),
        ({"max_batch": np.True_}, "max_batch"),
        ({"max_batch": "8"}, "max_batch"),
        ({"margin": 1}, "margin"),
        ({"margin": "0.1"}, "margin"),
        ({"memory_gib": -1}, "memory_gib"),
        ({"memory_gib": float("nan")}, "memory_gib"),
        ({"precision": "int3"}, "precision"),
        ({"precision": torch.int8}, "precision"),
        ({"precison": "bf16"}, "precision"),
        ({"checkpointing": True}, "gradient_checkpointing"),
        ({"accumulate": 0}, "accumulate"),
        ({"accumulate": np.float64(2)}, "accumulate"),
        ({"compile": "yes"}, "compile"),
        ({"compile": True}, "compile"),
        ({"device": "tpu"}, "device"),
        ({"device": 0}, "device"),
        ({"gpu": "h1000"}, "GPU"),
        ({"gpu": 5}, "gpu"),
        ({"gpu": "a10", "device": "cpu"}, "gpu"),
        ({"on_event": 5}, "on_event"),
        ({"gradient_checkpointing": True}, "gradient_checkpointing"),
        ({"channels_last": 1}, "channels_last"),
        ({"attention": "sdpa"}, "attention"),
        ({"lora": 8}, "lora"),
    ],
)
def test_a_wrong_option_of_max_batch_size(options, argument):
    where = {} if "device" in options or "gpu" in options else HERE
    refused(lambda: mm.max_batch_size(TinyNet(), tiny_batch, **{**where, **options}), argument)


@pytest.mark.parametrize("module", ["bert", None, 5, TinyNet, [TinyNet()], nn.ReLU(), TinyNet().requires_grad_(False)])
def test_a_wrong_module(module):
    with pytest.raises(mm.UsageError, match=r"module|ReLU|TinyNet"):
        mm.max_batch_size(module, tiny_batch)


MODELS = [None, 5, "", "  ", "brt", [], {}, TinyNet(), TinyNet, b"bert"]
OPTIONS = [
    ({"batch_size": 0}, "batch_size"),
    ({"batch_size": "16"}, "batch_size"),
    ({"batch_size": True}, "batch_size"),
    ({"batch_size": 2.0}, "batch_size"),
    ({"batch_size": None}, "batch_size"),
    ({"batch_size": np.array([1, 2])}, "batch_size"),
    ({"seq_len": "128"}, "seq_len"),
    ({"seq_len": 0}, "seq_len"),
    ({"seq_len": 2.5}, "seq_len"),
    ({"image_size": 224}, "image_size"),
    ({"precision": 16}, "precision"),
    ({"optimizer": torch.optim.AdamW}, "optimizer"),
    ({"optimizer": None}, "optimizer"),
    ({"loss": lambda module, batch: 0}, "loss"),
    ({"lora": "16"}, "lora"),
    ({"accumulate": -1}, "accumulate"),
    ({"fused": "yes"}, "fused"),
    ({"task": "summing"}, "task"),
    ({"task": 5}, "task"),
    ({"revision": 5}, "revision"),
    ({"time_limit": 0}, "time_limit"),
    ({"time_limit": "1 h"}, "time_limit"),
    ({"memory_gib": "8"}, "memory_gib"),
    ({"precison": "bf16"}, "precision"),
    ({"sequence_length": 128}, "sequence_length"),
    ({"small": "yes"}, "small"),
]
CALLS = [mm.analyze, mm.predict, mm.measure]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_wrong_model(call, model):
    refused(lambda: call(model), "model")


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
@pytest.mark.parametrize(("options", "argument"), OPTIONS)
def test_a_wrong_option(call, options, argument):
    refused(lambda: call("bert", **options), argument)


@pytest.mark.parametrize("lengths", [["a"], [128, 2.5], [True], [0], (64, None)])
def test_a_wrong_one_among_several_lengths(lengths):
    refused(lambda: mm.analyze("bert", seq_len=lengths), "seq_len")


@pytest.mark.parametrize(
    ("fields", "argument"),
    [
        ({"build": TinyNet()}, "build"),
        ({"build": "bert"}, "build"),
        ({"build": lambda device: TinyNet()}, "build"),
        ({"build": divides}, "build"),
        ({"build": lambda: "net"}, "build"),
        ({"batch": None}, "batch"),
        ({"batch": lambda size: tiny_batch(size, CPU)}, "batch"),
        ({"batch": divides}, "batch"),
        ({"loss": "mean"}, "loss"),
        ({"loss": lambda module, batch: None}, "loss"),
        ({"loss": divides}, "loss"),
        ({"optimizer": "adamw"}, "optimizer"),
        ({"optimizer": lambda module: "adamw"}, "optimizer"),
        ({"optimizer": divides}, "optimizer"),
        ({"name": 5}, "name"),
        ({"sample": None}, "sample"),
    ],
)
@pytest.mark.parametrize(
    "ask",
    [lambda made: mm.measure(made, 2, device="cpu"), lambda made: mm.predict(made, 2, gpu="a10")],
    ids=["measure", "predict"],
)
def test_a_wrong_part_of_a_workload(fields, argument, ask):
    def call():
        ask(mm.Workload(**{"build": TinyNet, "batch": tiny_batch, **fields}))

    refused(call, argument)


@RUN_OR_PREDICTED
def test_what_a_function_raises_is_told_as_its_own_error_with_its_place(where):
    said = refused(lambda: mm.max_batch_size(TinyNet(), divides, **where), "batch")

    assert re.match(r"batch= raised ZeroDivisionError: division by zero \(test_wrong_arguments.py, line \d+\);", said)
    assert "loader" not in said


def test_a_fault_of_ours_is_not_blamed_on_the_caller(monkeypatch):
    monkeypatch.setattr("memorymark.largest_batch.size_within", lambda *_: None)
    monkeypatch.setattr("memorymark.own_module.size_within", divides)

    with pytest.raises(ZeroDivisionError):
        mm.max_batch_size(TinyNet(), tiny_batch, **HERE)


@pytest.mark.parametrize("eight", [np.int64(8), np.uint8(8), np.array(8), torch.tensor(8)], ids=lambda n: str(type(n)))
def test_whole_numbers_of_numpy_and_torch_are_whole_numbers(eight):
    assert mm.max_batch_size(TinyNet(), tiny_batch, **HERE, max_batch=eight) == 8
    assert mm.predict(tiny(), eight, gpu="a10").to_dict()["batch_size"] == 8
    found = mm.analyze(tiny(), gpu="a10", batch_size=eight, max_batch=eight, people=eight, margin=np.float32(0.25))
    assert (found.current_batch_size, found.max_batch_size, found.margin) == (8, 8, 0.25)
