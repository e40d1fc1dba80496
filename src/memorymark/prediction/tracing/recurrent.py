"""The memory of cuDNN's recurrent layers: flat weights, a reserve for the backward pass, and workspaces.

cuDNN 9.19 on an NVIDIA H200 (torch 2.11, 2026-11-15) reported the sizes for 50,000 shapes; the formulas match each to
within 512 bytes. The choice of algorithm follows torch's source (ATen/native/cudnn/RNN.cpp).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from memorymark.catalog import GpuEntry
from memorymark.prediction.tracing.operation import Operation
from memorymark.units import MIB

FORWARD, BACKWARD = "aten._cudnn_rnn.default", "aten._cudnn_rnn_backward.default"
"""The names of the two operations in a trace."""


@dataclass(frozen=True)
class Cell:
    """A kind of recurrent cell, and how many buffers of the size of its state cuDNN keeps.

    ``gates`` counts matrices per layer, ``reserved`` the states kept for the backward pass. The pairs are for one
    direction and for two: buffers of a single time step in each pass, and in each pass of the persistent kernels.
    ``persistent_states`` counts what those kernels also keep in the backward pass, for every time step.
    """

    gates: int
    reserved: int
    forward_steps: tuple[int, int]
    backward_steps: tuple[int, int]
    persistent_forward_steps: tuple[int, int]
    persistent_backward_steps: tuple[int, int]
    persistent_states: int
    small_hidden: tuple[int, int]


_PLAIN = Cell(1, 1, (3, 10), (5, 14), (4, 10), (6, 14), 9, small_hidden=(384, 256))
_LSTM = Cell(4, 5, (10, 24), (11, 26), (8, 18), (12, 26), 12, small_hidden=(192, 128))
_GRU = Cell(3, 6, (5, 14), (5, 14), (4, 10), (6, 14), 14, small_hidden=(192, 128))
# By cuDNN's number of the mode; the first two are the plain cell with ReLU and with tanh.
CELLS = (_PLAIN, _PLAIN, _LSTM, _GRU)
LSTM_MODE, GRU_MODE = 2, 3

_FIXED_BYTES = 256
_STREAM_BYTES = 8 * MIB
_GATE_STEPS = 256
_LONG_SEQUENCE = 128
_PERSISTENT_ROWS = 2432


@dataclass(frozen=True)
class Recurrent:
    """One call of a recurrent layer: its cell, the sizes of its tensors, and how it is called."""

    mode: int
    dtype: torch.dtype
    length: int
    batch: int
    inputs: int
    hidden: int
    layers: int
    directions: int
    dropout: bool
    train: bool

    @classmethod
    def of(cls, op: Operation) -> Recurrent:
        """Reads the layer from a traced call, where time comes first."""
        numbers = [argument for argument in op.arguments if argument is not None]
        _, mode, hidden, _, layers, _, dropout, train, bidirectional = numbers[:9]
        length, batch, inputs = op.inputs[0].shape
        directions = 2 if bidirectional else 1
        drops = train and dropout > 0
        return cls(mode, op.inputs[0].dtype, length, batch, inputs, hidden, layers, directions, drops, train)

    @property
    def cell(self) -> Cell:
        """The kind of cell."""
        return CELLS[self.mode]

    @property
    def weight_elements(self) -> int:
        """The size of the flat weights, which have room for both biases even if the layer has none."""
        return self.matrix_elements + 2 * self.cell.gates * self.hidden * self.layers * self.directions

    @property
    def matrix_elements(self) -> int:
        """The size of all weights but the biases."""
        later = (self.layers - 1) * (self.directions + 1) * self.hidden
        return self.cell.gates * self.hidden * self.directions * (self.inputs + self.hidden + later)

    @property
    def reserve_bytes(self) -> int:
        """What the forward pass keeps for the backward pass: states, and one bit for each state under dropout."""
        if not self.train:
            return 0
        states = self.directions * (self.cell.reserved * self.layers + self.layers - 1)
        dropped = self.directions**2 * (self.layers - 1) * self._state * self.length // 8 if self.dropout else 0
        return states * self.length * self._state * self.dtype.itemsize + dropped + _FIXED_BYTES

    @property
    def _state(self) -> int:
        """The elements of one hidden state, of one layer and direction."""
        return self.batch * self.hidden

    def is_persistent(self, gpu: GpuEntry, *, backward: bool) -> bool:
        """Tells whether one kernel that keeps the weights on chip runs all time steps."""
        if self.dtype not in (torch.float32, torch.float16):
            return False  # torch requests it in bf16 too, but cuDNN has none
        return self._is_small(backward) or self._fills_the_gpu(gpu)

    def _is_small(self, backward: bool) -> bool:
        return self.hidden <= self.cell.small_hidden[backward]

    def _fills_the_gpu(self, gpu: GpuEntry) -> bool:
        return self.dtype == torch.float16 and self._suits_persistence and self._is_faster_persistent(gpu)

    @property
    def _suits_persistence(self) -> bool:
        whole = self.hidden % 128 == 0 and self.inputs % 128 == 0
        return whole and self.layers == self.directions == 1 and self.hidden <= 1024

    def _is_faster_persistent(self, gpu: GpuEntry) -> bool:
        """torch's rules of thumb, generation by generation."""
        if gpu.capability == (7, 0):
            fine = (self.batch % 16 == 0 and self.batch not in (80, 112)) or self.batch == 8
            limits = ((40, 128), (20, 96), (10, 32))
            return fine and any(self.length >= length and self.batch <= batch for length, batch in limits)
        if gpu.capability < (8, 0) or gpu.capability[1] == 6 or gpu.multiprocessors < 98 or self.mode == GRU_MODE:
            return False
        wide = self.mode != LSTM_MODE and self.batch >= 96 and self.hidden >= 896
        return self.batch % 8 == 0 and self.batch <= 128 and not wide

    def workspace_bytes(self, gpu: GpuEntry, *, backward: bool = False) -> int:
        """Returns the workspace of one pass. In training, both passes request what the larger one needs."""
        if not self.is_persistent(gpu, backward=backward):
            passes = [self._forward, self._backward]
        elif self._is_small(backward):
            passes = [self._persistent_forward, self._persistent_backward]
        else:
            # The kernel for wider layers has an extra buffer, which matters only for few samples and time steps.
            beyond = max(0, _PERSISTENT_ROWS + self.batch - 8 * self.length * self.batch) * self.hidden
            passes = [self._persistent_forward, self._persistent_backward + beyond]
        elements = max(passes) if self.train else passes[0]
        lengths = 2 * -(-4 * self.batch // 16) * 16
        fixed = _FIXED_BYTES + lengths + _STREAM_BYTES * self.layers * self.directions
        return fixed + (self.matrix_elements + elements) * self.dtype.itemsize

    @property
    def _forward(self) -> int:
        gates, steps = self.cell.gates, self.cell.forward_steps[self.directions - 1] * self.layers
        if self.directions == 2:
            return self._input + self._state * ((2 * gates + 6) * self.length + steps)
        states = (2 if self.dropout else 1) * self.length + gates * min(self.length, _GATE_STEPS)
        return self._input + self._state * (states + steps)

    @property
    def _backward(self) -> int:
        steps = self.cell.backward_steps[self.directions - 1] * self.layers
        if self.directions == 2:
            return self._both_directions + self._state * steps
        beyond = self.length * self.batch * max(self.inputs - self.hidden, 0)
        return 2 * self._input + beyond + self._state * (3 * self.length + self._steps_in_flight + steps)

    @property
    def _persistent_forward(self) -> int:
        gates, steps = self.cell.gates, self.cell.persistent_forward_steps[self.directions - 1] * self.layers
        states = 6 * gates + 6 if self.directions == 2 else 5 * gates + (2 if self.dropout else 1)
        return self._input + self._state * (states * self.length + steps)

    @property
    def _persistent_backward(self) -> int:
        steps = self.cell.persistent_backward_steps[self.directions - 1] * self.layers
        kept = self.cell.persistent_states * self.length
        if self.directions == 2:
            return self._both_directions + self._state * (kept + steps)
        states = (3 if self.layers == 1 else 4) * self.length
        widest = self.length * self.batch * max(self.hidden, self.inputs)
        return 2 * self._input + widest + self._state * (states + kept + steps)

    @property
    def _input(self) -> int:
        return self.length * self.batch * self.inputs

    @property
    def _both_directions(self) -> int:
        states = (6 if self.layers == 1 else 8) * self.length * self._state
        return 2 * self._input + states + 4 * self.length * self.batch * max(self.hidden, self.inputs)

    @property
    def _steps_in_flight(self) -> int:
        """How many time steps lie between layers that run one behind the other: fewer for larger batches."""
        if self.layers == 1:
            return self.length
        if self.batch <= 16 or self.length >= _LONG_SEQUENCE:
            apart = 32 if self.batch == 1 else 16 if self.batch <= 8 else 8
        else:
            apart = 4 if self.batch <= 64 else 2
        return min(self.length, apart * self.layers + max(apart, 8))


def workspace(op: Operation, gpu: GpuEntry) -> int:
    """Returns the scratch space of one of the two operations."""
    return Recurrent.of(op).workspace_bytes(gpu, backward=op.name == BACKWARD)


def drops_out(op: Operation) -> bool:
    """Tells whether an operation is a recurrent layer with dropout."""
    return op.name == FORWARD and Recurrent.of(op).dropout
