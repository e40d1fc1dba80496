"""Batches of images and videos with what is to be found in them. Worker side: imports torch.

Images are assumed to show one object each; matching it with a query takes the same memory whichever query it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memorymark.models.image_inputs import channels_of, image_inputs, patch_side
from memorymark.models.maker import Maker

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from memorymark.training.workload import Batch

FRAMES = 16
OBJECTS = 1


def pixels(maker: Maker) -> Tensor:
    """Returns images, and nothing else."""
    return maker.values(maker.size, channels_of(maker.config), maker.shape.pixels, maker.shape.pixels)


def seen(maker: Maker) -> Batch:
    """Makes images in the form that the model takes, without labels."""
    if "spatial_shapes" in maker.arguments:
        return image_inputs(maker)
    if "pixel_values" not in maker.arguments and "input_ids" in maker.arguments:  # the clusters of its pixels' colors
        return {"input_ids": maker.words(maker.size, int(maker.config.n_positions))}
    if "pixel_values" not in maker.arguments:
        return {"pixel_values_videos": _videos(maker)}
    return {"pixel_values": pixels(maker)}


def images(maker: Maker) -> Batch:
    """Makes images with a class each."""
    return {**seen(maker), "labels": maker.classes(maker.size)}


def segmented_images(maker: Maker) -> Batch:
    """Makes images with a class for each pixel."""
    side = maker.shape.pixels
    return {"pixel_values": pixels(maker), "labels": maker.classes(maker.size, side, side)}


def measured_images(maker: Maker) -> Batch:
    """Makes images with a depth for each pixel."""
    side = maker.shape.pixels
    batch = {"pixel_values": pixels(maker), "labels": maker.values(maker.size, side, side)}
    if "prompt_depth" in maker.arguments:
        batch["prompt_depth"] = maker.values(maker.size, 1, side // 4, side // 4)
    return batch


def images_with_objects(maker: Maker) -> Batch:
    """Makes images with the boxes of objects, and their masks where a model learns these too."""
    labels = [_objects(maker) for _ in range(maker.size)]
    if "mask_labels" in maker.arguments:
        name = "pixel_values_videos" if "pixel_values_videos" in maker.arguments else "pixel_values"
        batch: Batch = {
            name: _videos(maker) if name != "pixel_values" else pixels(maker),
            "mask_labels": [label["masks"] for label in labels],
            "class_labels": [label["class_labels"] for label in labels],
        }
        if "task_inputs" in maker.arguments:
            length = int(maker.config.task_seq_len)
            batch |= {
                "task_inputs": maker.ones(maker.size, length),
                "text_inputs": maker.ones(maker.size, int(maker.config.num_queries), length),
            }
        return batch
    return {"pixel_values": pixels(maker), "labels": labels}


def _objects(maker: Maker) -> dict[str, Tensor]:
    import torch

    side = maker.shape.pixels
    return {
        "class_labels": torch.zeros(OBJECTS, dtype=torch.long, device=maker.device),
        "boxes": torch.full((OBJECTS, 4), 0.5, device=maker.device),
        "masks": torch.ones(OBJECTS, side, side, device=maker.device),
        "orig_size": torch.tensor([side, side], device=maker.device),
    }


def videos(maker: Maker) -> Batch:
    """Makes videos with a class each."""
    name = "pixel_values_videos" if "pixel_values_videos" in maker.arguments else "pixel_values"
    return {name: _videos(maker), "labels": maker.classes(maker.size)}


def _videos(maker: Maker) -> Tensor:
    config, side = maker.config, maker.shape.pixels
    given = (getattr(config, name, None) for name in ("num_frames", "frames_per_clip"))
    frames = next((count for count in given if isinstance(count, int)), FRAMES)
    return maker.values(maker.size, frames, channels_of(config), side, side)


def masked_images(maker: Maker) -> Batch:
    """Makes images of which half of the patches are hidden."""
    side = maker.shape.pixels // patch_side(maker.config)
    hidden = maker.zeros(maker.size, side * side).bool()
    hidden[:, ::2] = True
    return {"pixel_values": pixels(maker), "bool_masked_pos": hidden}


def questions_about_images(maker: Maker) -> Batch:
    """Makes images with a question each; the answer is a class or a text."""
    config, size, length = maker.config, maker.size, maker.shape.tokens
    writes = config.model_type != "vilt"
    return {
        "input_ids": maker.words(size, length),
        "attention_mask": maker.ones(size, length),
        "pixel_values": pixels(maker),
        "labels": maker.words(size, length) if writes else maker.values(size, config.num_labels),
    }


def depth_loss(model: Callable[..., Any], batch: Batch) -> Tensor:
    """Returns the mean distance of predicted and true depths; few models compute a loss of their own."""
    from torch.nn import functional

    depths = model(**{name: value for name, value in batch.items() if name != "labels"}).predicted_depth
    depths = depths.reshape(depths.shape[0], 1, *depths.shape[-2:])
    true = batch["labels"].unsqueeze(1)
    return functional.l1_loss(functional.interpolate(depths, true.shape[-2:], mode="bilinear"), true)
