"""Traces a model that is spread over several GPUs: what its rank gathers, keeps in buckets and reduces."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from memorymark.devices.allocations import Owner
from memorymark.errors import Proposal, UsageError
from memorymark.messages import Message
from memorymark.prediction.tracing.operation import GATHERED
from memorymark.prediction.tracing.program import Program
from memorymark.prediction.tracing.refusals import explained
from memorymark.prediction.tracing.tracer import Tracer
from memorymark.question.recipe import Recipe
from memorymark.training.sharding import Meshes, copied, shard
from memorymark.training.step import TrainingStep
from memorymark.training.tensor_parallel import cut_layers

CPU = torch.device("cpu")


@dataclass(frozen=True)
class SpreadOut:
    """What torch put around a model, or into it; ``wrapper`` is called in its place, ``group`` names the process group
    of GPUs that share layers.
    """

    wrapper: nn.Module | None = None
    _buckets: dict[int, Tensor] = field(default_factory=dict)
    group: str = ""

    def warm_up(self, step: TrainingStep, tracer: Tracer, batch_size: int) -> None:
        """Runs a pass that is not traced: the first makes what later ones use again."""
        with tracer.paused(), explained(step):
            step.forward_and_backward(batch_size)
        trained = sum(one.numel() for one in step.model.parameters() if one.requires_grad)
        if self.wrapper is not None and sum(one.numel() for one in self._buckets.values()) < trained:
            raise UsageError(
                Message(
                    "some parameters of {name} get no gradient, for which DDP would wait; freeze them, or cut the "
                    "model with {strategy:fsdp}.",
                    name=step.workload.name,
                ),
                code="not_applicable",
                field="strategy",
                given=step.recipe.strategy,
                proposals=[Proposal("FSDP", {"strategy": "fsdp"})],
            )

    def buckets(self, tracer: Tracer) -> dict[int, int]:
        """Returns the storages of DDP's buckets and their bytes."""
        return {tracer.number_of(one): one.untyped_storage().nbytes() for one in self._buckets.values()}


def spread_out(model: nn.Module, recipe: Recipe, fake_mode: FakeTensorMode) -> SpreadOut | None:
    """Spreads a model over the recipe's GPUs; returns ``None`` if there is one."""
    if recipe.gpus == 1:
        return None
    meshes = Meshes.of(recipe, CPU)
    if meshes.layers is not None:
        with fake_mode:
            cut_layers(model, recipe, meshes.layers)
    if meshes.data is not None:
        # Beside cut layers FSDP makes a mesh of both kinds of groups, of real numbers.
        with fake_mode if meshes.layers is None else nullcontext():
            shard(model, recipe, meshes.data)
    if recipe.cuts_weights:
        return SpreadOut(group=meshes.layers.get_group().group_name if meshes.layers is not None else "")
    with fake_mode:
        return SpreadOut(*copied(model, is_fake=True))


@contextmanager
def seeing_gathers(tracer: Tracer, layers_group: str) -> Iterator[None]:
    """Lets the tracer know when FSDP gives memory to gathered parameters and takes it back, what is sent in the process
    group of GPUs that share layers, and nothing of what torch only computes to find out shapes.
    """
    from torch.distributed.fsdp._fully_shard import _fsdp_param, _fsdp_param_group
    from torch.distributed.tensor._sharding_prop import ShardingPropagator

    def alloc_storage(tensor: Tensor) -> None:
        bytes_needed = tensor.numel() * tensor.itemsize
        if tensor.untyped_storage().size() != bytes_needed:
            tensor.untyped_storage().resize_(bytes_needed)
            tracer.refilled(tensor)

    def free_storage(tensor: Tensor) -> None:
        if tensor.untyped_storage().size() != 0:
            tracer.emptied(tensor)
            tensor.untyped_storage().resize_(0)

    def unseen(function: Any) -> Any:
        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with tracer.paused():
                return function(*args, **kwargs)

        return run

    tracer.layers_group = layers_group
    with ExitStack() as stack:

        def put(owner: Any, name: str, value: Any) -> None:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)

        put(_fsdp_param, "free_storage", free_storage)
        for module in (_fsdp_param, _fsdp_param_group):
            if hasattr(module, "alloc_storage"):
                put(module, "alloc_storage", alloc_storage)
        for name in ("_propagate_tensor_meta", "_propagate_tensor_meta_non_cached"):
            if hasattr(ShardingPropagator, name):
                put(ShardingPropagator, name, unseen(getattr(ShardingPropagator, name)))
        yield


def parts_of(program: Program) -> dict[Hashable, Owner]:
    """Returns the storages of a step that belong to the work of several GPUs, and what they are."""
    found: dict[Hashable, Owner] = {}
    for growth in program.operations:
        operation = growth.operation
        if operation.name == GATHERED:
            found.update((number, "gathered_parameters") for number, _ in operation.made)
        elif operation.base_name == "all_gather_copy_in":
            found.update((tensor.storage, "gathered_parameters") for tensor in operation.outputs)
        elif operation.base_name == "chunk_cat":
            found[operation.inputs[-1].storage] = "gradient_buckets"
    return found
