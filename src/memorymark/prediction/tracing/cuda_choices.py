"""Makes torch choose, for tensors labelled CPU, the operators that it would choose on a CUDA device.

Everything is registered with torch's dispatcher while the context manager is open and removed when it closes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from memorymark.errors import UsageError
from memorymark.prediction.tracing import cuda_recurrent
from memorymark.prediction.tracing.sharing import generation

aten = torch.ops.aten
_AUTOCAST_KEY = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

# torch.autocast("cuda"): these run in the lower precision ...
LOWER_PRECISION = (
    "_convolution.deprecated _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input "
    "conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm "
    "bmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell "
    "rnn_relu_cell _scaled_dot_product_flash_attention scaled_dot_product_attention"
).split()
# ... these in fp32 ...
FULL_PRECISION = (
    "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar "
    "pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim "
    "nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d "
    "hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss "
    "multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits "
    "dist pdist cdist renorm logsumexp upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d "
    "_upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d "
    "_upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa norm.Scalar "
    "norm.ScalarOpt_dim"
).split()
# ... these return fp32 unless a result type is given ...
FULL_PRECISION_RESULT = (
    "prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm "
    "linalg_matrix_norm.str_ord sum sum.dim_IntList"
).split()
# ... these in the widest type of their inputs ...
WIDEST_PRECISION = "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add".split()
# ... and this not at all.
REFUSED = "binary_cross_entropy"


@contextmanager
def cuda_choices(capability: tuple[int, int]) -> Iterator[None]:
    """Makes fake tensors use the operators of a GPU with this compute capability inside the context."""
    library = torch.library.Library("aten", "IMPL")
    cache = _WeightCache()
    clear_autocast_cache, is_autocast_enabled = torch.clear_autocast_cache, torch.is_autocast_enabled

    def is_enabled(device_type: str = "cpu") -> bool:
        """Without an argument, a model asks about CUDA; peft does."""
        return is_autocast_enabled(device_type)

    def clear_both() -> None:
        cache.clear()
        clear_autocast_cache()

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that kernels are replaced, as intended
            _register(library, capability, cache)
        torch.clear_autocast_cache = clear_both  # autocast calls it by this name when its outermost region ends
        torch.is_autocast_enabled = is_enabled
        yield
    finally:
        torch.clear_autocast_cache, torch.is_autocast_enabled = clear_autocast_cache, is_autocast_enabled
        library._destroy()


def _register(library: torch.library.Library, capability: tuple[int, int], cache: _WeightCache) -> None:
    library.impl("dropout", _dropout, "AutogradCPU")
    library.impl("scaled_dot_product_attention", _Attention(capability), "AutogradCPU")
    library.impl("softmax.int", _softmax(aten._softmax), "AutogradCPU")
    library.impl("log_softmax.int", _softmax(aten._log_softmax), "AutogradCPU")
    cuda_recurrent.register(library)
    for names, cast in (
        (LOWER_PRECISION, cache.to_lower_precision),
        (FULL_PRECISION, _to_full_precision),
        (FULL_PRECISION_RESULT, _asking_for_full_precision),
        (WIDEST_PRECISION, _to_widest),
    ):
        for name in names:
            operator = _operator(name)
            if operator is not None:
                library.impl(name, _autocast_kernel(operator, cast), "AutocastCPU")
    library.impl(REFUSED, _refused_loss, "AutocastCPU")
    for name in _left_alone():
        library.impl(name, torch.library.fallthrough_kernel, "AutocastCPU")


@cache
def _left_alone() -> list[str]:
    """Returns the operators that the CPU's autocast changes and CUDA's does not."""
    listed = {*LOWER_PRECISION, *FULL_PRECISION, *FULL_PRECISION_RESULT, *WIDEST_PRECISION, REFUSED}
    names = (name.removeprefix("aten::") for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return [name for name in names if name not in listed and has_kernel(f"aten::{name}", "AutocastCPU")]


def _operator(name: str) -> Any:
    packet, _, overload = name.partition(".")
    found = getattr(aten, packet, None)
    return getattr(found, overload or "default", None) if found is not None else None


def _autocast_kernel(operator: Any, cast: Callable[[Any], Any]) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST_KEY):
            args, kwargs = cast((args, kwargs))
            return operator(*args, **kwargs)

    return kernel


def _refused_loss(*args: Any, **kwargs: Any) -> Tensor:
    """Fails as on CUDA, unless the script has turned CUDA's autocast off in a region."""
    torch.autocast_increment_nesting()
    if torch.autocast_decrement_nesting() <= 1:
        raise UsageError(
            "CUDA's autocast refuses binary_cross_entropy (BCELoss), which is unsafe in half precision; use "
            "binary_cross_entropy_with_logits (BCEWithLogitsLoss) without the sigmoid.",
            code="bad_workload",
        )
    with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST_KEY):
        loss: Tensor = aten.binary_cross_entropy(*args, **kwargs)
    return loss


class _WeightCache:
    """Casts to the lower precision; a parameter is cast once for a forward pass, as autocast does."""

    def __init__(self) -> None:
        self._cast: dict[int, tuple[Tensor, Tensor]] = {}

    def to_lower_precision(self, args: Any) -> Any:
        dtype = torch.get_autocast_dtype("cpu")

        def cast(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point() or tensor.dtype in (dtype, torch.float64):
                return tensor
            cacheable = (
                tensor.is_leaf and tensor.requires_grad and tensor.dtype == torch.float32 and not tensor._is_view()
            )
            if not (cacheable and torch.is_autocast_cache_enabled()):
                return tensor.to(dtype)
            if id(tensor) not in self._cast:
                self._cast[id(tensor)] = (tensor, tensor.to(dtype))
            return self._cast[id(tensor)][1]

        return _map_backwards(cast, args)

    def clear(self) -> None:
        self._cast.clear()


def _to_full_precision(args: Any) -> Any:
    half = (torch.bfloat16, torch.float16)
    return _map_backwards(lambda tensor: tensor.float() if tensor.dtype in half else tensor, args)


def _asking_for_full_precision(args: Any) -> Any:
    positional, named = args
    tensor = positional[0]
    asked = named.get("dtype") or next((value for value in positional if isinstance(value, torch.dtype)), None)
    return args if asked or not _is_half(tensor) else (positional, {**named, "dtype": torch.float32})


def _map_backwards(cast: Callable[[Tensor], Tensor], args: Any) -> Any:
    """Casts the last argument first, in the order in which torch's compiled code allocates memory for them."""
    leaves, structure = tree_flatten(args)
    for index in reversed(range(len(leaves))):
        if isinstance(leaves[index], Tensor):
            leaves[index] = cast(leaves[index])
    return tree_unflatten(leaves, structure)


def _to_widest(args: Any) -> Any:
    dtypes = {leaf.dtype for leaf in tree_leaves(args) if isinstance(leaf, Tensor)}
    return _to_full_precision(args) if torch.float32 in dtypes else args


def _dropout(tensor: Tensor, probability: float, train: bool) -> Tensor:
    if not train or probability == 0 or tensor.numel() == 0:
        return tensor
    return torch.native_dropout(tensor, probability, train)[0]


def _softmax(kernel: Any) -> Callable[..., Tensor]:
    """Wraps softmax: CUDA's kernels read half precision and write fp32, while others first copy the input."""

    def softmax(tensor: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
        widens = _is_half(tensor) and dtype == torch.float32
        if widens and tensor.dtype == torch.bfloat16:  # the shape rule supports only fp16
            widened: Tensor = _Widen.apply(tensor)  # type: ignore[no-untyped-call]
            return widened
        result: Tensor = kernel(tensor if dtype is None or widens else tensor.to(dtype), dim, widens)
        return result

    return softmax


class _Widen(torch.autograd.Function):
    """Takes the memory that a softmax from bf16 to fp32 takes: its result, kept for the backward pass, and its
    gradient.
    """

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        result = torch.empty_like(tensor, dtype=torch.float32)
        ctx.save_for_backward(result)
        ctx.dtype = tensor.dtype
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return torch.empty_like(gradient, dtype=ctx.dtype)


class _Attention:
    """Chooses the kernel of scaled_dot_product_attention on a GPU."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self._capability = capability

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        needs_gradient = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
        result: Tensor
        fused = query.shape[:-3] == key.shape[:-3] == value.shape[:-3]  # a single query for all samples is not
        if fused and self._cudnn_takes(query, key, value, attn_mask):
            result, *_ = aten._scaled_dot_product_cudnn_attention(
                query, key, value, _as_bias(attn_mask, query), needs_gradient, dropout_p, is_causal, False, scale=scale
            )
        elif fused and self._flash_takes(query, key, value, attn_mask, is_causal):
            width = query.shape[-1]
            padded = [torch.nn.functional.pad(t, (0, -width % 8)) if width % 8 else t for t in (query, key, value)]
            scale = scale or width**-0.5
            result, *_ = aten._scaled_dot_product_flash_attention(*padded, dropout_p, is_causal, False, scale=scale)
            result = result[..., :width] if width % 8 else result
        elif fused and self._efficient_takes(query, key, value, attn_mask):
            mask = _for_every_head(_as_bias(attn_mask, query), query, key)
            result, *_ = aten._scaled_dot_product_efficient_attention(
                query, key, value, mask, needs_gradient, dropout_p, is_causal, scale=scale
            )
        else:
            result, *_ = aten._scaled_dot_product_attention_math(
                query, key, value, _as_bias(attn_mask, query), dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
        return result

    def _cudnn_takes(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
        """torch prefers cuDNN's kernel on Hopper and on data center Blackwell."""
        return (
            generation(self._capability) == "cuDNN attention"
            and _is_half(query)
            and query.dim() == 4
            and query.shape[-1] % 8 == 0
            and query.shape[-1] == key.shape[-1] == value.shape[-1] <= 128
            and _is_straight(mask)
            and not (mask is not None and mask.requires_grad)
        )

    def _flash_takes(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool) -> bool:
        return (
            self._capability >= (8, 0)
            and _is_half(query)
            and query.dim() == 4
            and mask is None
            and query.shape[-1] == key.shape[-1] == value.shape[-1] <= 256
            and not (is_causal and query.shape[-2] != key.shape[-2])
        )

    def _efficient_takes(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
        if query.dtype == torch.bfloat16 and self._capability < (8, 0):
            return False
        alignment = 8 if _is_half(query) else 4
        aligned = query.shape[-1] % alignment == 0 and value.shape[-1] % alignment == 0
        same_heads = query.dim() == 4 and query.shape[1] == key.shape[1] == value.shape[1]
        return aligned and same_heads and _is_straight(mask)


def _is_half(tensor: Tensor) -> bool:
    return tensor.dtype in (torch.float16, torch.bfloat16)


def _is_straight(mask: Tensor | None) -> bool:
    """Tells whether a mask's rows are contiguous, as fused kernels want them; T5's permuted position bias is not."""
    return mask is None or mask.stride(-1) == 1 or mask.shape[-1] == 1


def _as_bias(mask: Tensor | None, query: Tensor) -> Tensor | None:
    """Turns a boolean mask into a bias to add."""
    if mask is not None and mask.dtype == torch.bool:
        return torch.where(mask, 0.0, float("-inf")).to(query.dtype)
    return mask


def _for_every_head(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """Returns the bias as the efficient kernel wants it: aligned and expanded to every head."""
    if mask is None:
        return None
    width = mask.shape[-1]
    if width % 8:
        mask = torch.nn.functional.pad(mask, (0, -width % 8))[..., :width]
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
