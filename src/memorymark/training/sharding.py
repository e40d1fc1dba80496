"""Spreads a model over several GPUs as torch does: copies kept alike by DDP, or parts of it gathered by FSDP2.

This process is rank 0 of a group in which nothing is sent: what a rank computes and allocates is real, what it would
get from the others is not.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from memorymark.errors import Proposal, UsageError
from memorymark.messages import Message
from memorymark.question.recipe import Recipe
from memorymark.question.several_gpus import SEVERAL
from memorymark.training.tensor_parallel import cut_layers
from memorymark.training.weights import DTYPES
from memorymark.training.workload import Workload
from memorymark.units import MIB

FAKE = "fake"
# Strategies that keep the whole model on each GPU, in DDP's wrapper.
COPYING = ("ddp", "zero1")
# DDP's defaults: the first bucket is small, so that it can be sent soon.
FIRST_BUCKET_BYTES, BUCKET_BYTES = MIB, 25 * MIB
ASSIGN = "_compute_bucket_assignment_by_size"


@contextmanager
def alone_of_many(recipe: Recipe) -> Iterator[None]:
    """Makes this process rank 0 of as many as the recipe has GPUs; nothing is sent."""
    if recipe.gpus == 1:
        yield
        return
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        raise UsageError(
            "this process is already part of a torch.distributed group; ask from one that is not.", code="conflict"
        )
    store: Any = FakeStore()
    dist.init_process_group(FAKE, store=store, rank=0, world_size=recipe.gpus)
    try:
        with warnings.catch_warnings():
            # Logits that were put together are a view, which nothing here changes.
            warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view", UserWarning)
            yield
    finally:
        dist.destroy_process_group()


def require_spreadable(workload: Workload, recipe: Recipe) -> None:
    """Refuses trainings that only one GPU is known to do as is assumed here."""
    if recipe.gpus == 1:
        return
    reasons = {
        "runs a step of its own": workload.step is not None or bool(workload.between),
        "compares with a second model": workload.compares,
        "generates its samples": bool(workload.completions),
        "has quantized weights": workload.quantization is not None,
        "has an optimizer of its own": workload.optimizer is not None and recipe.strategy != "ddp",
    }
    for reason, applies in reasons.items():
        if applies:
            raise UsageError(
                Message(
                    "{name} {reason}, which is not predicted for several {gpus} yet; drop that option.",
                    name=workload.name,
                    reason=reason,
                ),
                code="not_applicable",
                field="gpus",
                given=recipe.gpus,
                proposals=[Proposal("one GPU", dict.fromkeys(SEVERAL))],
            )


def spread_over(model: nn.Module, recipe: Recipe, device: torch.device) -> tuple[nn.Module | None, dict[int, Tensor]]:
    """Spreads a model on its device over the recipe's GPUs, as one rank does; returns the wrapper, if it gets one, and
    the buckets that the first backward pass fills.
    """
    meshes = Meshes.of(recipe, device)
    if meshes.layers is not None:
        cut_layers(model, recipe, meshes.layers)
    if meshes.data is not None:
        shard(model, recipe, meshes.data)
    return (None, {}) if recipe.cuts_weights else copied(model, is_fake=False)


class Meshes(NamedTuple):
    """The GPUs as torch's modules see them: those that share layers, and those among which weights are cut."""

    layers: Any = None
    data: Any = None

    @classmethod
    def of(cls, recipe: Recipe, device: torch.device) -> Meshes:
        """Arranges the GPUs: in one row or a row for each machine, and each row by groups that share layers."""
        from torch.distributed.device_mesh import init_device_mesh

        shape = {"shard": recipe.data_parallel} if recipe.shards_weights else {}
        if recipe.strategy == "hsdp":
            shape = {"replicate": recipe.nodes, "shard": recipe.data_parallel // recipe.nodes}
        names = tuple(shape)
        if recipe.tensor_parallel > 1:
            shape["layers"] = recipe.tensor_parallel
        if not shape:
            return cls()
        mesh = init_device_mesh(device.type, tuple(shape.values()), mesh_dim_names=tuple(shape))
        if recipe.tensor_parallel == 1:
            return cls(data=mesh)
        return cls(mesh["layers"], mesh[names] if names else None)


def shard(model: nn.Module, recipe: Recipe, mesh: Any) -> None:
    """Cuts the parameters of each block, and those outside of blocks, into a part for each GPU.

    With mixed precision, weights are gathered in 16 bits and gradients are reduced in 32.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    scalar = next((name for name, one in model.named_parameters() if one.dim() == 0), None)
    if scalar is not None:
        raise UsageError(
            Message("{name} is a single number, which FSDP2 cannot cut into parts; use {strategy:ddp}.", name=scalar),
            code="not_applicable",
            field="strategy",
            given=recipe.strategy,
            proposals=[Proposal("DDP", {"strategy": "ddp"})],
        )
    policy = MixedPrecisionPolicy()
    if recipe.half_precision:
        policy = MixedPrecisionPolicy(param_dtype=DTYPES[recipe.precision], reduce_dtype=torch.float32)
    how: dict[str, Any] = {"reshard_after_forward": False} if recipe.strategy == "zero2" else {}
    for block in (*blocks_of(model), model):
        fully_shard(block, mesh=mesh, mp_policy=policy, **how)


def copied(model: nn.Module, *, is_fake: bool) -> tuple[nn.Module, dict[int, Tensor]]:
    """Returns the model in DDP's wrapper, and its buckets of gradients, which the first backward pass adds.

    torch begins with one bucket and makes several after that pass, in the order in which gradients came. For that it
    reads values, which fake tensors have not: for them there are several from the beginning, from the last parameter to
    the first.
    """
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.nn.parallel import distributed as ddp

    buckets: dict[int, Tensor] = {}

    def reduced(_, bucket):  # type: ignore[no-untyped-def]  # torch refuses any annotation but its own
        buckets[bucket.index()] = bucket.buffer()
        future: Any = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    with ExitStack() as stack:

        def put(owner: Any, name: str, value: Any) -> None:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)

        for name in ("_verify_param_shape_across_processes", "_sync_module_states"):  # they compare and send values
            put(ddp, name, lambda *_, **__: None)
        if is_fake:
            put(dist, ASSIGN, _from_the_last(getattr(dist, ASSIGN)))
        wrapper: Any = DistributedDataParallel(model)
    wrapper.register_comm_hook(None, reduced)
    if is_fake:
        wrapper.reducer = _FirstOrder(wrapper.reducer)
    return wrapper, buckets


def _from_the_last(assign: Any) -> Any:
    """Returns DDP's function that puts parameters into buckets, so that it does what it does after the first pass."""

    def assigned(parameters: Any, limits: Any, sparse: Any = (), *rest: Any) -> Any:
        limits = [FIRST_BUCKET_BYTES, BUCKET_BYTES]
        found, sizes = assign(list(reversed(parameters)), limits, list(reversed(sparse)), *rest)
        last = len(parameters) - 1
        buckets = [[last - index for index in bucket] for bucket in found]
        return list(reversed(buckets)), list(reversed(sizes))  # DDP turns them round

    return assigned


class _FirstOrder:
    """DDP's reducer, with buckets that stay as they are."""

    def __init__(self, reducer: Any) -> None:
        self._reducer = reducer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reducer, name)

    def _rebuild_buckets(self) -> bool:
        return False


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """Returns the blocks of a model that are sharded one by one: like layers in a row, such as a transformer's."""
    return list(_blocks(model))


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    for container in module.children():
        layers = list(container.children()) if isinstance(container, (nn.ModuleList, nn.Sequential)) else []
        kinds = Counter(map(type, layers))
        repeated = [layer for layer in layers if kinds[type(layer)] > 1 and any(True for _ in layer.parameters())]
        if repeated:
            yield from repeated
        else:
            yield from _blocks(container)
