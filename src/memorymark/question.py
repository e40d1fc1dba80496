"""What an analysis is asked: the training, today's batch, the margin, the money. Valid once it is made."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from memorymark.cost import Usage
from memorymark.errors import UsageError
from memorymark.request import Request
from memorymark.search import NO_LIMIT
from memorymark.type_checks import settle_types, shown, whole

DEFAULT_CURRENT = 16
DEFAULT_MARGIN = 0.05


@dataclass(frozen=True, kw_only=True)
class Question:
    """A request and what is to be found out about it.

    ``all_gpus`` asks for every GPU of the catalog, ``seq_lens`` for several lengths of a sample, ``advise`` for what
    to change about the training; ``try_compile`` lets that run torch.compile, which takes a minute or more.
    """

    request: Request
    current_batch_size: int = DEFAULT_CURRENT
    max_batch: int | None = None
    margin: float = DEFAULT_MARGIN
    usage: Usage = field(default_factory=Usage)
    price_per_hour: float | None = None
    all_gpus: bool = False
    seq_lens: tuple[int, ...] = ()
    advise: bool = False
    try_compile: bool = True

    def __post_init__(self) -> None:
        require_positive("--batch-size", self.current_batch_size)
        require_positive("--max-batch", self.max_batch)
        settle_types(self)
        require_margin(self.margin)
        if self.price_per_hour is not None and not 0 <= self.price_per_hour < math.inf:
            raise UsageError(f"--price-per-hour must be a number of dollars from 0 up, not {self.price_per_hour:g}.")
        target = self.request.target
        if self.all_gpus and (target.gpu, target.device, target.memory_cap_bytes) != (None, "auto", None):
            raise UsageError("--all-gpus predicts for every GPU as it is; drop --gpu, --device and --memory-gib.")
        if self.all_gpus and self.price_per_hour is not None:
            raise UsageError("--price-per-hour is for one GPU and --all-gpus takes the catalog's prices; drop one.")
        if self.advise and (self.all_gpus or self.seq_lens):
            raise UsageError("advice is for one GPU and one length; drop --all-gpus, or all lengths but one.")
        if self.advise and self.max_batch is not None and self.max_batch < self.current_batch_size:
            raise UsageError(
                f"--max-batch {self.max_batch} is below today's --batch-size of {self.current_batch_size}, so no gain "
                "over today could be told; raise the one or lower the other."
            )
        self._check_lengths()

    def _check_lengths(self) -> None:
        if not self.seq_lens:
            return
        if self.all_gpus:
            raise UsageError("--all-gpus and several lengths ask for too much at once; give one --seq-len.")
        if self.request.seq_len is not None:
            raise UsageError("one length or several can be asked for, not both; drop one.")
        for seq_len in self.seq_lens:
            require_positive("--seq-len", seq_len)
            self.at_length(seq_len)

    def at_length(self, seq_len: int) -> Question:
        """The same question about one length."""
        return replace(self, request=replace(self.request, seq_len=seq_len), seq_lens=())

    def to_dict(self) -> dict[str, Any]:
        """The question as JSON types; ``from_dict`` reads it back."""
        return {**asdict(self), "request": self.request.to_dict(), "seq_lens": list(self.seq_lens)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Question:
        """The question that ``to_dict`` wrote."""
        parts = {
            "request": Request.from_dict(data["request"]),
            "usage": Usage(**data["usage"]),
            "seq_lens": tuple(data.get("seq_lens", ())),
        }
        return cls(**{**data, **parts})


def require_margin(margin: float) -> None:
    """Refuses what is no part of a memory."""
    if not 0 <= margin < 1:
        raise UsageError(f"--margin is a fraction from 0 to below 1, not {margin:g}.")


def require_positive(option: str, value: int | None) -> None:
    """Refuses what is no batch size; ``None`` is one that was not given."""
    if value is None:
        return
    number = whole(value)
    if number is None:
        raise UsageError(f"{option} must be a whole number, not {shown(value)}.")
    if number < 1:
        raise UsageError(f"{option} must be 1 or more, not {number}.")
    if number > NO_LIMIT:
        raise UsageError(f"{option} can be at most {NO_LIMIT}, not {number}.")
