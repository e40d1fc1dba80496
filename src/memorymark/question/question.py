"""The question for an analysis: the training, today's batch, the margin, the money. Checked when it is created."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from memorymark.catalog import GpuEntry, all_gpus, find_gpu
from memorymark.catalog.tasks import TASKS, TEXT
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.question.limits import LARGEST_AMOUNT, MOST_GPUS, MOST_LENGTHS, NO_LIMIT
from memorymark.question.options import group, option, require_option, settle_options
from memorymark.question.prices import settled_prices
from memorymark.question.request import OwnRequest, Request
from memorymark.question.target import AUTO
from memorymark.question.usage import Usage

DEFAULT_CURRENT = 16
DEFAULT_MARGIN = 0.05


@group("question")
@dataclass(frozen=True, kw_only=True)
class Question:
    """A request and what to find out about it.

    ``all_gpus`` asks about every GPU of the catalog, ``compare_gpus`` about some of them, ``seq_lens`` about several
    sample lengths, ``advise`` about what to change; ``try_compile`` allows advice to run torch.compile, which takes a
    minute or more. ``prices`` are the caller's own.
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
    prices: dict[str, float] | None = option(
        None,
        "Your own dollars per GPU hour, by GPU; other GPUs keep the catalog's price.",
        group="usage",
        type="prices",
        title="Your own prices",
        unit="$/h",
        rare=True,
        minimum=0,
        maximum=LARGEST_AMOUNT,
        longest=MOST_GPUS,
    )
    all_gpus: bool = option(
        False, "Predict for every GPU of the catalog, to find the fastest and the cheapest.", title="All GPUs"
    )
    compare_gpus: tuple[str, ...] = option(
        (),
        "Several GPUs of the catalog to predict for, to find the fastest and the cheapest of them.",
        type="names",
        title="GPUs to compare",
        flags=("--gpu",),
        longest=MOST_GPUS,
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
        object.__setattr__(
            self, "compare_gpus", tuple(dict.fromkeys(_one_of_several(one) for one in self.compare_gpus))
        )
        if self.prices is not None:
            object.__setattr__(self, "prices", settled_prices(self.prices, self.request.target))
        for field_of, message, clashes in self._conflicts():
            if clashes:
                raise UsageError(message, code="conflict", field=field_of)
        for seq_len in self.seq_lens:
            self.at_length(seq_len)

    def _conflicts(self) -> Iterator[tuple[str, Message, bool]]:
        """Yields the option, the message and the condition of every conflict between options."""
        yield from self._conflicts_of_gpus()
        yield from self._conflicts_of_advice()
        yield from self._conflicts_of_lengths()
        yield from self._conflicts_of_run()

    def _conflicts_of_gpus(self) -> Iterator[tuple[str, Message, bool]]:
        target = self.request.target
        yield (
            "all_gpus",
            Message("{all_gpus} predicts for every GPU of the catalog; drop {gpu}, {device} and {memory_gib}."),
            self.all_gpus and not (target.is_open and target.memory_cap_bytes is None),
        )
        is_named = target.gpu is not None and target.gpu_facts is None
        yield (
            "compare_gpus",
            Message("several GPUs are predicted for; drop {all_gpus}, {device}, {memory_gib} and any other GPU."),
            bool(self.compare_gpus)
            and (self.all_gpus or is_named or target.device != AUTO or target.memory_cap_bytes is not None),
        )
        yield (
            "price_per_hour",
            Message("{price_per_hour} is for one GPU; give the prices of several as {prices}."),
            self.compares_gpus and self.price_per_hour is not None,
        )
        yield (
            "prices",
            Message("{price_per_hour} and {prices} exclude each other; drop one."),
            self.prices is not None and self.price_per_hour is not None,
        )

    def _conflicts_of_advice(self) -> Iterator[tuple[str, Message, bool]]:
        gpu, limit = self.request.target.entry, self.max_batch
        yield (
            "advise",
            Message("advice is for one GPU and one length; drop {all_gpus}, or all GPUs and lengths but one."),
            self.advise and (self.compares_gpus or bool(self.seq_lens)),
        )
        yield (
            "advise",
            Message(
                "advice ranks recipes by speed, and only memory is predicted for the {name}; name another GPU, or use "
                "analyze.",
                name=gpu.name if gpu is not None else "",
            ),
            self.advise and gpu is not None and gpu.memory_only,
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

    def _conflicts_of_lengths(self) -> Iterator[tuple[str, Message, bool]]:
        yield (
            "seq_lens",
            Message("a comparison of GPUs takes one length; give one {seq_len}."),
            self.compares_gpus and bool(self.seq_lens),
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

    @property
    def compares_gpus(self) -> bool:
        """Whether it asks about several GPUs."""
        return self.all_gpus or bool(self.compare_gpus)

    @property
    def gpus_compared(self) -> tuple[GpuEntry, ...]:
        """The GPUs to compare: every one of the catalog, or those that are named and the caller's own."""
        if self.all_gpus:
            return all_gpus()
        own = self.request.target.entry
        return (*((own,) if own is not None else ()), *map(find_gpu, self.compare_gpus))

    def at_length(self, seq_len: int) -> Question:
        """Returns the same question about one length."""
        return replace(self, request=replace(self.request, seq_len=seq_len), seq_lens=())

    def to_dict(self) -> dict[str, Any]:
        """Returns the question in JSON types; ``from_dict`` reads it back."""
        lists = {"compare_gpus": list(self.compare_gpus), "seq_lens": list(self.seq_lens)}
        return {**asdict(self), "request": self.request.to_dict(), **lists}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Question:
        """Reads the question that ``to_dict`` wrote."""
        parts = {
            "request": Request.from_dict(data["request"]),
            "usage": Usage(**data["usage"]),
            "compare_gpus": tuple(data.get("compare_gpus", ())),
            "seq_lens": tuple(data.get("seq_lens", ())),
        }
        return cls(**{**data, **parts})


def _one_of_several(name: Any) -> str:
    try:
        return find_gpu(str(name)).id
    except UsageError as error:  # what it suggests would replace all of them
        raise UsageError(
            error.message, code=error.code, field="compare_gpus", given=name, allowed=error.allowed
        ) from None


def not_counted_in_tokens(request: Request) -> Message:
    """Says that the samples of a request have no number of tokens."""
    return Message("{tokens} is for text, and the samples of {id} are not text; give {samples}.", id=request.entry.id)


def require_batch_size(batch_size: Any) -> None:
    """Raises if ``batch_size`` is not a valid batch size."""
    require_option(Question, "batch_size", batch_size)
