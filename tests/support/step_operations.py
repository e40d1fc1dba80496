"""The operations of a step, as counting them in a script would give, from a trace."""

from dataclasses import replace

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    ResNetConfig,
    ResNetForImageClassification,
)

import memorymark as mm
from memorymark.catalog import find_gpu
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.watch.operations import StepOperation, StepOperations

TOKENS = 128


def texts(size, device):
    ids = torch.zeros((size, TOKENS), dtype=torch.long, device=device)
    labels = torch.zeros(size, dtype=torch.long, device=device)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


def images(size, device):
    labels = torch.zeros(size, dtype=torch.long, device=device)
    return {"pixel_values": torch.zeros(size, 3, 224, 224, device=device), "labels": labels}


MODELS = {
    "bert": (lambda: BertForSequenceClassification(BertConfig()), texts),
    "gpt2": (lambda: GPT2ForSequenceClassification(GPT2Config(pad_token_id=0)), texts),
    "resnet": (lambda: ResNetForImageClassification(ResNetConfig()), images),
}


def traced_operations(model, batch_size, **recipe):
    """The operations of a step of one of ``MODELS`` on an H200."""
    build, batch = MODELS[model]
    asked = mm.Recipe(**recipe)
    step = trace_training(mm.Workload(build=build, batch=batch), asked, find_gpu("h200").capability).later
    with torch.device("meta"):
        parameters = [tuple(p.shape) for p in build().parameters()]
    found = []
    for phase, growth, times in step.counted(1):
        op = growth.at(batch_size)
        inputs, outputs = (tuple(t.stored_in(0) for t in tensors) for tensors in (op.inputs, op.outputs))
        found.append(StepOperation(replace(op, inputs=inputs, outputs=outputs, freed=(), made=()), phase, times))
    return StepOperations(batch_size, found, parameters)
