"""Training on several GPUs: how many, in how many machines, and how they share the work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memorymark.errors import UsageError
from memorymark.messages import Message, OptionName
from memorymark.question.limits import MOST_GPUS
from memorymark.question.options import option
from memorymark.question.recipe_choices import STRATEGY, Strategy
from memorymark.suggestions import Proposal

if TYPE_CHECKING:
    from memorymark.question.recipe import Recipe

STRATEGY_NAMES = {
    "auto": "Default",
    "ddp": "DDP",
    "zero1": "ZeRO-1",
    "zero2": "ZeRO-2",
    "zero3": "ZeRO-3",
    "fsdp": "FSDP",
    "hsdp": "HSDP",
}
# Those that cut the model's weights into parts, as FSDP2 does.
SHARDING = frozenset({"zero2", "zero3", "fsdp", "hsdp"})
# Optimizers that compute each element by itself, so that a part of a weight is updated like the whole.
ELEMENTWISE_OPTIMIZERS = ("adamw", "adam", "sgd", "none")


@dataclass(frozen=True, kw_only=True)
class SeveralGpus:
    """The GPUs that train together."""

    gpus: int = option(
        1,
        "GPUs that train together; the batch size is that of each.",
        group="target",
        title="Number of GPUs",
        unit="GPUs",
        metavar="N",
        minimum=1,
        maximum=MOST_GPUS,
        rare=True,
        words=lambda number: f"{number} GPUs",
    )
    """How many GPUs train together."""
    nodes: int = option(
        1,
        "Machines that the GPUs are in, as many in each.",
        group="target",
        title="Number of machines",
        unit="machines",
        metavar="M",
        minimum=1,
        maximum=MOST_GPUS,
        rare=True,
        words=lambda number: f"{number} machines",
    )
    """How many machines the GPUs are in."""
    strategy: Strategy = option(
        "auto",
        "How several GPUs share the work: each has the whole model (ddp), or a part of its state; auto is ddp.",
        group="target",
        choices=STRATEGY,
        labels=STRATEGY_NAMES,
        rare=True,
        words=STRATEGY_NAMES.__getitem__,
    )
    """How they share the work; ``auto`` with one GPU."""

    @property
    def shards_weights(self) -> bool:
        """Whether each GPU keeps only a part of the weights."""
        return self.strategy in SHARDING

    @property
    def parts_of_weights(self) -> int:
        """Into how many parts the weights are cut."""
        if not self.shards_weights:
            return 1
        return self.gpus_per_node if self.strategy == "hsdp" else self.gpus

    @property
    def parts_of_state(self) -> int:
        """Into how many parts the optimizer's state is cut."""
        return self.gpus if self.strategy == "zero1" else self.parts_of_weights

    @property
    def gpus_per_node(self) -> int:
        """The GPUs in each machine."""
        return self.gpus // self.nodes


def settle_several(recipe: Recipe) -> None:
    """Chooses the strategy of several GPUs, and raises on what does not go together."""
    if recipe.gpus > 1 and recipe.strategy == "auto":
        object.__setattr__(recipe, "strategy", "ddp")
    for refused in (*_not_of_one(recipe), *_uneven(recipe), *_not_together(recipe)):
        raise refused


def _not_of_one(recipe: Recipe) -> Iterator[UsageError]:
    if recipe.gpus > 1:
        return
    for name, given, usual in (("strategy", recipe.strategy, "auto"), ("nodes", recipe.nodes, 1)):
        if given != usual:
            yield _refused(
                Message(
                    "{strategy:{given}} is for several GPUs, and there is one; add {gpus:8}, or drop it.", given=given
                )
                if name == "strategy"
                else Message("{nodes:{given}} needs as many GPUs at least; raise {gpus}.", given=given),
                name,
                given,
                Proposal("8 GPUs", {"gpus": 8}),
            )


def _uneven(recipe: Recipe) -> Iterator[UsageError]:
    if recipe.gpus % recipe.nodes:
        yield _refused(
            Message(
                "{gpus:{gpus_given}} cannot be spread evenly over {nodes:{nodes_given}}; change one of them.",
                gpus_given=recipe.gpus,
                nodes_given=recipe.nodes,
            ),
            "gpus",
            recipe.gpus,
            Proposal("one machine", {"nodes": None}),
        )
    elif recipe.strategy == "hsdp" and not 1 < recipe.nodes < recipe.gpus:
        yield _refused(
            Message(
                "{strategy:hsdp} shards within machines and copies between them, so it needs several {nodes} of "
                "several GPUs each; with one machine, use {strategy:fsdp}."
            ),
            "strategy",
            recipe.strategy,
            Proposal("FSDP", {"strategy": "fsdp"}),
        )


def _not_together(recipe: Recipe) -> Iterator[UsageError]:
    """Yields what is not known about several GPUs, rather than guess."""
    if recipe.gpus == 1:
        return
    sharded = recipe.strategy != "ddp"
    excluded: list[tuple[str, Any, bool]] = [
        ("offload", recipe.offload, recipe.offload != "none"),
        ("compile", recipe.compile, recipe.compile),
        ("optimizer_in_backward", True, recipe.optimizer_in_backward),
        ("loss", recipe.loss, recipe.loss == "chunked"),
        ("optimizer", recipe.optimizer, sharded and recipe.optimizer not in ELEMENTWISE_OPTIMIZERS),
        ("weights", recipe.weights, recipe.weights in ("int8", "nf4")),
        ("allocator", recipe.allocator, recipe.shards_weights and recipe.allocator != "default"),
        ("precision", recipe.precision, recipe.shards_weights and recipe.precision == "fp16"),
    ]
    for name, given, applies in excluded:
        if applies:
            yield _refused(
                Message(
                    "{option:{choice}} is not predicted for several GPUs with {strategy:{shared}} yet; change one of "
                    "them.",
                    option=OptionName(name),
                    choice="" if isinstance(given, bool) else given,
                    shared=recipe.strategy,
                ),
                name,
                given,
                Proposal("one GPU", {"gpus": None, "nodes": None, "strategy": None}),
            )


def _refused(said: Message, name: str, given: Any, proposal: Proposal) -> UsageError:
    return UsageError(said, code="not_applicable", field=name, given=given, proposals=[proposal])
