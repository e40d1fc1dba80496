"""The one place that runs a complete training step: forward, loss, backward, optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import is_fake
from torch.utils._pytree import tree_map_only

from memorymark.devices.host_memory import HostMeter
from memorymark.devices.storages import dense_parts, local_part
from memorymark.errors import UsageError
from memorymark.question.recipe import Recipe
from memorymark.training.attention import choose_attention
from memorymark.training.blame import blaming, not_taken
from memorymark.training.building import build_on
from memorymark.training.checkpointing import checkpoint_blocks
from memorymark.training.generation import Generation, cache_of
from memorymark.training.host_links import activations_kept, link_for
from memorymark.training.losses import mean_of_logits, own_loss, require_one_number
from memorymark.training.optimizers import gradients_taken, optimizers_of
from memorymark.training.own_step import OnPhase, OwnStep, as_given, no_updates, require_undecided
from memorymark.training.quantizing import scales_of
from memorymark.training.reference import Reference
from memorymark.training.sharding import COPYING
from memorymark.training.weights import DTYPES
from memorymark.training.workload import Batch, Workload, count_elements

_has_compiled = False


class TrainingStep:
    """A workload under a recipe on a device, ready to run steps at any batch size.

    ``model`` is already built and prepared, ``wrapper`` what is called in its place, such as DDP's. ``arrived`` returns
    a batch's tensor as it arrives on the device. ``on_outputs`` is told what each forward pass returns, ``host`` counts
    what is offloaded.
    """

    def __init__(
        self,
        workload: Workload,
        recipe: Recipe,
        device: torch.device,
        *,
        model: nn.Module | None = None,
        wrapper: nn.Module | None = None,
        arrived: Callable[[Tensor], Tensor] | None = None,
        on_outputs: Callable[[Any], None] | None = None,
        host: HostMeter | None = None,
    ) -> None:
        self.workload, self.recipe, self.device = workload, recipe, device
        self.model = prepare_model(build_on(device, workload, recipe), recipe) if model is None else model
        self.reference = Reference(self.model, recipe) if workload.compares else None
        self._link = link_for(device, host or HostMeter()) if recipe.offload != "none" else None
        self.optimizers = optimizers_of(workload, recipe, self.model, self._link)
        self._saving = activations_kept(recipe, self.model, self._link)
        self._arrived = _whole if any(is_fake(parameter) for parameter in self.model.parameters()) else arrived
        self.generation: Generation | None = None
        self._largest_batch = (0, 0)
        self._scaler = self._new_scaler()
        compiles = recipe.compile and not is_compiled(self.model)
        self._forward: nn.Module = compiled(self.model) if compiles else wrapper or self.model
        self._on_outputs, self._outputs = on_outputs, None
        self._own = self._own_step()
        self._came_with_state = self._has_optimizer_state = any(one.state for one in self.optimizers)

    def __call__(self, batch_size: int, on_phase: OnPhase = lambda _: None) -> None:
        """Runs one step and what comes between steps; ``on_phase`` is told when each phase has ended."""
        self.alone(batch_size, on_phase)
        for name, function in self.workload.between.items():
            with matmul_precision(self.recipe), self._autocast(), blaming("between="):
                function(self._forward, self._batch(batch_size), as_given(self.optimizers))
            on_phase(name)

    def alone(self, batch_size: int, on_phase: OnPhase = lambda _: None) -> None:
        """Runs one step."""
        if self.generation is not None:
            self.generation.hold(batch_size * self.recipe.accumulation_steps, self.device)
            on_phase("generation")
        with matmul_precision(self.recipe):
            if self._own is not None:
                self._run_own(self._own, batch_size, on_phase)
            else:
                for left in reversed(range(self.recipe.accumulation_steps)):
                    with gradients_taken(self.recipe, self.optimizers), self._not_reducing(left):
                        self._forward_and_backward(batch_size, on_phase)
                self._update()
        on_phase("optimizer")

    def _own_step(self) -> OwnStep | None:
        if self.workload.step is None:
            return None
        require_undecided(self.recipe)
        return OwnStep(self.workload.step, self.model, self.optimizers)

    def _run_own(self, own: OwnStep, batch_size: int, on_phase: OnPhase) -> None:
        batch = self._batch(batch_size)
        with blaming("step="):
            own.run(batch, on_phase)
        self._has_optimizer_state = bool(self.optimizers)

    def forward_only(self, batch_size: int) -> None:
        """Runs the forward pass alone and keeps nothing for a backward pass."""
        with matmul_precision(self.recipe), torch.no_grad():
            self._loss(self._batch(batch_size))

    def forward_and_backward(self, batch_size: int) -> None:
        """Runs the forward and the backward pass and drops the gradients."""
        with matmul_precision(self.recipe):
            self._forward_and_backward(batch_size, lambda _: None)
        self.model.zero_grad(set_to_none=True)

    def look_at_generation(self) -> None:
        """Finds out what generation keeps, if the workload generates its samples; each step then makes room for it."""
        workload = self.workload
        if workload.completions:
            with self._autocast():
                cache = cache_of(self.model, workload.sample_sizes["tokens"], self.device)
            self.generation = Generation(workload.completions, cache)

    def recover(self) -> None:
        """Makes the step usable after it failed half way."""
        self.model.zero_grad(set_to_none=True)
        self.drop_outputs()
        if self._link is not None:
            self._link.let_go()
        self._scaler = self._new_scaler()  # the old one remembers the half step
        if not self._has_optimizer_state:
            for optimizer in self.optimizers:
                optimizer.state.clear()  # it may be incomplete, which would fail the next step

    def start_over(self) -> None:
        """Forgets the steps so far, so that the next is a first step. An optimizer that came with state keeps it."""
        self._has_optimizer_state = self._came_with_state
        self._largest_batch = (0, 0)
        self.recover()

    def drop_outputs(self) -> None:
        """Drops the outputs that the loop kept, as when its function returns."""
        self._outputs = None

    @property
    def own_optimizer(self) -> str:
        """The names of the workload's own optimizers; empty if the recipe's is used."""
        return " + ".join(type(one).__name__ for one in self.optimizers) if self.workload.optimizer is not None else ""

    def weights(self) -> Iterator[Tensor]:
        """Parameters, buffers and the scales of quantized weights; those of a frozen copy too."""
        for model in self.models():
            yield from map(local_part, model.parameters())
            yield from model.buffers()
            yield from scales_of(model)

    def models(self) -> Iterator[nn.Module]:
        """Yields the model, and its frozen copy if there is one."""
        yield self.model
        if self.reference is not None and self.reference.copy is not None:
            yield self.reference.copy

    def gradients(self) -> Iterator[Tensor]:
        """Yields the existing gradients, sparse ones as their indices and values."""
        gradients = (local_part(p.grad) for p in self.model.parameters() if p.grad is not None)
        return (part for gradient in gradients for part in dense_parts(gradient))

    def optimizer_state(self) -> Iterator[Tensor]:
        """The optimizers' tensors on the device."""
        states = (state for one in self.optimizers for state in one.state.values())
        return (local_part(value) for state in states for value in state.values() if isinstance(value, Tensor))

    def _not_reducing(self, batches_left: int) -> AbstractContextManager[Any]:
        """Lets DDP reduce the gradients of the last batch of a step only."""
        no_sync = getattr(self._forward, "no_sync", None) if self.recipe.strategy in COPYING and batches_left else None
        return no_sync() if no_sync is not None else nullcontext()

    def _new_scaler(self) -> torch.amp.GradScaler | None:
        if self.recipe.precision != "fp16":
            return None
        # With a scale of 1 no gradient of a random model overflows; an overflow would skip the optimizer's step, and
        # its state would not be measured.
        return torch.amp.GradScaler(self.device.type, init_scale=1.0)

    def _require_gradients(self) -> None:
        """Refuses a loss that does not depend on the module, because then nothing is trained."""
        trained = [weight for weight in self.model.parameters() if weight.requires_grad]
        # Hooks may have used the gradients and dropped them.
        if trained and all(weight.grad is None and not weight._post_accumulate_grad_hooks for weight in trained):
            raise UsageError(
                "loss= does not depend on the module, so nothing is trained; compute it from its output.",
                code="bad_workload",
            )

    def _forward_and_backward(self, batch_size: int, on_phase: OnPhase) -> None:
        with self._seeing_outputs(), self._saving:
            loss = self._loss(self._batch(batch_size))
        require_one_number(loss, "the module" if self.workload.loss is None else "loss=")
        if self.recipe.accumulation_steps > 1:
            loss = loss / self.recipe.accumulation_steps
        on_phase("forward")
        with blaming("the backward pass"):
            (self._scaler.scale(loss) if self._scaler else loss).backward()
        if self.workload.loss is not None:
            self._require_gradients()
        on_phase("backward")

    @contextmanager
    def _seeing_outputs(self) -> Iterator[None]:
        """Keeps what the model returns if the recipe's loop does, and reports it to the listener."""
        told, keeps = self._on_outputs, self.recipe.keep_outputs
        if told is None and not keeps:
            yield
            return

        def see(_module: nn.Module, _inputs: Any, outputs: Any) -> None:
            if told is not None:
                told(outputs)
            if keeps:
                self._outputs = outputs  # only now are the previous pass's outputs dropped

        handle = self._forward.register_forward_hook(see)
        try:
            yield
        finally:
            handle.remove()

    def _update(self) -> None:
        with blaming("optimizer="):
            for optimizer in self.optimizers if not self.recipe.optimizer_in_backward else ():
                if self._scaler:
                    self._scaler.step(optimizer)
                else:
                    optimizer.step()
        if self._scaler and self.optimizers:
            self._scaler.update()
        self._has_optimizer_state = bool(self.optimizers)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        if not self.optimizers:
            self.model.zero_grad(set_to_none=True)

    def _batch(self, batch_size: int) -> Batch:
        with blaming("batch="):
            batch = self.workload.batch(batch_size, self.device)
        self._require_more(batch_size, batch)
        if self._arrived is not None:
            batch = tree_map_only(Tensor, self._arrived, batch)
        if self.recipe.weights in ("bf16", "fp16") and not self.recipe.half_precision:
            batch = tree_map_only(Tensor, self._as_weights, batch)
        return tree_map_only(Tensor, _channels_last, batch) if self.recipe.channels_last else batch

    def _as_weights(self, tensor: Tensor) -> Tensor:
        """Casts inputs to the type of the weights, which nothing else does without autocast."""
        return tensor.to(DTYPES[self.recipe.weights]) if tensor.is_floating_point() else tensor

    def _require_more(self, batch_size: int, batch: Batch) -> None:
        """Refuses batches that stop growing, as slices at the end of a data set do: any size would seem to fit."""
        largest, most = self._largest_batch
        if batch_size > largest:
            elements = count_elements(batch)
            if 0 < elements <= most:
                raise UsageError(
                    f"batch({batch_size}) of {self.workload.name} holds no more than batch({largest}); make batches of "
                    "any size, repeating samples if necessary.",
                    code="bad_workload",
                )
            self._largest_batch = batch_size, elements

    def _loss(self, batch: Batch) -> Tensor:
        argument = "loss=" if self.workload.loss is not None else "the module"
        with self._autocast(), not_taken(self.workload.name) if self.workload.own_batches else blaming(argument):
            if self.recipe.loss == "mean":
                return mean_of_logits(self._forward, batch, self.workload.name)
            if self.workload.loss is not None:
                compared = () if self.reference is None else (self.reference,)
                with no_updates():
                    return self.workload.loss(self._forward, batch, *compared)
            return own_loss(self._forward, batch, self.workload.name)

    def _autocast(self) -> AbstractContextManager[Any]:
        if not self.recipe.half_precision or self.recipe.shards_weights:  # FSDP casts what it gathers
            return nullcontext()
        return torch.autocast(self.device.type, DTYPES[self.recipe.precision])


def _whole(tensor: Tensor) -> Tensor:
    """Copies a view of a larger tensor, as moving it to a GPU would."""
    is_part = tensor.layout == torch.strided and tensor.untyped_storage().nbytes() > tensor.nbytes
    return tensor.clone() if is_part or not is_fake(tensor) else tensor


def _channels_last(tensor: Tensor) -> Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def is_compiled(model: nn.Module) -> bool:
    """Tells whether the model itself was compiled; compiled parts of it do not count."""
    return hasattr(model, "_orig_mod") or getattr(model, "_compiled_call_impl", None) is not None


def runs_compiled_code(model: nn.Module) -> bool:
    """Tells whether the model or any part of it was compiled."""
    return any(map(is_compiled, model.modules()))


def compiled(model: nn.Module) -> nn.Module:
    """Compiles the model as in a fresh process.

    If a model of the same class was compiled before at another batch size, torch would compile this one for dynamic
    sizes, into slower code. So all compiled code is reset, and other models are compiled again when next called.
    """
    global _has_compiled
    if _has_compiled:
        torch.compiler.reset()
    _has_compiled = True
    optimized: Any = torch.compile(model)
    assert isinstance(optimized, nn.Module)  # noqa: S101 - it wraps a module in a module
    return optimized


def prepare_model(model: nn.Module, recipe: Recipe, *, to_trace: bool = False) -> nn.Module:
    """Puts the model into the mode, memory format and checkpointing the recipe asks for, to run or ``to_trace``."""
    model.train(recipe.train_mode)
    if recipe.attention != "auto":
        choose_attention(model, recipe.attention, to_trace=to_trace)
    if recipe.gradient_checkpointing != "none":
        checkpoint_blocks(model, recipe)
    if recipe.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


@contextmanager
def matmul_precision(recipe: Recipe) -> Iterator[None]:
    """Enables TF32 if the recipe wants it, and restores the old setting at exit."""
    if not recipe.tf32:
        yield
        return
    try:
        before, put_back = torch.get_float32_matmul_precision(), torch.set_float32_matmul_precision
        torch.set_float32_matmul_precision("high")
    except RuntimeError:  # the caller uses torch's newer setting, which conflicts with this one
        matmul: Any = torch.backends.cuda.matmul
        before, put_back = matmul.fp32_precision, partial(setattr, matmul, "fp32_precision")
        matmul.fp32_precision = "tf32"
    try:
        yield
    finally:
        put_back(before)
