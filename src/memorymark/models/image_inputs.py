"""The forms in which models of images and texts take an image. Worker side: imports torch.

Which form it is follows from the arguments of the forward pass: a grid beside patches, tiles, or an image as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memorymark.models.maker import Maker, image_config

if TYPE_CHECKING:
    from torch import Tensor

    from memorymark.training.workload import Batch

HIGH_RESOLUTION = 1024
# The parts for images that are told each image's size.
SIZED = ("pixtral", "lighton_ocr_vision", "emu3")
MOST_PATCHES = 256
PATCH = 16


def image_inputs(maker: Maker) -> Batch:
    """Returns the inputs of one image for each sample, without the text."""
    arguments = maker.arguments
    forms = {
        "image_grid_thw": _patches_with_grids,
        "spatial_shapes": _patches_with_shapes,
        "image_position_ids": _patches_with_positions,
        "target_sizes": _packed_patches,
        "flattened_patches": _flattened_patches,
        "image_patches": _listed_patches,
        "aspect_ratio_ids": _tiles_of_a_kind,
    }
    form = next((make for argument, make in forms.items() if argument in arguments), _pixels)
    return {name: value for name, value in form(maker).items() if name in arguments}


def _side(maker: Maker, patch: int, merge: int) -> int:
    """Returns how many patches a side of the image has: as many as can be merged."""
    return max(maker.shape.pixels // patch // merge, 1) * merge


def _first(value: Any) -> int:
    return int(value[0] if isinstance(value, (list, tuple)) else value)


def _field(config: Any, *names: str, usual: int) -> int:
    """Returns the first of these fields that a config of images has."""
    given = (getattr(config, name, None) for name in names)
    return next((_first(value) for value in given if value), usual)


def merged_patches(config: Any) -> int:
    """Returns how many patches along a side become one token."""
    vision = image_config(config)
    names = ("spatial_merge_size", "merge_size", "merge_kernel_size", "pooling_kernel_size", "downsample_factor")
    return _field(vision, *names, usual=_field(config, *names, usual=2))


def patch_side(config: Any) -> int:
    """Returns the side of a patch in pixels."""
    return _field(image_config(config), "patch_size", usual=_field(config, "patch_size", usual=PATCH))


def channels_of(config: Any) -> int:
    """Returns how many channels an image has."""
    return _field(image_config(config), "num_channels", "in_channels", "in_chans", usual=3)


def _patches_with_grids(maker: Maker) -> Batch:
    import torch

    config, vision = maker.config, image_config(maker.config)
    patch, channels = patch_side(config), channels_of(config)
    side = _side(maker, patch, merged_patches(config))
    count = maker.size * side * side
    if _takes_square_patches(config):
        pixels = maker.values(count, channels, patch, patch)
    else:
        frames = _field(vision, "temporal_patch_size", "patch_temporal", usual=1)
        pixels = maker.values(count, channels * frames * patch * patch)
    return {
        "pixel_values": pixels,
        "image_grid_thw": torch.tensor([[1, side, side]] * maker.size, device=maker.device),
        "image_merge_sizes": torch.tensor([_field(vision, "merge_size", usual=2)] * maker.size, device=maker.device),
    }


def _takes_square_patches(config: Any) -> bool:
    """Tells whether patches keep their rows and columns: those embed them by a convolution as it is."""
    return config.model_type in ("paddleocr_vl", "kimi_k25")


def _patches_with_shapes(maker: Maker) -> Batch:
    import torch

    patch, channels = patch_side(maker.config), channels_of(maker.config)
    side = _side(maker, patch, merged_patches(maker.config))
    return {
        "pixel_values": maker.values(maker.size, side * side, channels * patch * patch),
        "pixel_attention_mask": maker.ones(maker.size, side * side),
        "spatial_shapes": torch.tensor([[side, side]] * maker.size, device=maker.device),
    }


def _patches_with_positions(maker: Maker) -> Batch:
    import torch

    config, vision = maker.config, image_config(maker.config)
    patch = _field(vision, "model_patch_size", "patch_size", usual=PATCH)
    merge = 1 if getattr(vision, "model_patch_size", None) else merged_patches(config)
    side = _side(maker, patch, merge)
    places = torch.tensor([[x, y] for y in range(side) for x in range(side)], device=maker.device)
    return {
        "pixel_values": maker.values(maker.size, side * side, 3 * patch * patch),
        "image_position_ids": places.expand(maker.size, -1, -1).contiguous(),
    }


def _packed_patches(maker: Maker) -> Batch:
    import torch

    patch = patch_side(maker.config)
    side = _side(maker, patch, 4)
    return {
        "pixel_values": maker.values(1, channels_of(maker.config), patch, patch * side * side * maker.size),
        "target_sizes": torch.tensor([[side, side]] * maker.size, device=maker.device),
    }


def _flattened_patches(maker: Maker) -> Batch:
    """Makes patches with their row and column in front, as many as usual."""
    import torch

    width = 2 + channels_of(maker.config) * patch_side(maker.config) ** 2
    patches = maker.values(maker.size, MOST_PATCHES, width)
    patches[:, :, :2] = torch.arange(1, 3, device=maker.device)
    side = int(MOST_PATCHES**0.5)
    sides = torch.full((maker.size,), side, device=maker.device)
    mask = {} if "input_ids" in maker.arguments else {"attention_mask": maker.ones(maker.size, MOST_PATCHES)}
    return {"flattened_patches": patches, "width": sides, "height": sides, **mask}


def _listed_patches(maker: Maker) -> Batch:
    patch = patch_side(maker.config)
    side = _side(maker, patch, 1)
    return {"image_patches": maker.values(maker.size, side * side, channels_of(maker.config) * patch * patch)}


def _tiles_of_a_kind(maker: Maker) -> Batch:
    """Makes an image of one tile among the most that it may have, as Llama's processor pads them."""
    vision, side = image_config(maker.config), maker.shape.pixels
    tiles = int(vision.max_num_tiles)
    mask = maker.zeros(maker.size, 1, tiles)
    mask[:, :, 0] = 1
    seen = maker.zeros(maker.size, maker.shape.tokens, 1, tiles)
    seen[..., 0] = 1
    return {
        "pixel_values": maker.values(maker.size, 1, tiles, channels_of(maker.config), side, side),
        "aspect_ratio_ids": maker.ones(maker.size, 1),
        "aspect_ratio_mask": mask,
        "cross_attention_mask": seen,
    }


def _pixels(maker: Maker) -> Batch:
    import torch

    config, side = maker.config, maker.shape.pixels
    channels = channels_of(config)
    one: tuple[int, ...] = (channels, side, side)
    pinpoints = getattr(config, "image_grid_pinpoints", None)
    if pinpoints:
        one = (_tiles(pinpoints, side), *one)
    elif {"pixel_attention_mask", "image_attention_mask"} & maker.arguments or _counts_images(config):
        one = (1, *one)
    batch: dict[str, Tensor] = {"pixel_values": maker.values(maker.size, *one)}
    batch["pixel_values_images"] = batch["pixel_values"]
    if "pixel_attention_mask" in maker.arguments:
        batch["pixel_attention_mask"] = maker.ones(maker.size, 1, side, side)
    if pinpoints or getattr(image_config(config), "model_type", "") in SIZED:
        batch["image_sizes"] = torch.tensor([[side, side]] * maker.size, device=maker.device)
    if "high_res_pixel_values" in maker.arguments:
        high = _field(getattr(config, "high_res_vision_config", None), "image_size", usual=HIGH_RESOLUTION)
        batch["high_res_pixel_values"] = maker.values(maker.size, channels, high, high)
    if "qformer_input_ids" in maker.arguments:
        batch["qformer_input_ids"] = maker.ones(maker.size, 8)
    return batch


def _counts_images(config: Any) -> bool:
    """Tells whether a sample's images, or the tiles or frames of one, have a dimension of their own."""
    return config.model_type in ("perception_lm", "instructblipvideo")


def _tiles(pinpoints: list[list[int]], side: int) -> int:
    """Returns how many squares of a side cover the image in the resolution that suits it best, and the whole image."""
    from transformers.image_processing_utils import select_best_resolution

    height, width = select_best_resolution((side, side), pinpoints)
    return int(-(-height // side) * -(-width // side) + 1)
