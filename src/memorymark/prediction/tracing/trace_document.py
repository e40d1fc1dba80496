"""A traced step as a document of JSON types, and back."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

import torch

from memorymark.prediction.tracing.fake_step import TracedStep
from memorymark.prediction.tracing.operation import Operation, TensorFacts
from memorymark.prediction.tracing.program import Growth, Program, in_later_steps
from memorymark.results.explanation import ModuleFacts
from memorymark.training.facts import TrainingFacts
from memorymark.training.generation import Generation


def to_document(step: TracedStep) -> dict[str, Any]:
    """Returns the step as JSON types; repeated tensors and operations are written once and referenced by index.

    What a later step does like the first is told by the place in that.
    """
    tables = _Tables()
    return {
        "first": tables.program(step.first, {}),
        "later": tables.program(step.later, _places(step.first)),
        "operations": tables.operations,
        "tensors": [
            [list(t.shape), str(t.dtype).removeprefix("torch."), t.storage, t.contiguous, t.channels_last]
            for t in tables.tensors
        ],
        "weights": list(step.weights.items()),
        "owners": list(step.owners.items()),
        "tensor_counts": [step.tensors, step.frozen_tensors],
        "facts": asdict(step.facts),
        "modules": [[path, *facts] for path, facts in step.modules.items()],
        "homes": list(step.homes.items()),
        "generation": asdict(step.generation) if step.generation is not None else None,
        "worst": to_document(step.worst) if step.worst else None,
    }


def _places(first: Program) -> dict[int, int]:
    """Returns where the first step does what later ones do likewise, by the id of the operation at a larger size."""
    times = Counter(id(growth.larger) for growth in first.operations)
    places = enumerate(first.operations)
    return {id(one.larger): at for at, one in places if times[id(one.larger)] == 1 and not one.repeats}


class _Tables:
    """The tensors and operations that programs share, by their index."""

    def __init__(self) -> None:
        self.tensors: dict[TensorFacts, int] = {}
        self.operations: list[list[Any]] = []
        self._places: dict[int, int] = {}

    def program(self, program: Program, like: dict[int, int]) -> dict[str, Any]:
        """Returns a program whose operations are in the table, or are ``like`` those of another."""
        return {
            "operations": [
                like[id(growth.larger)] if id(growth.larger) in like else self._growth(growth)
                for growth in program.operations
            ],
            "marks": [list(mark) for mark in program.marks],
            "carried": [list(pair) for pair in program.carried.items()],
        }

    def _growth(self, growth: Growth) -> list[Any]:
        both = [self._place_of(growth.operation), self._place_of(growth.larger)]
        return [*both, growth.batch_size, growth.repeats, list(growth.carried), growth.stride]

    def _place_of(self, operation: Operation) -> int:
        # By identity, not by value: an operation that does not grow is the same object at both sizes.
        if id(operation) not in self._places:
            self._places[id(operation)] = len(self.operations)
            self.operations.append(
                [
                    operation.name,
                    [self.tensors.setdefault(facts, len(self.tensors)) for facts in operation.inputs],
                    [self.tensors.setdefault(facts, len(self.tensors)) for facts in operation.outputs],
                    operation.arguments,
                    operation.freed,
                    operation.made,
                    operation.eager,
                    operation.on_host,
                    operation.stream,
                    operation.module,
                ]
            )
        return self._places[id(operation)]


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
            stream,
            module,
        )
        for name, inputs, outputs, arguments, freed, made, eager, on_host, stream, module in document["operations"]
    ]

    tensor_count, frozen_tensor_count = document["tensor_counts"]
    first = _program(document["first"], operations, [])
    return TracedStep(
        first=first,
        later=_program(document["later"], operations, first.operations),
        weights=dict(document["weights"]),
        owners=dict(document["owners"]),
        tensors=tensor_count,
        frozen_tensors=frozen_tensor_count,
        facts=TrainingFacts(**document["facts"]),
        modules={path: ModuleFacts(*facts) for path, *facts in document["modules"]},
        homes=dict(document["homes"]),
        generation=_generation(document["generation"]),
        worst=from_document(document["worst"]) if document["worst"] else None,
    )


def _program(document: dict[str, Any], operations: list[Operation], first: list[Growth]) -> Program:
    def growth(written: Any) -> Growth:
        if isinstance(written, int):
            return in_later_steps(first[written])
        a, b, batch_size, repeats, carried, stride = written
        return Growth(operations[a], operations[b], batch_size, repeats, tuple(carried), stride)

    growths = [growth(written) for written in document["operations"]]
    marks = [(phase, end) for phase, end in document["marks"]]
    return Program(growths, marks, dict(document.get("carried", ())))


def _generation(document: dict[str, Any] | None) -> Generation | None:
    return None if document is None else Generation(document["completions"], tuple(document["cache"]))


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{name} is not a tensor type")
    return dtype
