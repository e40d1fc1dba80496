"""A convolution, or its backward pass, read from a traced operation."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from memorymark.prediction.tracing.operation import Operation, TensorFacts


@dataclass(frozen=True)
class Convolution:
    """A convolution's tensors and settings; ``result`` is its output, or the output's gradient in the backward pass.

    ``gradients`` says whether a backward pass computes those of the image and of the weight.
    """

    image: TensorFacts
    weight: TensorFacts
    result: TensorFacts
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    transposed: bool
    backward: bool
    gradients: tuple[bool, bool] = (False, False)

    @classmethod
    def of(cls, op: Operation) -> Convolution:
        """Reads the convolution from an operation."""
        backward = op.name == "aten.convolution_backward.default"
        image, weight = (op.inputs[1], op.inputs[2]) if backward else (op.inputs[0], op.inputs[1])
        dims = len(image.shape) - 2
        start = 1 if backward or op.arguments[0] is None else 0  # after the bias, or its sizes
        # Some operators write the padding once, for every axis.
        end = next(index for index, argument in enumerate(op.arguments) if isinstance(argument, bool))
        padding = op.arguments[start + dims : end - dims]
        return cls(
            image=image,
            weight=weight,
            result=op.inputs[0] if backward else op.outputs[0],
            strides=tuple(op.arguments[start : start + dims]),
            padding=tuple(padding) * (dims // len(padding)),
            dilation=tuple(op.arguments[end - dims : end]),
            groups=int(op.arguments[-4] if backward else op.arguments[-1]),
            transposed=bool(op.arguments[end]),
            backward=backward,
            gradients=(bool(op.arguments[-3]), bool(op.arguments[-2])) if backward else (False, False),
        )

    @property
    def window(self) -> int:
        """How many places of the image each place of the result depends on."""
        return prod(self.weight.shape[2:])

    @property
    def places(self) -> int:
        """How many places the result has, over all samples."""
        return self.result.shape[0] * prod(self.result.shape[2:])

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel is convolved separately."""
        return self.groups > 1 and self.groups == self.image.shape[1]

    @property
    def is_patches(self) -> bool:
        """Whether it cuts the image into patches, as vision transformers do first: windows side by side."""
        return self.window > 1 and self.strides == self.weight.shape[2:] and not self.transposed and self.groups == 1

    def is_pointwise(self, alignment: int) -> bool:
        """Tells whether it is a matrix product in disguise, which needs no copies if rows are aligned."""
        return self.window == 1 and set(self.strides) == {1} and prod(self.image.shape[2:]) % alignment == 0
