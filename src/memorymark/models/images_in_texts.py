"""Batches of texts with images in them, and how many places of a text an image takes. Worker side: imports torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from memorymark.catalog.tasks import TASKS
from memorymark.models.image_inputs import image_inputs
from memorymark.models.maker import IGNORED, Maker, Shape
from memorymark.models.places import count_places, place_word

if TYPE_CHECKING:
    from memorymark.training.workload import Batch

TASK = TASKS["image-text-to-text"]
# Their images are read by cross-attention, or stand before the text by themselves.
NO_PLACES = {"blip", "git", "idefics", "mllama", "mistral4", "pix2struct", "udop", "vision-encoder-decoder", "evolla"}
# Two places for every image, which begin and end it, are counted by no method of the model.
LATENT_PLACES = {"kosmos-2": "latent_query_num", "kosmos-2.5": "latent_query_num"}


def image_places(config: Any, pixels: int) -> int:
    """Returns how many positions of a sequence an image of this side takes."""
    known = KNOWN_PLACES.get(config.model_type)
    if known is not None:
        return known(config, pixels)
    if config.model_type in NO_PLACES or image_word(config) is None:
        return 0
    if config.model_type in LATENT_PLACES:
        return int(getattr(config, LATENT_PLACES[config.model_type]))
    return count_places(config, TASK, Shape(8, pixels), "get_image_features", image_inputs)


def image_word(config: Any) -> int | None:
    """Returns the token that keeps an image's places."""
    return 0 if config.model_type in LATENT_PLACES else place_word(config, "image")


def images_in_texts(maker: Maker) -> Batch:
    """Makes texts that begin with their image, of which only the words count for the loss."""
    import torch

    config, size, length = maker.config, maker.size, maker.shape.tokens
    places, words = image_places(config, maker.shape.pixels), maker.certain_words(size, length)
    labels = words.clone()
    if places:
        images = torch.full((size, places), image_word(config) or 0, device=maker.device)
        words = torch.cat([images, words[:, places:]], 1)
        labels = torch.cat([torch.full_like(images, IGNORED), words[:, places:]], 1)
    is_image = maker.zeros(size, length)
    is_image[:, :places] = 1
    batch = {
        "input_ids": words,
        "attention_mask": maker.ones(size, length),
        "mm_token_type_ids": is_image,
        "moe_mm_token_type_ids": is_image,
        "token_type_ids": is_image,
        "image_attention_mask": maker.ones(size, length, 1),
        "image_embeds_position_mask": is_image,
        "bbox": maker.zeros(size, length, 4),
    }
    if not _reads_texts(maker):  # only its decoder does
        batch.pop("attention_mask")
    batch |= image_inputs(maker)
    batch["labels"] = labels
    return {name: value for name, value in batch.items() if name in maker.arguments}


def _reads_texts(maker: Maker) -> bool:
    return "input_ids" in maker.arguments


def _no_places(config: Any, pixels: int) -> int:  # noqa: ARG001 - cross-attention reads the image
    return 0


def _one_place_a_patch(config: Any, pixels: int) -> int:
    whole = 1 if getattr(config, "vision_feature_select_strategy", "default") == "full" else 0
    return (pixels // int(config.vision_config.patch_size)) ** 2 + whole


def _one_place_a_unit(config: Any, pixels: int) -> int:
    return (pixels // int(config.patch_size)) ** 2


def _one_place_for_several_patches(config: Any, pixels: int) -> int:
    vision = config.vision_config
    return (pixels // int(vision.patch_size) // int(vision.spatial_merge_size)) ** 2


# Known without asking the model, which takes a second.
KNOWN_PLACES: dict[str, Callable[[Any, int], int]] = {
    "blip": _no_places,
    "fuyu": _one_place_a_unit,
    "llava": _one_place_a_patch,
    "qwen2_vl": _one_place_for_several_patches,
    "qwen2_5_vl": _one_place_for_several_patches,
}
