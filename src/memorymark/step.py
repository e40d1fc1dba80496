"""The one place that runs a complete training step: forward, loss, backward, optimizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import is_fake
from torch.utils._pytree import tree_map_only

from memorymark.blame import blaming
from memorymark.errors import UsageError
from memorymark.lora import add_adapters, frozen_weights_as_loaded
from memorymark.optimizers import name_of, optimizers_of
from memorymark.recipe import Recipe
from memorymark.storages import dense_parts
from memorymark.trace import Phase
from memorymark.workload import Batch, Workload, count_elements

OnPhase = Callable[[Phase], None]
AUTOCAST_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
SHORT_DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16", torch.float64: "fp64"}
_has_compiled = False


class TrainingStep:
    """A workload under a recipe on a device, ready to run steps at any batch size.

    ``model`` is one that is already built and prepared. ``arrived`` gives a tensor of a batch as it is after its way
    to the device.
    """

    def __init__(
        self,
        workload: Workload,
        recipe: Recipe,
        device: torch.device,
        *,
        model: nn.Module | None = None,
        arrived: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.workload, self.recipe, self.device = workload, recipe, device
        self.model = prepare_model(build_on(device, workload, recipe), recipe) if model is None else model
        self.optimizers = optimizers_of(workload, recipe, self.model)
        self._arrived = _whole if any(is_fake(parameter) for parameter in self.model.parameters()) else arrived
        self._largest_batch = (0, 0)
        self._scaler = self._new_scaler()
        compiles = recipe.compile and not is_compiled(self.model)
        self._forward: Callable[..., Any] = compiled(self.model) if compiles else self.model
        self._came_with_state = self._has_optimizer_state = any(one.state for one in self.optimizers)

    def __call__(self, batch_size: int, on_phase: OnPhase = lambda _: None) -> None:
        """Runs one step; ``on_phase`` is told when each phase has ended."""
        with matmul_precision(self.recipe):
            for _ in range(self.recipe.accumulation_steps):
                self._forward_and_backward(batch_size, on_phase)
            self._update()
        on_phase("optimizer")

    def forward_only(self, batch_size: int) -> None:
        """Runs the forward pass alone, nothing kept for a backward pass."""
        with matmul_precision(self.recipe), torch.no_grad():
            self._loss(self._batch(batch_size))

    def forward_and_backward(self, batch_size: int) -> None:
        """Runs the forward and the backward pass and drops the gradients."""
        with matmul_precision(self.recipe):
            self._forward_and_backward(batch_size, lambda _: None)
        self.model.zero_grad(set_to_none=True)

    def recover(self) -> None:
        """Makes the step usable after it failed half way."""
        self.model.zero_grad(set_to_none=True)
        self._scaler = self._new_scaler()  # the old one remembers the half step
        if not self._has_optimizer_state:
            for optimizer in self.optimizers:
                optimizer.state.clear()  # half of it may be missing, which the next step would trip over

    def start_over(self) -> None:
        """Forgets the steps so far: the next is a training's first. An optimizer that came with state keeps it."""
        self._has_optimizer_state = self._came_with_state
        self._largest_batch = (0, 0)
        self.recover()

    @property
    def own_optimizer(self) -> str:
        """The names of the workload's own optimizers; empty where the recipe's is used."""
        return " + ".join(type(one).__name__ for one in self.optimizers) if self.workload.optimizer is not None else ""

    def weights(self) -> Iterator[Tensor]:
        """Parameters and buffers."""
        yield from self.model.parameters()
        yield from self.model.buffers()

    def gradients(self) -> Iterator[Tensor]:
        """Gradients that exist now; of sparse ones what they are made of."""
        return (part for p in self.model.parameters() if p.grad is not None for part in dense_parts(p.grad))

    def optimizer_state(self) -> Iterator[Tensor]:
        """The optimizers' tensors on the device."""
        states = (state for one in self.optimizers for state in one.state.values())
        return (value for state in states for value in state.values() if isinstance(value, Tensor))

    def _new_scaler(self) -> torch.amp.GradScaler | None:
        if self.recipe.precision != "fp16":
            return None
        # From a scale of 1 no gradient of a random model overflows; an overflow would skip the optimizer's step and
        # leave its state out of what is measured.
        return torch.amp.GradScaler(self.device.type, init_scale=1.0)

    def _require_gradients(self) -> None:
        """Refuses a loss that has nothing to do with the module: its numbers would be those of no training."""
        trained = [weight for weight in self.model.parameters() if weight.requires_grad]
        # Hooks may have used the gradients and dropped them.
        if trained and all(weight.grad is None and not weight._post_accumulate_grad_hooks for weight in trained):
            raise UsageError("loss= does not depend on the module, so nothing is trained; compute it from its output.")

    def _forward_and_backward(self, batch_size: int, on_phase: OnPhase) -> None:
        loss = self._loss(self._batch(batch_size))
        _require_one_number(loss, "the module" if self.workload.loss is None else "loss=")
        if self.recipe.accumulation_steps > 1:
            loss = loss / self.recipe.accumulation_steps
        on_phase("forward")
        with blaming("the backward pass"):
            (self._scaler.scale(loss) if self._scaler else loss).backward()
        if self.workload.loss is not None:
            self._require_gradients()
        on_phase("backward")

    def _update(self) -> None:
        with blaming("optimizer="):
            for optimizer in self.optimizers:
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
        return tree_map_only(Tensor, _channels_last, batch) if self.recipe.channels_last else batch

    def _require_more(self, batch_size: int, batch: Batch) -> None:
        """Refuses batches that stop growing, as slices of a data set do at its end: any size would seem to fit."""
        largest, most = self._largest_batch
        if batch_size > largest:
            elements = count_elements(batch)
            if 0 < elements <= most:
                raise UsageError(
                    f"batch({batch_size}) of {self.workload.name} holds no more than batch({largest}); make batches of "
                    "any size, with the same samples again if need be."
                )
            self._largest_batch = batch_size, elements

    def _loss(self, batch: Batch) -> Tensor:
        with self._autocast(), blaming("loss=" if self.workload.loss is not None else "the module"):
            if self.recipe.loss == "mean":
                return _mean_of_logits(self._forward, batch, self.workload.name)
            if self.workload.loss is not None:
                return self.workload.loss(self._forward, batch)
            return _own_loss(self._forward, batch, self.workload.name)

    def _autocast(self) -> AbstractContextManager[Any]:
        dtype = AUTOCAST_DTYPES.get(self.recipe.precision)
        return nullcontext() if dtype is None else torch.autocast(self.device.type, dtype)


def _whole(tensor: Tensor) -> Tensor:
    """A part of a larger tensor, or one that was there before, as the copy that it becomes on its way to a GPU."""
    is_part = tensor.layout == torch.strided and tensor.untyped_storage().nbytes() > tensor.nbytes
    return tensor.clone() if is_part or not is_fake(tensor) else tensor


def _channels_last(tensor: Tensor) -> Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def _mean_of_logits(model: Callable[..., Any], batch: Batch, name: str) -> Tensor:
    """A loss for any model of transformers' kind, whatever it is trained for."""
    if not isinstance(batch, Mapping):
        raise UsageError(f"--loss mean wants a dict of arguments and batch() of {name} gave a {_kind(batch)}; drop it.")
    output = model(**{argument: value for argument, value in batch.items() if argument != "labels"})
    logits: Tensor | None = getattr(output, "logits", None)
    if logits is None:
        raise UsageError(f"--loss mean wants .logits and the model of {name} gives a {_kind(output)} without; drop it.")
    return logits.mean()


def _own_loss(model: Callable[..., Any], batch: Batch, name: str) -> Tensor:
    """The loss that a model gives with its output, as those of transformers do."""
    if not isinstance(batch, Mapping):
        raise UsageError(f"batch() of {name} gave a {_kind(batch)}; without loss= it must give a dict of arguments.")
    output = model(**batch)
    loss: Tensor | None = getattr(output, "loss", None)
    if loss is None:
        raise UsageError(
            f"the model of {name} gives a {_kind(output)} without a .loss; pass loss=, a function of model and batch."
        )
    return loss


def _require_one_number(loss: Any, argument: str) -> None:
    """Refuses what no backward pass can start from."""
    if not isinstance(loss, Tensor):
        raise UsageError(f"{argument} gave {_kind(loss)} as the loss; it must give a tensor with one number.")
    if loss.numel() != 1:
        raise UsageError(f"{argument} gave a loss of shape {tuple(loss.shape)}; give one number, such as its .mean().")
    if not loss.requires_grad:
        raise UsageError(
            f"{argument} gave a loss that no gradient can flow back from; compute it from the module's output, and not "
            "under no_grad or detached."
        )


def _kind(value: Any) -> str:
    return type(value).__name__.removeprefix("Fake")  # a prediction runs on tensors without contents


def is_compiled(model: nn.Module) -> bool:
    """Whether calling the model runs code of torch.compile; that of a part of it is not meant."""
    return hasattr(model, "_orig_mod") or getattr(model, "_compiled_call_impl", None) is not None


def runs_compiled_code(model: nn.Module) -> bool:
    """Whether the model, or any part of it, was compiled."""
    return any(map(is_compiled, model.modules()))


def compiled(model: nn.Module) -> Callable[..., Any]:
    """The model compiled as in a fresh process.

    Where a model of the same class was compiled before at another batch size, torch would compile this one for sizes
    that vary, into slower code. What else this process has compiled is then compiled anew when it is next called.
    """
    global _has_compiled
    if _has_compiled:
        torch.compiler.reset()
    _has_compiled = True
    return torch.compile(model)


def build_model(workload: Workload, recipe: Recipe) -> nn.Module:
    """Builds the model on torch's default device, with adapters if the recipe trains those."""
    with frozen_weights_as_loaded(recipe), blaming("build="):
        model = workload.build()
    if not isinstance(model, nn.Module):
        raise UsageError(f"build= gave {_kind(model)} and not a torch.nn.Module; have it return the model.")
    return add_adapters(model, recipe) if recipe.lora else model


def weights_dtype(model: nn.Module) -> str:
    """The type of the weights in a word, of most of them where they differ; empty where there are none."""
    counts: Counter[torch.dtype] = Counter()
    for parameter in model.parameters():
        counts[parameter.dtype] += parameter.numel()
    if not counts:
        return ""
    dtype = counts.most_common(1)[0][0]
    return SHORT_DTYPES.get(dtype, str(dtype).removeprefix("torch."))


def build_on(device: torch.device, workload: Workload, recipe: Recipe) -> nn.Module:
    """Builds the model with the device's own speed, and lays it out in memory as ``model.to(device)`` does.

    Initialising random weights takes seconds on a CPU and no time on a GPU, but leaves holes between them there,
    which a user's model, built on the CPU and moved, has not. So it goes through the host once.
    """
    with device:
        model = build_model(workload, recipe)
    if device.type == "cuda":
        model = model.cpu()
        torch.cuda.empty_cache()
    return model.to(device)


def prepare_model(model: nn.Module, recipe: Recipe) -> nn.Module:
    """Puts the model into the mode, memory format and checkpointing the recipe asks for."""
    model.train(recipe.train_mode)
    if recipe.attention != "auto":
        _choose_attention(model, recipe.attention)
    if recipe.gradient_checkpointing:
        enable = getattr(model, "gradient_checkpointing_enable", None)
        if enable is None or not getattr(model, "supports_gradient_checkpointing", True):
            raise UsageError(f"{name_of(model)} has no gradient checkpointing; drop --gradient-checkpointing.")
        enable()
        if recipe.lora and (let_gradients_in := getattr(model, "enable_input_require_grads", None)) is not None:
            let_gradients_in()  # else a block whose inputs and weights are all frozen would not be recomputed
    if recipe.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def _choose_attention(model: nn.Module, attention: str) -> None:
    """Sets it for the model and for its parts, some of which keep a config of their own."""

    def takes(module: Any) -> bool:
        try:
            module.set_attn_implementation(attention)
        except ValueError:  # transformers' answer for models that do not know it; for some it is only a warning
            return False
        return bool(module.config._attn_implementation == attention)

    choosing = [module for module in model.modules() if hasattr(module, "set_attn_implementation")]
    if not choosing:
        raise UsageError(f"{name_of(model)} has no choice of attention; drop --attention.")
    if not sum(map(takes, choosing)):
        raise UsageError(f"{name_of(model)} has no {attention} attention; drop --attention.")


@contextmanager
def matmul_precision(recipe: Recipe) -> Iterator[None]:
    """TF32 for the step if the recipe wants it, and what was set before put back after it."""
    if not recipe.tf32:
        yield
        return
    try:
        before, put_back = torch.get_float32_matmul_precision(), torch.set_float32_matmul_precision
        torch.set_float32_matmul_precision("high")
    except RuntimeError:  # the caller uses torch's newer setting, which does not go with this one
        matmul: Any = torch.backends.cuda.matmul
        before, put_back = matmul.fp32_precision, partial(setattr, matmul, "fp32_precision")
        matmul.fp32_precision = "tf32"
    try:
        yield
    finally:
        put_back(before)
