"""What reports say about the completions that a model generates before it is trained on them."""

from __future__ import annotations

from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Trial
from memorymark.units import format_bytes


def generated_notes(info: ProbeInfo, *trials: Trial | None) -> list[str]:
    """Says what a sample is, what generation's cache takes in these trials, and what that assumes."""
    if not info.completions:
        return []
    sizes = {one.batch_size: one for one in trials if one is not None and one.kv_cache_bytes}
    taken = "; ".join(_at(trial) for _, trial in sorted(sizes.items()))
    return [
        f"A batch counts completions of {info.completion_tokens:,} tokens, each with its prompt; a prompt gets "
        f"{info.completions}.",
        f"Generating one keeps a KV cache of {format_bytes(info.kv_cache_bytes)}{f': {taken}' if taken else ''}.",
        "Assumed: the same GPU generates all completions of a step at once with transformers' generate(), whose cache "
        "is gone before training begins. Generation itself is not run: speed is that of the training step alone.",
    ]


def _at(trial: Trial) -> str:
    """Describes the cache at a batch, and whether it decides what the step needs."""
    decides = trial.generation_peak_bytes >= trial.peak_allocated_bytes
    versus = "more than training does" if decides else "less than training does"
    taken = f"{format_bytes(trial.kv_cache_bytes)} at batch {trial.batch_size}"
    return f"{taken}, with which generation holds {format_bytes(trial.generation_peak_bytes)}, {versus}"
