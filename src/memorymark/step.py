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

from memorymark.eight_bit import StandInAdamW8bit
from memorymark.errors import UsageError
from memorymark.lora import add_adapters, frozen_weights_as_loaded
from memorymark.recipe import Recipe
from memorymark.storages import dense_parts
from memorymark.trace import Phase
from memorymark.workload import Batch, Workload, count_elements

OnPhase = Callable[[Phase], None]
AUTOCAST_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
SHORT_DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16", torch.float64: "fp64"}
LEARNING_RATE = 1e-5
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
        own = workload.optimizer if recipe.optimizer != "none" else None
        if own is not None and (recipe.optimizer != Recipe().optimizer or recipe.fused):
            raise UsageError(f"{workload.name} has an optimizer of its own; leave --optimizer and --fused out.")
        self.model = prepare_model(build_on(device, workload, recipe), recipe) if model is None else model
        self.optimizer = make_optimizer(self.model, recipe) if own is None else own(self.model)
        self._arrived = _whole if any(is_fake(parameter) for parameter in self.model.parameters()) else arrived
        self._largest_batch = (0, 0)
        self._scaler = self._new_scaler()
        self._forward: Callable[..., Any] = compiled(self.model) if recipe.compile else self.model
        self._came_with_state = self._has_optimizer_state = bool(self.optimizer and self.optimizer.state)

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
        if self.optimizer is not None and not self._has_optimizer_state:
            self.optimizer.state.clear()  # half of it may be missing, which the next step would trip over

    def start_over(self) -> None:
        """Forgets the steps so far: the next is a training's first. An optimizer that came with state keeps it."""
        self._has_optimizer_state = self._came_with_state
        self._largest_batch = (0, 0)
        self.recover()

    @property
    def own_optimizer(self) -> str:
        """The name of the workload's own optimizer; empty where the recipe's is used."""
        return type(self.optimizer).__name__ if self.workload.optimizer is not None and self.optimizer else ""

    def weights(self) -> Iterator[Tensor]:
        """Parameters and buffers."""
        yield from self.model.parameters()
        yield from self.model.buffers()

    def gradients(self) -> Iterator[Tensor]:
        """Gradients that exist now; of sparse ones what they are made of."""
        return (part for p in self.model.parameters() if p.grad is not None for part in dense_parts(p.grad))

    def optimizer_state(self) -> Iterator[Tensor]:
        """The optimizer's tensors on the device."""
        states = self.optimizer.state.values() if self.optimizer is not None else ()
        return (value for state in states for value in state.values() if isinstance(value, Tensor))

    def _new_scaler(self) -> torch.amp.GradScaler | None:
        if self.recipe.precision != "fp16":
            return None
        # From a scale of 1 no gradient of a random model overflows; an overflow would skip the optimizer's step and
        # leave its state out of what is measured.
        return torch.amp.GradScaler(self.device.type, init_scale=1.0)

    def _forward_and_backward(self, batch_size: int, on_phase: OnPhase) -> None:
        loss = self._loss(self._batch(batch_size))
        if self.recipe.accumulation_steps > 1:
            loss = loss / self.recipe.accumulation_steps
        on_phase("forward")
        (self._scaler.scale(loss) if self._scaler else loss).backward()
        on_phase("backward")

    def _update(self) -> None:
        if self.optimizer is None:
            self.model.zero_grad(set_to_none=True)
            return
        if self._scaler:
            self._scaler.step(self.optimizer)
            self._scaler.update()
        else:
            self.optimizer.step()
        self._has_optimizer_state = True
        self.optimizer.zero_grad(set_to_none=True)

    def _batch(self, batch_size: int) -> Batch:
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
        with self._autocast():
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


def _kind(value: Any) -> str:
    return type(value).__name__.removeprefix("Fake")  # a prediction runs on tensors without contents


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
    with frozen_weights_as_loaded(recipe):
        model = workload.build()
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
            raise UsageError(f"{type(model).__name__} has no gradient checkpointing; drop --gradient-checkpointing.")
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
        raise UsageError(f"{type(model).__name__} has no choice of attention; drop --attention.")
    if not sum(map(takes, choosing)):
        raise UsageError(f"{type(model).__name__} has no {attention} attention; drop --attention.")


def make_optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer | None:
    """The recipe's optimizer with torch's own defaults."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained and recipe.optimizer != "none":
        raise UsageError(f"{type(model).__name__} has no parameters that are trained; give one that has.")
    fused: dict[str, Any] = {"fused": True} if recipe.fused else {}
    if recipe.optimizer == "adamw":
        return torch.optim.AdamW(trained, lr=LEARNING_RATE, **fused)
    if recipe.optimizer == "adam":
        return torch.optim.Adam(trained, lr=LEARNING_RATE, **fused)
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(trained, lr=LEARNING_RATE, momentum=0.9, **fused)
    if recipe.optimizer == "adafactor":
        return torch.optim.Adafactor(trained, lr=LEARNING_RATE)
    if recipe.optimizer == "adamw8bit":
        return _adamw_8bit(trained)
    return None


def _adamw_8bit(trained: list[nn.Parameter]) -> torch.optim.Optimizer:
    if any(is_fake(parameter) for parameter in trained):
        return StandInAdamW8bit(trained, lr=LEARNING_RATE)
    try:
        from bitsandbytes.optim import AdamW8bit
    except ImportError:
        raise UsageError("8-bit AdamW needs bitsandbytes; run `pip install bitsandbytes`.") from None
    optimizer: torch.optim.Optimizer = AdamW8bit(trained, lr=LEARNING_RATE)
    return optimizer


def move_state(optimizer: torch.optim.Optimizer) -> None:
    """Moves the state that an optimizer already has to where its parameters are now; counters stay on the host."""
    for parameter, state in optimizer.state.items():
        for value in state.values():
            if isinstance(value, Tensor) and value.dim() > 0:
                value.data = value.data.to(parameter.device)


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
