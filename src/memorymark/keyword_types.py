"""The options of a question as keywords of Python. Made by tools/generate_keywords.py: do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from memorymark.events import OnEvent


class RecipeOptions(TypedDict, total=False):
    """How it is trained."""

    gpus: int
    """GPUs that train together; the batch size is that of each."""
    nodes: int
    """Machines that the GPUs are in, as many in each."""
    strategy: Literal["auto", "ddp", "zero1", "zero2", "zero3", "fsdp", "hsdp"]
    """How several GPUs share the work: each has the whole model (ddp), or a part of its state; auto is ddp."""
    tensor_parallel: int
    """GPUs that share each layer, by transformers' plan for the model; the batch size is that of all of them."""
    precision: Literal["fp32", "bf16", "fp16"]
    """Autocast precision."""
    weights: Literal["auto", "fp32", "bf16", "fp16", "int8", "nf4"]
    """The type weights are kept in; auto: fp32 if they are trained, the autocast type if LoRA freezes them."""
    optimizer: Literal["adamw", "adam", "sgd", "adafactor", "lion", "muon", "adamw8bit", "paged-adamw8bit", "none"]
    """Optimizer."""
    fused: bool
    """Use the fused version of the optimizer: one kernel updates all weights."""
    optimizer_variant: Literal["auto", "foreach", "forloop"]
    """Update weights together (foreach) or one by one (forloop); auto is torch's choice."""
    optimizer_in_backward: bool
    """Update each parameter in the backward pass and free its gradient at once."""
    lora: int
    """Train LoRA adapters of this rank; 0 trains the model itself."""
    lora_targets: str
    """The layers that get adapters: all-linear, attention, or names as in peft, separated by commas."""
    lora_variant: Literal["lora", "dora", "rslora"]
    """The kind of adapter: plain LoRA, DoRA, or rank-stabilized LoRA."""
    gradient_checkpointing: Literal["none", "full", "selective"] | bool
    """Recompute activations in the backward pass: less memory, more time; selective: only the cheap ones."""
    offload: Literal["none", "activations", "optimizer"]
    """Keep activations in the host's memory, or run the optimizer there: less memory on the GPU, slower steps."""
    compile: bool
    """Run the model under torch.compile."""
    attention: Literal["auto", "eager", "sdpa", "flash"]
    """How transformers computes attention; auto is the model's default, mostly SDPA; flash is flash-attn."""
    tf32: bool
    """Use TF32 for fp32 matrix products."""
    channels_last: bool
    """Use the NHWC memory format, for image models."""
    accumulate: int
    """Batches per optimizer step."""
    eval_mode: bool
    """Train in evaluation mode: dropout off, as in the published table."""
    loss: Literal["model", "mean", "chunked"]
    """The model's own loss, the mean of its logits, or its own in chunks, which never hold all logits at once."""
    keep_outputs: bool
    """Keep the model's outputs until the next forward pass, as `outputs = model(**batch)` in a loop does."""
    allocator: Literal["default", "expandable"]
    """How torch's CUDA allocator works: expandable is PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."""


class TargetOptions(TypedDict, total=False):
    """Where it is trained."""

    device: str
    """Measure on this device: auto, cuda, cuda:N, mps or cpu. auto uses the local GPU, or predicts without one."""
    gpu: str | Path | Sequence[str] | Mapping[str, Any] | None
    """Predict for this GPU of the catalog; from a shell also for my_gpu.json, and analyze takes several: l4,a10."""
    profile: str | None
    """Correct predicted times by this profile of the GPU: a name, a file, or none; defaults to your own."""
    memory_gib: float | None
    """Limit the memory that the allocator may use, in GiB."""


class ModelOptions(TypedDict, total=False):
    """What is trained, and the shape of its samples."""

    task: str | None
    """What to train it for, such as causal-lm, sft, dpo or grpo; defaults to the model's usual task."""
    revision: str | None
    """Branch, tag or commit of a Hugging Face model."""
    trust_remote_code: bool
    """Run the code that comes with a Hugging Face model."""
    image_size: int | None
    """Height and width of an image, in pixels."""
    audio_seconds: int | None
    """Length of a recording, in seconds."""
    packed: bool
    """Fill rows of the sequence length with samples of varying length, which do not see each other."""
    mean_tokens: int | None
    """The mean length of the samples that are packed; defaults to a quarter of a row."""
    completions: int | None
    """The completions that GRPO generates for each prompt; defaults to 8."""
    completion_tokens: int | None
    """The tokens of a completion, part of the sequence length; defaults to half of it."""
    reference: Literal["auto", "kept", "precomputed", "none"]
    """The frozen model to compare with: kept beside the model, precomputed, or none; auto keeps one for DPO only."""
    small: bool | None
    """Use a stand-in with a few layers, or the full model; defaults to the stand-in on the CPU."""


class RunOptions(TypedDict, total=False):
    """How the work is done."""

    time_limit: float
    """Seconds after which one trial counts as hung."""
    on_event: OnEvent
    """Hears of every stage and trial."""


class ModuleOptions(TargetOptions, total=False):
    """What ``max_batch_size`` takes besides a module and its batches."""

    gpus: int
    """GPUs that train together; the batch size is that of each."""
    nodes: int
    """Machines that the GPUs are in, as many in each."""
    strategy: Literal["auto", "ddp", "zero1", "zero2", "zero3", "fsdp", "hsdp"]
    """How several GPUs share the work: each has the whole model (ddp), or a part of its state; auto is ddp."""
    tensor_parallel: int
    """GPUs that share each layer, by transformers' plan for the model; the batch size is that of all of them."""
    precision: Literal["fp32", "bf16", "fp16"]
    """Autocast precision."""
    weights: Literal["auto", "fp32", "bf16", "fp16", "int8", "nf4"]
    """The type weights are kept in; auto: fp32 if they are trained, the autocast type if LoRA freezes them."""
    fused: bool
    """Use the fused version of the optimizer: one kernel updates all weights."""
    optimizer_variant: Literal["auto", "foreach", "forloop"]
    """Update weights together (foreach) or one by one (forloop); auto is torch's choice."""
    optimizer_in_backward: bool
    """Update each parameter in the backward pass and free its gradient at once."""
    lora_targets: str
    """The layers that get adapters: all-linear, attention, or names as in peft, separated by commas."""
    lora_variant: Literal["lora", "dora", "rslora"]
    """The kind of adapter: plain LoRA, DoRA, or rank-stabilized LoRA."""
    gradient_checkpointing: Literal["none", "full", "selective"] | bool
    """Recompute activations in the backward pass: less memory, more time; selective: only the cheap ones."""
    offload: Literal["none", "activations", "optimizer"]
    """Keep activations in the host's memory, or run the optimizer there: less memory on the GPU, slower steps."""
    compile: bool
    """Run the model under torch.compile."""
    tf32: bool
    """Use TF32 for fp32 matrix products."""
    channels_last: bool
    """Use the NHWC memory format, for image models."""
    accumulate: int
    """Batches per optimizer step."""
    eval_mode: bool
    """Train in evaluation mode: dropout off, as in the published table."""
    keep_outputs: bool
    """Keep the model's outputs until the next forward pass, as `outputs = model(**batch)` in a loop does."""
    allocator: Literal["default", "expandable"]
    """How torch's CUDA allocator works: expandable is PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."""


class TrialOptions(ModelOptions, RecipeOptions, TargetOptions, RunOptions, total=False):
    """What ``predict`` and ``measure`` take besides the model and the batch size."""

    seq_len: int | None
    """Tokens per sequence."""


class AnalysisOptions(ModelOptions, RecipeOptions, TargetOptions, RunOptions, total=False):
    """What ``analyze`` and ``advise`` take besides the model and its lengths."""

    batch_size: int
    """The batch size you train with today."""
    max_batch: int | None
    """Do not try batch sizes above this one."""
    margin: float
    """Fraction of the memory to leave free."""
    price_per_hour: float | Sequence[float] | None
    """Dollars per GPU hour; defaults to the catalog's price."""
    prices: Mapping[str, float] | str | Path | None
    """Your own dollars per GPU hour, by GPU; other GPUs keep the catalog's price."""
    hours_per_run: float
    """Hours that one run takes today."""
    runs_per_year: float
    """Runs per person and year."""
    people: int
    """Number of people who train this much."""
    samples: int | None
    """Samples that a whole run trains on, all epochs together; shows its hours and its cost."""
    tokens: int | None
    """Tokens that a whole run trains on, all epochs together; shows its hours and its cost."""
