"""What goes wrong while a step is traced, as errors that say why and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
)

from memorymark.errors import CannotPredictError, MemoryMarkError
from memorymark.messages import Message
from memorymark.suggestions import without
from memorymark.training.step import TrainingStep

# Errors of fake tensors, and what they mean.
ONLY_A_RUN = {
    "its data is not allocated yet": "the model reads a tensor's values (.tolist(), .numpy()), which only a run has",
}


@contextmanager
def explained(step: TrainingStep) -> Iterator[None]:
    """Turns what torch and models raise into errors that a caller can act on."""
    try:
        yield
    except MemoryMarkError:
        raise
    except (
        UnsupportedFakeTensorException,
        DataDependentOutputException,
        DynamicOutputShapeException,
        NotImplementedError,
    ) as error:
        what = str(error).partition("\n")[0] or type(error).__name__
        raise CannotPredictError("an operation has no shape rule; measure on a GPU.", detail=what) from None
    except RuntimeError as error:
        for sign, reason in ONLY_A_RUN.items():
            if sign in str(error):
                raise CannotPredictError(f"{reason}; measure it on a GPU.") from None
        refused = _refused(step, str(error).partition("\n")[0])
        if refused is None:
            raise
        raise refused from error


def _refused(step: TrainingStep, detail: str) -> CannotPredictError | None:
    name, shared = step.workload.name, step.recipe.tensor_parallel
    if shared > 1:
        return CannotPredictError(
            Message(
                "{name} does not run as transformers' plan cuts its layers for {tensor_parallel:{shared}}; drop it.",
                name=name,
                shared=shared,
            ),
            field="tensor_parallel",
            given=shared,
            proposals=[without("tensor_parallel", usual=1)],
            detail=detail,
        )
    if step.workload.own_batches:
        return CannotPredictError(
            f"{name} does not take the batches that are made for it here, or its config leaves something open; pass a "
            "file.py:function that makes both.",
            detail=detail,
        )
    return None
