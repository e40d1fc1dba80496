"""What reports say about several GPUs."""

from __future__ import annotations

from memorymark.question.recipe import Recipe
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Trial
from memorymark.units import format_bytes

# What the strategies stand for here, where their names mean different things to different people.
MEANINGS = {
    "ddp": "DDP is torch's, with buckets beside the gradients; gradient_as_bucket_view=True would save the buckets.",
    "zero1": "ZeRO-1 is DDP with torch's ZeroRedundancyOptimizer, which deals out whole weights.",
    "zero2": "ZeRO-2 is FSDP2 that keeps gathered weights until the backward pass has used them.",
    "zero3": "ZeRO-3 is FSDP2, block by block.",
    "fsdp": "FSDP is FSDP2, block by block.",
    "hsdp": "HSDP is FSDP2 within a machine, with copies between machines.",
}
IN_LAYERS = (
    "Tensor parallelism is transformers' plan for the model, with torch's DTensor: {} GPUs share each layer and batch."
)


def several_notes(info: ProbeInfo, recipe: Recipe, trial: Trial | None) -> list[str]:
    """Says whose numbers they are, what a strategy stands for and what is assumed of links and NCCL."""
    if recipe.gpus == 1:
        return []
    if info.source == "measured":
        return [
            f"Measured as one of {recipe.gpus} ranks whose group sends nothing: batch and memory are those of each "
            "GPU, without what NCCL takes; the throughput is that of all, without the time to talk.",
            *_meanings(recipe),
        ]
    said = [
        f"Batch and memory are those of each of the {recipe.gpus} GPUs; throughput and money are of all.",
        *_meanings(recipe),
    ]
    if trial is not None and trial.scaling_efficiency is not None:
        talking = trial.communicating_seconds or 0.0
        hidden = ", most of it while they compute" if recipe.tensor_parallel == 1 else ""
        said.append(
            f"At batch {trial.batch_size}, a step of {_seconds(trial.step_seconds)} has {_seconds(talking)} of talking "
            f"to other GPUs{hidden}: {100 * trial.scaling_efficiency:.0f} % of the speed of as many GPUs that need not "
            "talk."
        )
    least, _, most = info.nccl_bytes
    said.append(
        f"Assumed, not measured: {' and '.join(info.links)} between GPUs; {format_bytes(least)} to "
        f"{format_bytes(most)} for NCCL ({info.nccl_source}). "
        "The interval of the speed reaches from fast links to slow ones that nothing hides."
    )
    return said


def _meanings(recipe: Recipe) -> list[str]:
    layers = [IN_LAYERS.format(recipe.tensor_parallel)] if recipe.tensor_parallel > 1 else []
    return layers + ([MEANINGS[recipe.strategy]] if recipe.used_strategy else [])


def _seconds(seconds: float | None) -> str:
    value = seconds or 0.0
    return f"{value:.3g} s" if value >= 1 else f"{1e3 * value:.3g} ms"
