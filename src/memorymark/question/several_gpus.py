"""Training on several GPUs: how many, in how many machines, and how they share the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memorymark.errors import UsageError
from memorymark.messages import Message, OptionName
from memorymark.question.limits import MOST_TOGETHER
from memorymark.question.options import option
from memorymark.question.recipe_choices import STRATEGY, Strategy
from memorymark.suggestions import Proposal, without

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
# The options about several GPUs.
SEVERAL = ("gpus", "nodes", "strategy", "tensor_parallel")
# Optimizers that compute each element by itself, so that a part of a weight is updated like the whole.
ELEMENTWISE_OPTIMIZERS = ("adamw", "adam", "sgd", "none")


def _count(help_text: str, *, title: str, words: Callable[[int], str], unit: str = "GPUs", metavar: str = "N") -> Any:
    return option(
        1,
        help_text,
        group="target",
        title=title,
        unit=unit,
        metavar=metavar,
        minimum=1,
        maximum=MOST_TOGETHER,
        rare=True,
        words=words,
    )


@dataclass(frozen=True, kw_only=True)
class SeveralGpus:
    """The GPUs that train together."""

    gpus: int = _count(
        "GPUs that train together; the batch size is that of each.",
        title="Number of GPUs",
        words=lambda number: f"{number} GPUs",
    )
    """How many GPUs train together."""
    nodes: int = _count(
        "Machines that the GPUs are in, as many in each.",
        title="Number of machines",
        unit="machines",
        metavar="M",
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
    """How they share the work; ``auto`` with one GPU, or if all of them share each layer."""
    tensor_parallel: int = _count(
        "GPUs that share each layer, by transformers' plan for the model; the batch size is that of all of them.",
        title="Tensor parallelism",
        words=lambda number: f"tensor parallel over {number}",
    )
    """How many GPUs share each layer."""

    @property
    def shards_weights(self) -> bool:
        """Whether each GPU keeps only a part of the weights."""
        return self.strategy in SHARDING

    @property
    def cuts_weights(self) -> bool:
        """Whether each GPU keeps only a part of the weights, of those of its layers or of all."""
        return self.shards_weights or self.tensor_parallel > 1

    @property
    def parts_of_weights(self) -> int:
        """Into how many parts the weights are cut, if each of them is."""
        if not self.shards_weights:
            return self.tensor_parallel
        return self.gpus_per_node if self.strategy == "hsdp" else self.gpus

    @property
    def parts_of_state(self) -> int:
        """Into how many parts the optimizer's state is cut."""
        return self.gpus if self.strategy == "zero1" else self.parts_of_weights

    @property
    def data_parallel(self) -> int:
        """How many batches are trained on at once: one by each group of GPUs that share layers."""
        return self.gpus // self.tensor_parallel

    @property
    def used_strategy(self) -> str | None:
        """How GPUs with batches of their own share the work; ``None`` if there is one batch."""
        return None if self.strategy == "auto" else self.strategy

    @property
    def gpus_per_node(self) -> int:
        """The GPUs in each machine."""
        return self.gpus // self.nodes


def settle_several(recipe: Recipe) -> None:
    """Chooses the strategy of several GPUs, and raises on what does not go together."""
    if recipe.strategy == "auto" and recipe.gpus > recipe.tensor_parallel:
        object.__setattr__(recipe, "strategy", "ddp" if recipe.tensor_parallel == 1 else "fsdp")
    for refused in (*_not_of_one(recipe), *_uneven(recipe), *_beside_layers(recipe), *_not_together(recipe)):
        raise refused


def _not_of_one(recipe: Recipe) -> Iterator[UsageError]:
    if recipe.gpus > 1:
        return
    for name, given, usual, said in (
        (
            "strategy",
            recipe.strategy,
            "auto",
            "{strategy:{given}} is for several GPUs, and there is one; add {gpus:8}, or drop it.",
        ),
        ("nodes", recipe.nodes, 1, "{nodes:{given}} needs as many GPUs at least; raise {gpus}."),
        ("tensor_parallel", recipe.tensor_parallel, 1, "{tensor_parallel:{given}} needs as many GPUs; raise {gpus}."),
    ):
        if given != usual:
            several = max(8, recipe.tensor_parallel)
            yield _refused(Message(said, given=given), name, given, Proposal(f"{several} GPUs", {"gpus": several}))


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
    elif recipe.gpus_per_node % recipe.tensor_parallel:
        yield _refused(
            Message(
                "the {here} GPUs of a machine cannot be divided into groups of {tensor_parallel:{given}}; change one "
                "of them.",
                here=recipe.gpus_per_node,
                given=recipe.tensor_parallel,
            ),
            "tensor_parallel",
            recipe.tensor_parallel,
            without("tensor_parallel", usual=1),
        )
    elif recipe.strategy == "hsdp" and not 1 < recipe.nodes < recipe.data_parallel:
        yield _refused(
            Message(
                "{strategy:hsdp} shards within machines and copies between them, so it needs several {nodes} of "
                "several GPUs each; with one machine, use {strategy:fsdp}."
            ),
            "strategy",
            recipe.strategy,
            Proposal("FSDP", {"strategy": "fsdp"}),
        )


def _beside_layers(recipe: Recipe) -> Iterator[UsageError]:
    """Yields strategies that torch does not have beside tensor parallelism."""
    if recipe.tensor_parallel == 1:
        return
    if recipe.lora:
        yield _refused(
            Message(
                "{lora:{given}} adds layers that {tensor_parallel} has no plan for; use {strategy:fsdp} alone.",
                given=recipe.lora,
            ),
            "lora",
            recipe.lora,
            without("tensor_parallel", usual=1),
        )
    elif recipe.used_strategy is None:
        return
    elif recipe.data_parallel == 1:
        yield _refused(
            Message(
                "{tensor_parallel:{all}} leaves no GPUs for {strategy:{given}}; lower it, or drop the strategy.",
                all=recipe.tensor_parallel,
                given=recipe.strategy,
            ),
            "strategy",
            recipe.strategy,
            without("strategy", usual="auto"),
        )
    elif not recipe.shards_weights:
        yield _refused(
            Message(
                "{strategy:{given}} copies whole layers, and {tensor_parallel} cuts them; use {strategy:fsdp}.",
                given=recipe.strategy,
            ),
            "strategy",
            recipe.strategy,
            Proposal("FSDP", {"strategy": "fsdp"}),
        )


def _not_together(recipe: Recipe) -> Iterator[UsageError]:
    """Yields what is not known about several GPUs, rather than guess."""
    if recipe.gpus == 1:
        return
    sharded, cuts = recipe.strategy != "ddp", recipe.cuts_weights
    excluded: list[tuple[str, Any, bool]] = [
        ("offload", recipe.offload, recipe.offload != "none"),
        ("compile", recipe.compile, recipe.compile),
        ("optimizer_in_backward", True, recipe.optimizer_in_backward),
        ("loss", recipe.loss, recipe.loss == "chunked"),
        ("optimizer", recipe.optimizer, sharded and recipe.optimizer not in ELEMENTWISE_OPTIMIZERS),
        ("weights", recipe.weights, recipe.weights in ("int8", "nf4")),
        ("allocator", recipe.allocator, cuts and recipe.allocator != "default"),
        ("precision", recipe.precision, cuts and recipe.precision == "fp16"),
    ]
    sharing = "strategy" if recipe.used_strategy else "tensor_parallel"
    for name, given, applies in excluded:
        if applies:
            yield _refused(
                Message(
                    "{option:{choice}} is not predicted for several GPUs with {sharing:{shared}} yet; change one of "
                    "them.",
                    option=OptionName(name),
                    choice="" if isinstance(given, bool) else given,
                    sharing=OptionName(sharing),
                    shared=getattr(recipe, sharing),
                ),
                name,
                given,
                Proposal("one GPU", dict.fromkeys(SEVERAL)),
            )


def _refused(said: Message, name: str, given: Any, proposal: Proposal) -> UsageError:
    return UsageError(said, code="not_applicable", field=name, given=given, proposals=[proposal])
