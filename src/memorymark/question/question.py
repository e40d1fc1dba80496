"""The question for an analysis: the training, today's batch, the margin, the money. Checked when it is created."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from memorymark.catalog.tasks import TASKS, TEXT
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.question.limits import LARGEST_AMOUNT, MOST_LENGTHS, NO_LIMIT
from memorymark.question.options import group, option, require_option, settle_options
from memorymark.question.request import OwnRequest, Request
from memorymark.question.usage import Usage

DEFAULT_CURRENT = 16
DEFAULT_MARGIN = 0.05


@group("question")
@dataclass(frozen=True, kw_only=True)
class Question:
    """A request and what to find out about it.

    ``all_gpus`` asks about every GPU of the catalog, ``seq_lens`` about several sample lengths, ``advise`` about what
    to change; ``try_compile`` allows advice to run torch.compile, which takes a minute or more.
    """

    request: Request
    """The training."""
    current_batch_size: int = option(
        DEFAULT_CURRENT,
        "The batch size you train with today.",
        called="batch_size",
        title="Your batch size today",
        unit="samples",
        flags=("--batch-size", "-b"),
        minimum=1,
        maximum=NO_LIMIT,
    )
    max_batch: int | None = option(
        None,
        "Do not try batch sizes above this one.",
        title="Largest batch",
        unit="samples",
        rare=True,
        minimum=1,
        maximum=NO_LIMIT,
    )
    margin: float = option(
        DEFAULT_MARGIN, "Fraction of the memory to leave free.", unit="fraction", rare=True, minimum=0, below=1
    )
    usage: Usage = field(default_factory=Usage)
    """How much is trained."""
    price_per_hour: float | None = option(
        None,
        "Dollars per GPU hour; defaults to the catalog's price.",
        group="usage",
        title="Price",
        unit="$/h",
        rare=True,
        minimum=0,
        maximum=LARGEST_AMOUNT,
    )
    all_gpus: bool = option(
        False, "Predict for every GPU of the catalog, to find the fastest and the cheapest.", title="All GPUs"
    )
    seq_lens: tuple[int, ...] = option(
        (),
        "Several sequence lengths; finds the largest batch of each.",
        title="Sequence lengths",
        unit="tokens",
        minimum=1,
        maximum=NO_LIMIT,
        longest=MOST_LENGTHS,
        sample_units=("tokens",),
    )
    advise: bool = option(False, "Ask what to change: recipes ranked by gain.", title="Advice")
    try_compile: bool = option(
        True,
        "With advice: on a GPU, also run torch.compile, which takes a minute or more.",
        title="Advice may compile",
        flags=("--try-compile/--no-try-compile",),
        measured_only=True,
        rare=True,
    )

    def __post_init__(self) -> None:
        settle_options(self)
        for field_of, message, clashes in (*self._conflicts(), *self._conflicts_of_run()):
            if clashes:
                raise UsageError(message, code="conflict", field=field_of)
        for seq_len in self.seq_lens:
            self.at_length(seq_len)

    def _conflicts(self) -> Iterator[tuple[str, Message, bool]]:
        """Yields the option, the message and the condition of every conflict between options."""
        target, limit = self.request.target, self.max_batch
        yield (
            "all_gpus",
            Message("{all_gpus} predicts for every GPU of the catalog; drop {gpu}, {device} and {memory_gib}."),
            self.all_gpus and not (target.is_open and target.memory_cap_bytes is None),
        )
        yield (
            "price_per_hour",
            Message("{price_per_hour} is for one GPU and {all_gpus} uses the catalog's prices; drop one."),
            self.all_gpus and self.price_per_hour is not None,
        )
        yield (
            "advise",
            Message("advice is for one GPU and one length; drop {all_gpus}, or all lengths but one."),
            self.advise and (self.all_gpus or bool(self.seq_lens)),
        )
        yield (
            "advise",
            Message("advice on how to train on several {gpus} is not given yet; use analyze with each {strategy}."),
            self.advise and self.request.recipe.gpus > 1,
        )
        yield (
            "max_batch",
            Message(
                "{max_batch:{limit}} is below today's {batch_size:{current}}, so no gain over today can be measured; "
                "raise one or lower the other.",
                limit=limit,
                current=self.current_batch_size,
            ),
            self.advise and limit is not None and limit < self.current_batch_size,
        )
        yield (
            "seq_lens",
            Message("{all_gpus} takes one length; give one {seq_len}."),
            self.all_gpus and bool(self.seq_lens),
        )
        yield (
            "seq_lens",
            Message("ask for one length or for several, not both; drop one."),
            self.request.seq_len is not None and bool(self.seq_lens),
        )

    def _conflicts_of_run(self) -> Iterator[tuple[str, Message, bool]]:
        """Yields the conflicts between options that say how much a run trains on."""
        usage, entry = self.usage, self.request.name.entry if not isinstance(self.request, OwnRequest) else None
        units = TASKS[self.request.task or entry.task].units if entry is not None else TEXT
        yield (
            "tokens",
            Message("the length of a run is given in {samples} or in {tokens}, not in both; drop one."),
            usage.samples is not None and usage.tokens is not None,
        )
        yield (
            "samples",
            Message("with {packed:True} a batch counts rows, not samples; say {tokens} instead of {samples}."),
            usage.samples is not None and self.request.packed,
        )
        yield (
            "hours_per_run",
            Message("with {samples} or {tokens}, the hours of a run follow from the speed; drop {hours_per_run}."),
            usage.has_run and usage.hours_per_run != Usage().hours_per_run,
        )
        yield ("tokens", not_counted_in_tokens(self.request), usage.tokens is not None and units != TEXT)

    def at_length(self, seq_len: int) -> Question:
        """Returns the same question about one length."""
        return replace(self, request=replace(self.request, seq_len=seq_len), seq_lens=())

    def to_dict(self) -> dict[str, Any]:
        """Returns the question in JSON types; ``from_dict`` reads it back."""
        return {**asdict(self), "request": self.request.to_dict(), "seq_lens": list(self.seq_lens)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Question:
        """Reads the question that ``to_dict`` wrote."""
        parts = {
            "request": Request.from_dict(data["request"]),
            "usage": Usage(**data["usage"]),
            "seq_lens": tuple(data.get("seq_lens", ())),
        }
        return cls(**{**data, **parts})


def not_counted_in_tokens(request: Request) -> Message:
    """Says that the samples of a request have no number of tokens."""
    return Message("{tokens} is for text, and the samples of {id} are not text; give {samples}.", id=request.entry.id)


def require_batch_size(batch_size: Any) -> None:
    """Raises if ``batch_size`` is not a valid batch size."""
    require_option(Question, "batch_size", batch_size)
