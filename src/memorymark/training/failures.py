"""Distinguishes out-of-memory errors and launch limits from crashes."""

from __future__ import annotations

import re

from memorymark.results.trial import Failure
from memorymark.units import GIB, KIB, MIB, format_bytes

# Messages of libraries that raise a plain RuntimeError for out of memory.
OUT_OF_MEMORY = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUDA driver error: out of memory",
    "Triton Error [CUDA]: out of memory",
    "Cuda failure 2 'out of memory'",
    "cudaErrorMemoryAllocation",
    "CUFFT_ALLOC_FAILED",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "HIP out of memory",
    "HIP error: out of memory",
    "hipErrorOutOfMemory",
    "HIPBLAS_STATUS_ALLOC_FAILED",
    "MIOPEN_STATUS_ALLOC_FAILED",
    "MPS backend out of memory",
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
)
# A grid or an index that outgrew what a kernel can address: more memory would not help.
LAUNCH_LIMIT = (
    "invalid configuration argument",
    "CUDA error: invalid argument",
    "invalid argument to exec",
    "canUse32BitIndexMath",
    "32-bit index",
    "int32 index",
    "INT_MAX",
    "exceeds the maximum grid size",
    "Tensor is too large",
)

# The allocators that report that the host is out of memory.
CPU_ALLOCATOR = "DefaultCPUAllocator"

# Batch norm cannot compute a variance of one value; two samples are enough.
TOO_FEW_SAMPLES = "Expected more than 1 value per channel when training"

_UNITS = {"bytes": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": 2**40}
_REQUESTED = re.compile(r"[Tt]ried to allocate ([\d.]+) (bytes|[KMGT]iB)")
_FREE = re.compile(r"of which ([\d.]+) (bytes|[KMG]iB) is free")
_ALLOWED = re.compile(r"([\d.]+) (bytes|[KMG]iB) allowed")
_ALLOCATED = re.compile(r"([\d.]+) (bytes|[KMG]iB) is allocated by PyTorch")
_CACHED = re.compile(r"([\d.]+) (bytes|[KMG]iB) is reserved by PyTorch but unallocated")


def classify(error: BaseException) -> Failure | None:
    """Returns the failure behind an exception; ``None`` for a crash, which no batch size explains."""
    import torch

    message = str(error).strip()
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(w in message for w in OUT_OF_MEMORY):
        return _out_of_memory(message)
    if isinstance(error, RuntimeError) and any(wording in message for wording in LAUNCH_LIMIT):
        return Failure("limit", f"a launch limit, not memory: {message.splitlines()[0]}")
    if isinstance(error, ValueError) and TOO_FEW_SAMPLES in message:
        return Failure("limit", "too few samples for batch norm, not memory")
    return None


def lacks_host_memory(error: BaseException) -> bool:
    """Tells whether the host, not a GPU, ran out of memory."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and CPU_ALLOCATOR in str(error))


def _out_of_memory(message: str) -> Failure:
    requested, free = _size(_REQUESTED, message), _free(message)
    if requested is None or free is None:
        return Failure("memory", message.splitlines()[0] if message else "out of memory", requested, free)
    said = f"out of memory: asked for {format_bytes(requested)} with {format_bytes(free)} free"
    return Failure("memory", said, requested, free)


def _free(message: str) -> int | None:
    """Returns what was still available: the device's free memory, or what a cap left if that is less."""
    free, allowed = _size(_FREE, message), _size(_ALLOWED, message)
    if free is None or allowed is None:
        return free
    held = (_size(_ALLOCATED, message) or 0) + (_size(_CACHED, message) or 0)
    return min(free, max(allowed - held, 0))


def _size(pattern: re.Pattern[str], message: str) -> int | None:
    found = pattern.search(message)
    return int(float(found[1]) * _UNITS[found[2]]) if found else None
