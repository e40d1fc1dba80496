"""The models and GPUs MemoryMark knows by name, read from the data files beside this module."""

from memorymark.catalog.gpus import GpuEntry, Price, all_gpus, find_gpu, gpu_with_id, match_gpu
from memorymark.catalog.models import ModelEntry, all_models, find_model, known_model, some_models
from memorymark.catalog.own_gpu import own_gpu

__all__ = [
    "GpuEntry",
    "ModelEntry",
    "Price",
    "all_gpus",
    "all_models",
    "find_gpu",
    "find_model",
    "gpu_with_id",
    "known_model",
    "match_gpu",
    "own_gpu",
    "some_models",
]
