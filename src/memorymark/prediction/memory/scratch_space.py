"""Scratch space: what an operation allocates beyond its results and frees again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from memorymark.prediction.tracing.operation import TensorFacts

# Small extra requests of cuDNN's kernels: 16 to 256 bytes, which matter only for rounding.
PARAMETER_BYTES = 16


@dataclass(frozen=True)
class Scratch:
    """The scratch space of an operation.

    ``copies`` are allocated before its results and freed when it ends. ``after`` the results come one by one: a size
    that is freed at once, or several requests in order, where -1 frees the first and so on. With ``each_result``, each
    entry follows its result. ``optional`` space is left out if it does not fit.
    """

    after: tuple[int | tuple[int, ...], ...] = ()
    copies: tuple[int, ...] = ()
    each_result: bool = False
    optional: bool = False

    @property
    def peak_bytes(self) -> int:
        """The most that is allocated at once."""
        return sum(self.copies) + max(map(_most_at_once, self.after), default=0)


def _most_at_once(requests: int | tuple[int, ...]) -> int:
    if isinstance(requests, int):
        return requests
    sizes = [request for request in requests if request >= 0]
    return max(accumulate(request if request >= 0 else -sizes[-1 - request] for request in requests))


NOTHING = Scratch()


def contiguous_copies(tensors: Sequence[TensorFacts]) -> tuple[int, ...]:
    """Returns the sizes of the copies that kernels make of tensors that are not contiguous."""
    return tuple(tensor.nbytes for tensor in tensors if not tensor.contiguous and tensor.nbytes)


def ceil_div(a: int, b: int) -> int:
    """Returns the quotient, rounded up."""
    return -(-a // b)
