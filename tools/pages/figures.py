"""The figures of docs/concepts.md."""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from typing import Any

from pages.recorded import GIB, Moment, recorded_step, timed_trials
from pages.svg import HEIGHT, TOP, Chart

# Points along a curve: as many as the eye can tell apart.
POINTS = 240
PARTS = {
    "weights_bytes": ("weights", "blue"),
    "optimizer_state_bytes": ("optimizer", "orange"),
    "gradients_bytes": ("gradients", "purple"),
    "activations_bytes": ("activations", "green"),
    "temporaries_bytes": ("other", "teal"),
}
CURVES = {
    "h200_resnet_bf16.json": ("ResNet-50, bf16", "green"),
    "h200_gpt2_fp32.json": ("GPT-2, fp32", "orange"),
    "h200_bert_fp32.json": ("BERT, fp32", "blue"),
}
TODAY = 16


def memory_of_a_step() -> Chart:
    """What tensors hold, request by request, through one step."""
    batch_size = 32
    step = recorded_step("bert", "fp32", batch_size)
    peak = max(total(moment) for moment in step.moments) / GIB
    resting = step.moments[0].resting_bytes / GIB
    gradients = max(moment.gradients_bytes for moment in step.moments) / GIB
    chart = Chart(
        f"One training step of BERT, batch {batch_size}, fp32, AdamW",
        f"In one training step of BERT at batch {batch_size}, tensors hold {resting:.1f} GiB before it begins, "
        f"{peak:.1f} GiB when the backward pass begins, and {gradients:.1f} GiB of gradients appear as it frees "
        "the activations.",
        top=4.2,
    )
    chart.axis(range(5), "GiB")
    chart.legend({"weights and optimizer": "blue", "gradients": "purple", "activations and the rest": "green"})
    last = len(step.moments) - 1
    layers: dict[str, Callable[[Moment], int]] = {
        "green": total,
        "purple": lambda moment: moment.resting_bytes + moment.gradients_bytes,
        "blue": lambda moment: moment.resting_bytes,
    }
    for color, height in layers.items():
        curve = [(chart.x(at / last), chart.y(value / GIB)) for at, value in thinned(step.moments, height)]
        floor = chart.y(0)
        chart.path([(chart.x(0), floor), *curve, (chart.x(1), floor)], f"area {color}", closed=True)
    ends = {"forward": (0, step.backward_at), "backward": (step.backward_at, step.update_at)}
    for name, (start, end) in {**ends, "update": (step.update_at, last)}.items():
        chart.text(chart.x((start + end) / 2 / last), HEIGHT - 26, name, "middle")
        if start:
            chart.line(chart.x(start / last), TOP, chart.x(start / last), chart.y(0), "mark dashed")
    chart.below("requests to the allocator, in order")
    return chart


def total(moment: Moment) -> int:
    return moment.resting_bytes + moment.gradients_bytes + moment.other_bytes


def thinned(moments: list[Moment], height: Callable[[Moment], int]) -> list[tuple[int, int]]:
    """The highest moment of each stretch, so that no peak is lost."""
    size = -(-len(moments) // POINTS)
    stretches = [range(start, min(start + size, len(moments))) for start in range(0, len(moments), size)]
    return [max(((at, height(moments[at])) for at in stretch), key=lambda point: point[1]) for stretch in stretches]


def parts_by_batch() -> Chart:
    """What training needs at its peak, by kind, against four times the weights."""
    trials = {trial["batch_size"]: trial for trial in timed_trials("h200_bert_fp32.json")}
    shown = [trials[size] for size in (8, 16, 32, 64, 128, 256)]
    weights = trials[128]["breakdown"]["weights_bytes"]
    times = trials[128]["peak_allocated_bytes"] / weights
    chart = Chart(
        "What BERT's tensors hold at the peak, fp32, AdamW",
        f"The weights of BERT take {weights / GIB:.2f} GiB at every batch size. At batch 128 a training step needs "
        f"{trials[128]['peak_allocated_bytes'] / GIB:.1f} GiB, {times:.0f} times as much, most of it activations.",
        top=22,
    )
    chart.axis(range(0, 21, 5), "GiB")
    chart.legend(dict(PARTS.values()))
    for index, trial in enumerate(shown):
        stack(chart, index, len(shown), [(trial["breakdown"][part], color) for part, (_, color) in PARTS.items()])
        label_column(chart, index, len(shown), trial)
    rule = chart.y(4 * weights / GIB)
    chart.line(chart.x(0), rule, chart.x(1), rule, "mark dashed")
    chart.text(chart.x(0) + 6, TOP + 8, f"dashed: 4 x weights, {4 * weights / GIB:.1f} GiB")
    chart.below("batch size")
    return chart


def allocated_reserved_device() -> Chart:
    """What tensors hold, what the allocator keeps and what the driver counts."""
    trials = {trial["batch_size"]: trial for trial in timed_trials("h200_resnet_bf16.json")}
    shown = [trials[size] for size in (16, 32, 64, 128, 256, 478)]
    slack = trials[256]["breakdown"]["allocator_slack_bytes"]
    more = slack / trials[256]["peak_allocated_bytes"]
    chart = Chart(
        "Allocated, reserved and device memory, ResNet-50, bf16",
        f"At batch 256 the tensors of ResNet-50 hold {trials[256]['peak_allocated_bytes'] / GIB:.1f} GiB, the "
        f"allocator keeps {slack / GIB:.1f} GiB more ({100 * more:.0f} %), and the CUDA context takes "
        f"{trials[256]['breakdown']['context_bytes'] / GIB:.1f} GiB on top.",
        top=24,
    )
    chart.axis(range(0, 21, 5), "GiB")
    chart.legend({"allocated": "green", "allocator slack": "olive", "CUDA context": "gray"})
    for index, trial in enumerate(shown):
        parts = trial["breakdown"]
        sizes = [(trial["peak_allocated_bytes"], "green"), (parts["allocator_slack_bytes"], "olive")]
        stack(chart, index, len(shown), [*sizes, (parts["context_bytes"], "gray")])
        label_column(chart, index, len(shown), trial)
    chart.below("batch size")
    return chart


def stack(chart: Chart, index: int, columns: int, sizes: list[tuple[int, str]]) -> None:
    """One column of parts, the first at the bottom."""
    left, right = chart.x((index + 0.18) / columns), chart.x((index + 0.82) / columns)
    base = 0.0
    for size, color in sizes:
        height = size / GIB
        chart.rectangle(left, chart.y(base + height), right - left, chart.y(base) - chart.y(base + height), color)
        base += height


def label_column(chart: Chart, index: int, columns: int, trial: dict[str, Any]) -> None:
    chart.text(chart.x((index + 0.5) / columns), HEIGHT - 26, str(trial["batch_size"]), "middle")


def speed_by_batch() -> Chart:
    """How much faster than at batch 16, by batch size."""
    curves = {name: speeds(name) for name in CURVES}
    bert = curves["h200_bert_fp32.json"]
    resnet = curves["h200_resnet_bf16.json"]
    chart = Chart(
        "Speed against batch 16, in samples per second",
        f"A batch 16 times as large (256 instead of {TODAY}) makes BERT in fp32 {bert[256]:.1f} times as fast and "
        f"ResNet-50 in bf16 {resnet[256]:.1f} times, not 16 times.",
        top=4.4,
    )
    chart.axis(range(5), "times")
    chart.legend(dict(CURVES.values()))
    highest = log2(512 / TODAY)
    for size in (16, 32, 64, 128, 256, 512):
        chart.text(chart.x(log2(size / TODAY) / highest), HEIGHT - 26, str(size), "middle")
    straight = [(chart.x(log2(ratio) / highest), chart.y(ratio)) for ratio in (1, 1.4, 2, 2.8, 4, 4.4)]
    chart.path(straight, "line mark dashed")
    chart.text(straight[-1][0] + 8, TOP + 8, "the ratio of the batches")
    for name, (_, color) in CURVES.items():
        points = [(chart.x(log2(size / TODAY) / highest), chart.y(speed)) for size, speed in curves[name].items()]
        chart.path(points, f"line {color}")
        for point in points:
            chart.dot(*point, color)
    chart.below("batch size")
    return chart


def speeds(name: str) -> dict[int, float]:
    """How many times as fast as batch 16 each larger batch is."""
    trials = {trial["batch_size"]: trial["samples_per_second"] for trial in timed_trials(name)}
    return {size: speed / trials[TODAY] for size, speed in trials.items() if size >= TODAY}


FIGURES = {
    "memory-of-a-step": memory_of_a_step,
    "parts-by-batch": parts_by_batch,
    "allocated-reserved-device": allocated_reserved_device,
    "speed-by-batch": speed_by_batch,
}
