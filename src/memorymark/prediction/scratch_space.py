"""Scratch space: what an operation takes beyond its results, and gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from memorymark.prediction.operation import TensorFacts

# Small things that kernels of cuDNN ask for with the rest: 16 to 256 bytes, which matters only for the rounding.
PARAMETER_BYTES = 16


@dataclass(frozen=True)
class Scratch:
    """What an operation takes and gives back.

    ``copies`` are there before its results and go when it ends. What comes ``after`` the results comes in turn: a size
    that goes at once, or several requests in order, of which -1 gives the first back and so on. With ``each_result``,
    each follows the result that it is for. Where there is no room for what is ``optional``, it is done without.
    """

    after: tuple[int | tuple[int, ...], ...] = ()
    copies: tuple[int, ...] = ()
    each_result: bool = False
    optional: bool = False

    @property
    def peak_bytes(self) -> int:
        """The most that it takes at once."""
        return sum(self.copies) + max(map(_most_at_once, self.after), default=0)


def _most_at_once(requests: int | tuple[int, ...]) -> int:
    if isinstance(requests, int):
        return requests
    sizes = [request for request in requests if request >= 0]
    return max(accumulate(request if request >= 0 else -sizes[-1 - request] for request in requests))


NOTHING = Scratch()


def contiguous_copies(tensors: Sequence[TensorFacts]) -> tuple[int, ...]:
    """What kernels that want contiguous tensors copy."""
    return tuple(tensor.nbytes for tensor in tensors if not tensor.contiguous and tensor.nbytes)


def ceil_div(a: int, b: int) -> int:
    """The quotient, rounded up."""
    return -(-a // b)
