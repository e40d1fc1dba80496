import pytest
import torch

from memorymark.training.failures import classify
from memorymark.units import GIB, MIB

CAPPED = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which 118.00 GiB "
    "is free. Including non-PyTorch memory, this process has 21.78 GiB memory in use. 21.70 GiB allowed; Of the "
    "allocated memory 20.50 GiB is allocated by PyTorch, and 500.00 MiB is reserved by PyTorch but unallocated. If "
    "reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
    "fragmentation."
)
WHOLE_GPU = (
    "CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity of 21.99 GiB of which 45.38 MiB is "
    "free. Process 4711 has 3.00 GiB memory in use. Including non-PyTorch memory, this process has 18.94 GiB memory "
    "in use. Of the allocated memory 17.90 GiB is allocated by PyTorch, and 760.00 MiB is reserved by PyTorch but "
    "unallocated."
)
CROWDED = CAPPED.replace("118.00 GiB is free", "12.50 MiB is free")
FULL_CAP = CAPPED.replace("20.50 GiB is allocated", "21.60 GiB is allocated")
TRACKED = "out of memory. Tried to allocate 4096 bytes, of which 1024 bytes is free under the cap of 512.00 MiB."


@pytest.mark.parametrize(
    ("message", "requested", "free"),
    [
        pytest.param(CAPPED, 2 * GIB, 21.70 * GIB - 20.50 * GIB - 500 * MIB, id="what the cap leaves"),
        pytest.param(CROWDED, 2 * GIB, 12.50 * MIB, id="less on the device than under the cap"),
        pytest.param(FULL_CAP, 2 * GIB, 0, id="nothing left under the cap"),
        pytest.param(WHOLE_GPU, 96 * MIB, 45.38 * MIB, id="no cap"),
        pytest.param(TRACKED, 4096, 1024, id="bytes"),
    ],
)
def test_out_of_memory_says_what_was_asked_for_and_what_was_free(message, requested, free):
    failure = classify(torch.OutOfMemoryError(message))

    assert failure.kind == "memory"
    assert failure.requested_bytes == requested
    assert failure.free_bytes == pytest.approx(free, abs=2)
    assert failure.shortfall_bytes == pytest.approx(requested - free, abs=2)


def test_too_few_samples_for_batch_norm_are_a_limit():
    with pytest.raises(ValueError, match="more than 1 value") as caught:
        torch.nn.BatchNorm1d(4)(torch.rand(1, 4))

    assert classify(caught.value).kind == "limit"
    assert classify(ValueError("expected something else")) is None


def test_a_failure_caused_by_fragmentation_has_no_shortfall():
    roomy = WHOLE_GPU.replace("45.38 MiB is free", "1.00 GiB is free")

    assert classify(torch.OutOfMemoryError(roomy)).shortfall_bytes == 0


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported."),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("CUDA driver error: out of memory"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
        RuntimeError("ncclUnhandledCudaError\nLast error:\nCuda failure 2 'out of memory'"),
        RuntimeError("cuFFT error: CUFFT_ALLOC_FAILED"),
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
        RuntimeError("HIP error: out of memory"),
        RuntimeError("CUDA error: HIPBLAS_STATUS_ALLOC_FAILED when calling `hipblasCreate(handle)`"),
        RuntimeError("HIP out of memory. Tried to allocate"),
        RuntimeError("MPS backend out of memory (MPS allocated: 17.00 GB, other allocations: 1.00 GB)."),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory"),
        torch.OutOfMemoryError(""),
        MemoryError(),
    ],
    ids=str,
)
def test_other_wordings_and_types_are_memory_with_unknown_sizes_and_a_message_of_one_line(error):
    failure = classify(error)

    assert failure.kind == "memory"
    assert failure.shortfall_bytes is None
    assert len(failure.message.splitlines()) == 1


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: invalid configuration argument\nCUDA kernel errors might be asynchronously reported.",
        "Expected canUse32BitIndexMath(input) && canUse32BitIndexMath(output) to be true, but got false.",
        "upsample_nearest2d only supports output tensors with less than INT_MAX elements, but got [65536, 3, 224]",
    ],
)
def test_launch_limits_are_limits_and_not_memory(message):
    failure = classify(RuntimeError(message))

    assert failure.kind == "limit"
    assert failure.shortfall_bytes is None
    assert failure.message.endswith(message.splitlines()[0])


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"),
        RuntimeError("CUDA error: device-side assert triggered"),
        RuntimeError("CUDA error: unspecified launch failure"),
        RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (16x768 and 512x2)"),
        RuntimeError(""),
        ValueError("Expected input batch_size (16) to match target batch_size (8)."),
        ValueError("the index must be below INT_MAX"),
        KeyError("memory"),
        KeyboardInterrupt(),
    ],
    ids=repr,
)
def test_crashes_are_no_failures_of_the_batch_size(error):
    assert classify(error) is None
