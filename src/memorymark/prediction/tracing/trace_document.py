"""A traced step as a document of JSON types, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from memorymark.prediction.tracing.fake_step import TracedStep
from memorymark.prediction.tracing.operation import Operation, TensorFacts
from memorymark.prediction.tracing.program import Growth, Program
from memorymark.training.facts import TrainingFacts


def to_document(step: TracedStep) -> dict[str, Any]:
    """Returns the step as JSON types; repeated tensors and operations are written once and referenced by index."""
    tensors: dict[TensorFacts, int] = {}
    operations: dict[int, int] = {}
    written: list[list[Any]] = []

    def place_of(operation: Operation) -> int:
        # By identity, not by value: an operation that does not grow is the same object at both sizes.
        if id(operation) not in operations:
            operations[id(operation)] = len(written)
            written.append(
                [
                    operation.name,
                    [tensors.setdefault(facts, len(tensors)) for facts in operation.inputs],
                    [tensors.setdefault(facts, len(tensors)) for facts in operation.outputs],
                    list(operation.arguments),
                    list(operation.freed),
                    [list(made) for made in operation.made],
                    operation.eager,
                    operation.on_host,
                ]
            )
        return operations[id(operation)]

    def program(one: Program) -> dict[str, Any]:
        steps = [
            [
                place_of(growth.operation),
                place_of(growth.larger),
                growth.batch_size,
                growth.repeats,
                list(growth.carried),
                growth.stride,
            ]
            for growth in one.operations
        ]
        return {
            "operations": steps,
            "marks": [list(mark) for mark in one.marks],
            "carried": [list(pair) for pair in one.carried.items()],
        }

    return {
        "first": program(step.first),
        "later": program(step.later),
        "operations": written,
        "tensors": [
            [list(t.shape), str(t.dtype).removeprefix("torch."), t.storage, t.contiguous, t.channels_last]
            for t in tensors
        ],
        "weights": list(step.weights.items()),
        "owners": list(step.owners.items()),
        "tensor_counts": [step.tensors, step.frozen_tensors],
        "facts": asdict(step.facts),
        "worst": to_document(step.worst) if step.worst else None,
    }


def from_document(document: dict[str, Any]) -> TracedStep:
    """Reads the step that ``to_document`` wrote."""
    tensors = [
        TensorFacts(tuple(shape), _dtype(dtype), storage, contiguous, channels_last)
        for shape, dtype, storage, contiguous, channels_last in document["tensors"]
    ]
    operations = [
        Operation(
            name,
            tuple(tensors[place] for place in inputs),
            tuple(tensors[place] for place in outputs),
            tuple(arguments),
            tuple(freed),
            tuple((number, size) for number, size in made),
            eager,
            on_host,
        )
        for name, inputs, outputs, arguments, freed, made, eager, on_host in document["operations"]
    ]

    def program(one: dict[str, Any]) -> Program:
        growths = [
            Growth(operations[a], operations[b], batch_size, repeats, tuple(carried), stride)
            for a, b, batch_size, repeats, carried, stride in one["operations"]
        ]
        return Program(growths, [(phase, end) for phase, end in one["marks"]], dict(one.get("carried", ())))

    tensor_count, frozen_tensor_count = document["tensor_counts"]
    return TracedStep(
        first=program(document["first"]),
        later=program(document["later"]),
        weights=dict(document["weights"]),
        owners=dict(document["owners"]),
        tensors=tensor_count,
        frozen_tensors=frozen_tensor_count,
        facts=TrainingFacts(**document["facts"]),
        worst=from_document(document["worst"]) if document["worst"] else None,
    )


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{name} is not a tensor type")
    return dtype
