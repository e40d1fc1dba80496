"""Runs a training step on fake tensors and records every operation with the memory that it allocates and frees.

Fake tensors have shapes but no data, so a step of any size takes about a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensor, FakeTensorMode
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from memorymark.devices.allocations import Phase
from memorymark.devices.host_memory import runs_on_host
from memorymark.devices.storages import StorageNumbers, local_part
from memorymark.errors import CannotPredictError
from memorymark.prediction.tracing import collectives
from memorymark.prediction.tracing.layers import Rows
from memorymark.prediction.tracing.operation import (
    GATHERED,
    GRADIENTS_MEET,
    MODEL_RETURNS,
    PHASE_END,
    Operation,
    StepTrace,
    TensorFacts,
)
from memorymark.prediction.tracing.places import Places
from memorymark.prediction.tracing.quick_results import QuickResults
from memorymark.prediction.tracing.routing import Routing, assumed, chosen
from memorymark.prediction.tracing.shape_rules import SHAPE_RULES, fills_masked
from memorymark.prediction.tracing.values import Origin, is_uniform, keep_values, known, origin_of, run_on_values
from memorymark.training import quantized_layers
from memorymark.training.outputs import tensors_inside

TRACED = ("aten", "prims", quantized_layers.NAMESPACE, "fsdp", *collectives.NAMESPACES)
_ASKS_FOR_A_VALUE = {
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.item.default,
    torch.ops.aten.is_nonzero.default,
    torch.ops.aten.equal.default,
}
# Their results have the size of their input, and nothing of its values.
_TAKES_SIZES = {
    torch.ops.aten.zeros_like.default,
    torch.ops.aten.ones_like.default,
    torch.ops.aten.full_like.default,
    torch.ops.aten.new_zeros.default,
    torch.ops.aten.new_ones.default,
    torch.ops.aten.new_full.default,
}


class Tracer(TorchDispatchMode):
    """Records operations into ``trace`` while one is set.

    ``routed`` says that sizes or values depended on the assumed ``routing`` of tokens to experts. ``layers_group`` is
    the name of the process group of GPUs that share layers. A step that ``is_own`` is the caller's, who may read
    numbers such as the loss outside of a module's forward pass; so may an ``own_loss``. ``rows`` are those of the model
    that run shortened. ``places`` says in which module operations run, once it is set.
    """

    def __init__(
        self,
        fake_mode: FakeTensorMode,
        routing: Routing = "even",
        *,
        is_own: bool = False,
        own_loss: bool = False,
        rows: Rows | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.trace: StepTrace | None = None
        self.places: Places | None = None
        self.routed = False
        self.layers_group = ""
        self._routing: Routing = routing
        self._fake_mode = fake_mode
        self._rows = rows
        self._freed: list[int] = []
        self._numbers = StorageNumbers(self._freed.append)
        self._on_host: set[int] = set()
        self._in_backward = self._in_optimizer = False
        self._is_own, self._own_loss, self._between = is_own, own_loss, False
        self._forwards = 0
        self._checks_pass = False
        self._streams = Streams()
        self._results = QuickResults(fake_mode)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Returns True: nothing is compiled here, and checking that for every operation takes time."""
        return False

    def start(self) -> StepTrace:
        """Begins a new trace."""
        self.trace, self._between = StepTrace(is_own=self._is_own), False
        self._freed.clear()
        return self.trace

    def mark(self, phase: Phase) -> None:
        """Marks the end of a phase."""
        assert self.trace is not None  # noqa: S101 - marks come from a traced step
        self._write(PHASE_END, (), (), (), ())
        self._in_backward, self._in_optimizer = phase == "forward", phase == "backward" and not self._is_own
        self._between = phase not in ("forward", "backward")
        self.trace.marks.append((phase, len(self.trace.operations)))

    def note_outputs(self, outputs: Any) -> None:
        """Notes what a forward pass of the model returned."""
        if self.trace is not None:
            facts = tuple(self._facts(tensor) for tensor in tensors_inside(outputs))
            self._write(MODEL_RETURNS, facts, (), (), ())

    @contextmanager
    def seeing_forwards(self) -> Iterator[None]:
        """Notes which operations belong to the forward pass of a module."""

        def begins(*_: Any) -> None:
            self._forwards += 1

        def ends(*_: Any) -> None:
            self._forwards -= 1

        hooks = [
            register_module_forward_pre_hook(begins),
            register_module_forward_hook(ends, always_call=True),
        ]
        try:
            yield
        finally:
            self._forwards = 0
            for hook in hooks:
                hook.remove()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Records nothing of what runs inside, such as what the host prepares."""
        trace, self.trace = self.trace, None
        try:
            yield
        finally:
            self.trace = trace

    @contextmanager
    def updating(self) -> Iterator[None]:
        """Notes the operations inside as an optimizer's, if they run before the optimizer's phase."""
        trace, in_backward = self.trace, self._in_backward
        if trace is None or self._in_optimizer:
            yield
            return
        start = len(trace.operations)
        self._in_backward, self._in_optimizer = False, True
        yield
        self._in_backward, self._in_optimizer = in_backward, False
        trace.updates.append((start, len(trace.operations)))

    @property
    def next_number(self) -> int:
        """The first number that no storage has."""
        return self._numbers.next

    @contextmanager
    def passing_checks(self) -> Iterator[None]:
        """Takes conditions inside to hold, such as that boxes have a right and a left side."""
        before, self._checks_pass = self._checks_pass, True
        yield
        self._checks_pass = before

    def number_of(self, tensor: Tensor) -> int:
        """Returns the number of a tensor's memory, a new one if it was not seen before."""
        return self._numbers.number(local_part(tensor).untyped_storage())

    def refilled(self, tensor: Tensor) -> None:
        """Notes that a tensor's storage, which was empty, got its memory again."""
        self._numbers.forget(tensor.untyped_storage())
        if self.trace is not None:
            fact = self._facts(tensor)
            self._write(GATHERED, (), (fact,), (), ((fact.storage, tensor.untyped_storage().nbytes()),))

    def emptied(self, tensor: Tensor) -> None:
        """Notes that a tensor's storage gave its memory back."""
        self._numbers.forget(tensor.untyped_storage())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operation on fake tensors, and on their values if known."""
        if func is torch.ops.prim.device.default and isinstance(args[0], FakeTensor):
            return args[0].device  # asked for several times by each operation
        if collectives.is_shared(types):
            return NotImplemented  # it calls this again with what this process holds
        kwargs = kwargs or {}
        if func.namespace not in TRACED:
            return func(*args, **kwargs)
        inputs = _tensors((args, kwargs))
        if func in _ASKS_FOR_A_VALUE:
            return self._value_asked_for(func, args, kwargs, inputs)
        facts = tuple(self._facts(tensor) for tensor in inputs)  # before it runs, which may change them
        first_new = self._numbers.next
        result = self._run(func, args, kwargs, inputs)
        outputs = _tensors(result)
        if self.trace is not None and any(tensor.dim() for tensor in (*inputs, *outputs)):
            made_facts = tuple(self._facts(tensor) for tensor in outputs)
            made = _made(func, inputs, outputs, made_facts, first_new)
            on_host = runs_on_host(func, on_host=any(one.storage in self._on_host for one in facts))
            if on_host:
                self._on_host.update(number for number, _ in made)
            self._write(self._name(func, args), facts, made_facts, _arguments(args, kwargs), made, on_host=on_host)
        return result

    def _value_asked_for(self, func: Any, args: Any, kwargs: Any, inputs: list[Tensor]) -> Any:
        """Returns the value that Python code reads from a tensor, if it is known without a run."""
        value = run_on_values(func, args, kwargs, inputs, [])
        if value is not None:
            self._note_origin(origin_of(inputs))
            return value
        if getattr(inputs[0], "_memorymark_holds", False):
            return True
        if func is torch.ops.aten.equal.default and all(tensor.is_floating_point() for tensor in inputs):
            return self._place(inputs[0]) == self._place(inputs[1])  # what is computed apart is not the same by chance
        if self._checks_pass and inputs[0].dtype == torch.bool:
            return True
        if self._in_optimizer:
            return 1.0  # a factor in an update, which takes the same memory for any value
        if not self._forwards and (assumed_value := self._outside_of_modules(inputs[0])) is not None:
            return assumed_value
        raise CannotPredictError(
            "the model reads a value (.item(), a branch on a tensor) that only a run knows; measure it on a GPU."
        )

    def _place(self, tensor: Tensor) -> tuple[object, ...]:
        return self.number_of(tensor), tensor.shape, tensor.stride(), tensor.storage_offset()

    def _outside_of_modules(self, tensor: Tensor) -> float | bool | None:
        """Returns what a caller's own code reads, if it takes the same memory for any value: a loss to print, say.

        A count may be a size, except in an evaluation, where it counts right answers. Flags, such as those of overflows
        and of first steps, are assumed to be false.
        """
        whole = self._is_own or self._between
        if tensor.is_floating_point():
            return 1.0 if whole or self._own_loss else None
        if tensor.dtype == torch.bool:
            return False if whole else None
        return 1 if self._between else None

    def _run(self, func: Any, args: Any, kwargs: Any, inputs: list[Tensor]) -> Any:
        """Returns the fake result, with its real values if known."""
        origin = Origin.CERTAIN if func in _TAKES_SIZES else origin_of(inputs)
        try:
            result = self._results.of(SHAPE_RULES.get(func, func), self._without_masks(func, args), kwargs)
        except DynamicOutputShapeException:
            value = run_on_values(func, args, kwargs, inputs, [])
            if value is None or (origin is Origin.RANDOM and not all(is_uniform(tensor) for tensor in inputs)):
                raise _size_unknown(func) from None
            self._note_origin(origin)
            with self._fake_mode:
                result = tree_map_only(Tensor, lambda real: torch.empty_like(real, device="cpu"), value)
        else:
            value = run_on_values(func, args, kwargs, inputs, _tensors(result))
        if value is None and func is torch.ops.aten.all.default and getattr(inputs[0], "_memorymark_holds", False):
            with torch._C._DisableTorchDispatch():
                value = torch.tensor(True)
        if value is not None:
            keep_values(result, value, Origin.RANDOM if torch.Tag.nondeterministic_seeded in func.tags else origin)
        elif (choices := chosen(func, inputs, result)) is not None:
            with torch._C._DisableTorchDispatch():
                keep_values(choices, assumed(choices, inputs[0], self._routing), Origin.ROUTED)
        return result

    def _note_origin(self, origin: Origin) -> None:
        self.routed = self.routed or origin is Origin.ROUTED

    def _without_masks(self, func: Any, args: Any) -> Any:
        """Replaces known boolean masks in an indexing operation by their indices, as the device does."""
        if not func.name().startswith("aten::index") or len(args) < 2 or not isinstance(args[1], (list, tuple)):
            return args
        if fills_masked(func, args):
            return (args[0], self._indices(args[1][0], 1), *args[2:])
        indices: list[Any] = []
        for index in args[1]:
            real = known(index) if isinstance(index, Tensor) else None
            if real is None and self._checks_pass and isinstance(index, Tensor) and index.dtype == torch.bool:
                indices += self._indices(index, index.numel())
                continue
            if real is None or real.dtype not in (torch.bool, torch.uint8):
                indices.append(index)
                continue
            origin = origin_of([index])
            if origin is Origin.RANDOM and not is_uniform(index):
                raise _size_unknown(func)
            self._note_origin(origin)
            with torch._C._DisableTorchDispatch():
                count = int(real.count_nonzero())
            indices += self._indices(real, count)
        return (args[0], indices, *args[2:])

    def _indices(self, mask: Tensor, count: int) -> list[Tensor]:
        with self._fake_mode:
            return [torch.empty(count, dtype=torch.long, device="cpu") for _ in range(mask.dim())]

    def _name(self, func: Any, args: tuple[Any, ...]) -> str:
        if func.namespace in collectives.NAMESPACES:
            return collectives.name_of(func, args, self.layers_group)
        meeting = func is torch.ops.aten.add.Tensor and self._in_backward and not torch.is_grad_enabled()
        return GRADIENTS_MEET if meeting else str(func)

    def _write(self, name: str, inputs: Any, outputs: Any, arguments: Any, made: Any, *, on_host: bool = False) -> None:
        assert self.trace is not None  # noqa: S101 - checked by the caller
        eager, freed, stream = torch.is_grad_enabled(), tuple(self._freed), self._streams.now()
        module = self.places.now() if self.places is not None else ""
        self.trace.operations.append(
            Operation(name, inputs, outputs, arguments, freed, made, eager, on_host, stream, module)
        )
        self.trace.blocks.append(self._rows.block_now() if self._rows is not None else None)
        self._freed.clear()

    def _facts(self, tensor: Tensor) -> TensorFacts:
        contiguous = tensor.is_contiguous()
        channels_last = not contiguous and tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
        return TensorFacts(tuple(tensor.shape), tensor.dtype, self.number_of(tensor), contiguous, channels_last)


class Streams:
    """Numbers torch's streams as they are seen; 0 is the usual one."""

    def __init__(self) -> None:
        self._seen: list[object] = [torch.cpu.current_stream()]

    def now(self) -> int:
        """Returns the number of the current stream."""
        stream = torch.cpu.current_stream()
        for number, seen in enumerate(self._seen):
            if seen is stream:
                return number
        self._seen.append(stream)
        return len(self._seen) - 1


def _made(
    func: Any, inputs: list[Tensor], outputs: list[Tensor], facts: Sequence[TensorFacts], first_new: int
) -> tuple[tuple[int, int], ...]:
    """Returns the storages that an operation allocated and their bytes; new ones are numbered from ``first_new``."""
    made = {
        fact.storage: tensor.untyped_storage().nbytes()
        for fact, tensor in zip(facts, outputs, strict=True)
        if fact.storage >= first_new and tensor.dim() > 0 and not _looks_at_the_script_s(func, inputs)
    }
    asks_for_mask_first = func is torch.ops.aten.native_dropout.default
    return tuple(reversed(made.items())) if asks_for_mask_first else tuple(made.items())


def _arguments(args: Any, kwargs: Any) -> tuple[Any, ...]:
    """Returns the numbers among an operation's arguments.

    Leaves out the scale of attention's scores, which looks like the dropout probability.
    """
    given = (args, [value for name, value in kwargs.items() if name != "scale"])
    return tuple([leaf for leaf in _leaves(given) if leaf is None or isinstance(leaf, (bool, int, float))])


def _leaves(tree: Sequence[Any]) -> Iterator[Any]:
    for part in tree:
        if type(part) in (list, tuple):
            yield from _leaves(part)
        else:
            yield part


def _looks_at_the_script_s(func: Any, inputs: list[Tensor]) -> bool:
    """Tells whether it returns a view of an older tensor, such as a data set on the host; constants are copied."""
    is_constant = func is torch.ops.aten.lift_fresh.default
    return func.is_view and not is_constant and any(not isinstance(tensor, FakeTensor) for tensor in inputs)


def _tensors(tree: Any) -> list[Tensor]:
    """Returns the tensors among an operation's arguments or results: tensors, numbers, and lists of them."""
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, dict):
        tree = tree.values()
    elif not isinstance(tree, (list, tuple)):
        return []
    return [tensor for part in tree for tensor in _tensors(part)]


def _size_unknown(func: Any) -> CannotPredictError:
    return CannotPredictError(
        f"the size of {func}'s result depends on values that only a run knows; measure it on a GPU."
    )
