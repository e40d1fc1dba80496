"""Makes synthetic batches from a model's config and the arguments of its forward pass. Worker side: imports torch.

No sample is padded: the batch to plan for is the one in which every sample has full length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from memorymark.catalog.tasks import Task, prompt_tokens
from memorymark.errors import UsageError
from memorymark.models.images_in_texts import image_places, images_in_texts
from memorymark.models.maker import IGNORED, Maker, Shape, image_config, text_config
from memorymark.models.pictures import (
    images,
    images_with_objects,
    masked_images,
    measured_images,
    questions_about_images,
    seen,
    segmented_images,
    videos,
)
from memorymark.models.sounds import sound_places, sounds, spoken_texts

if TYPE_CHECKING:
    import torch

    from memorymark.training.workload import Batch

SMALL_SIDE = 64
# Detectors choose hundreds of places.
SMALL_SIDE_WITH_OBJECTS = 384
# These count positions from after the padding token.
OFFSET_POSITIONS = {
    "camembert",
    "data2vec-text",
    "esm",
    "ibert",
    "longformer",
    "mpnet",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
}
# Their logits have as many places as the model has, whatever the text's length.
FULL_LENGTH = {"perceiver"}
# Fields by which an image's side must be a certain multiple.
FIXES_SIDE = (
    "window_size",
    "mm_tokens_per_image",
    "image_grid_pinpoints",
    "projector_patch_to_query_dict",
    "scaled_images_ratios",
)
# They look for separators in a text to see where its question ends.
SEES_SEPARATORS = {"longformer"}
QUESTION = 16
# How many regions of an image its features describe, as usual since bottom-up attention.
REGIONS = 36
# Their language models write sounds, as rows of codes for each moment.
WRITES_CODES = {"musicgen", "musicgen_melody"}
# Their language models do without an image only to generate.
READS_AN_IMAGE = {"git"}
# These take images of any size.
ANY_IMAGE_SIZE = {"dinov2", "dinov2_with_registers", "dinov3_vit", "dinov3_convnext"}


def most_tokens(config: Any) -> int | None:
    """Returns the longest sequence that a model's positions allow; ``None`` if unlimited."""
    text = text_config(config)
    most = getattr(text, "max_target_positions", None) or getattr(text, "max_position_embeddings", None)
    if not isinstance(most, int) or most < 1:
        return None
    return most - (text.pad_token_id or 0) - 1 if config.model_type in OFFSET_POSITIONS else most


def image_side(config: Any) -> int | None:
    """Returns the side of the images that a config is made for."""
    if getattr(config, "scaled_images_ratios", None):  # the smallest copy of an image is as large as a patch
        return int(config.patch_size / min(config.scaled_images_ratios))
    side = getattr(image_config(config), "image_size", None)
    if isinstance(side, (list, tuple)) and side:
        side = side[0]
    return side if isinstance(side, int) else None


def small_side(config: Any, task: Task, usual: int) -> int:
    """Returns the image side for a stand-in: small, or the config's if windows or tiles must divide the image."""
    parts = (image_config(config), config)
    is_fixed = any(getattr(part, name, None) is not None for part in parts for name in FIXES_SIDE)
    return usual if is_fixed else min(usual, SMALL_SIDE if task.id != "object-detection" else SMALL_SIDE_WITH_OBJECTS)


def set_image_side(config: Any, side: int) -> None:
    """Changes a config to another image size, as users do to train on larger images."""
    part = image_config(config)
    if getattr(part, "image_size", None) and config.model_type not in ANY_IMAGE_SIZE:
        both = isinstance(part.image_size, (list, tuple))  # height and width
        part.image_size = type(part.image_size)([side] * len(part.image_size)) if both else side


def usual_tokens(config: Any, task: Task, pixels: int, seconds: int) -> int:
    """Returns the usual sequence length of the task, at most what the model allows."""
    limit = most_tokens(config)
    if config.model_type in FULL_LENGTH and limit:
        return limit
    if task.id == "contrastive":
        return limit or task.size
    size = task.size + other_places(config, task, Shape(pixels=pixels, seconds=seconds))
    return min(size, limit or size)


def other_places(config: Any, task: Task, shape: Shape) -> int:
    """Returns how many positions of a sequence its image or its sound takes."""
    if task.id == "image-text-to-text":
        return image_places(config, shape.pixels)
    return sound_places(config, shape.seconds) if task.id == "speech-seq2seq" else 0


def make_batch(
    config: Any, task: Task, arguments: set[str], shape: Shape, name: str
) -> Callable[[int, torch.device], Batch]:
    """Returns a function that makes batches for a model whose forward pass takes these ``arguments``."""
    makers = {
        "image-classification": images,
        "object-detection": images_with_objects,
        "universal-segmentation": images_with_objects,
        "semantic-segmentation": segmented_images,
        "depth-estimation": measured_images,
        "masked-image-modeling": masked_images,
        "video-classification": videos,
        "visual-question-answering": questions_about_images,
        "audio-frame-classification": sounds,
        "audio-xvector": sounds,
        "multiple-choice": _choices,
        "audio-classification": sounds,
        "ctc": sounds,
        "speech-seq2seq": spoken_texts,
        "contrastive": _images_and_texts,
        "image-text-to-text": images_in_texts,
        "reward": _pairs,
        "dpo": _pairs,
        "grpo": _completions,
    }
    make = makers.get(task.id, _texts)
    wanted = {"pixel_values", "input_values", "input_features", "input_ids", "flattened_patches", "pixel_values_videos"}
    known = {"images": {"pixel_values", "input_ids"}, "sounds": {"input_values", "input_features"}}
    if not arguments & known.get(make.__name__, wanted):
        raise unknown_inputs(config, name)

    def batch(size: int, device: torch.device) -> Batch:
        try:
            return make(Maker(config, task, arguments, shape, size, device))
        except AttributeError:  # its config describes samples by other fields
            raise unknown_inputs(config, name) from None

    return batch


def unknown_inputs(config: Any, name: str) -> UsageError:
    """Returns the error for a model whose batches cannot be made here."""
    return UsageError(
        f"the inputs of {name} ({config.model_type}) are not known; pass a file.py:function that makes it.",
        code="not_applicable",
        field="model",
    )


def _texts(maker: Maker) -> Batch:
    size, length = maker.size, maker.shape.tokens
    has_end = maker.task.id == "sequence-classification" and getattr(maker.config, "is_encoder_decoder", False)
    batch = {"input_ids": maker.ended_words(size, length) if has_end else maker.words(size, length)}
    if "attention_mask" in maker.arguments:
        batch["attention_mask"] = maker.ones(size, length)
    if "token_type_ids" in maker.arguments and (getattr(maker.config, "type_vocab_size", 0) or 0) > 1:
        batch["token_type_ids"] = maker.zeros(size, length)
    if "bbox" in maker.arguments:
        batch["bbox"] = maker.zeros(size, length, 4)
    if maker.task.id == "sequence-classification":
        batch["labels"] = maker.classes(size)
    elif maker.task.id == "token-classification":
        batch["labels"] = maker.classes(size, length)
    elif maker.task.id == "question-answering":
        batch |= _answers(maker)
    elif maker.task.id == "seq2seq-lm":
        batch["labels"] = maker.words(size, length)
    else:
        batch["labels"] = batch["input_ids"].clone()
    if maker.config.model_type in WRITES_CODES:
        codes = int(text_config(maker.config).num_codebooks)
        batch = {"input_ids": maker.words(size * codes, length), "labels": maker.words(size, length, codes)}
    if maker.task.id == "sft":
        batch["labels"][:, : prompt_tokens(length)] = IGNORED
    if maker.config.model_type in READS_AN_IMAGE:
        shape = replace(maker.shape, pixels=image_side(maker.config) or maker.shape.pixels)
        batch |= seen(replace(maker, shape=shape))
    return batch


def _answers(maker: Maker) -> Batch:
    """Makes the places of answers in texts, or answers to questions about images of which the regions are known."""
    size, length = maker.size, maker.shape.tokens
    if "visual_feats" in maker.arguments:
        return {
            "visual_feats": maker.values(size, REGIONS, int(maker.config.visual_feat_dim)),
            "visual_pos": maker.values(size, REGIONS, int(maker.config.visual_pos_dim)),
            "labels": maker.zeros(size),
        }
    answers = {"start_positions": maker.zeros(size), "end_positions": maker.zeros(size)}
    if maker.config.model_type in SEES_SEPARATORS:
        answers["global_attention_mask"] = maker.zeros(size, length)
        answers["global_attention_mask"][:, : min(QUESTION, length // 2)] = 1
    return answers


def _pairs(maker: Maker) -> Batch:
    """Makes pairs as TRL collates them: all preferred texts, then all rejected ones."""
    rows, length = maker.size * maker.task.sequences, maker.shape.tokens
    return {"input_ids": maker.words(rows, length), "attention_mask": maker.ones(rows, length)}


def _completions(maker: Maker) -> Batch:
    """Makes completions with their prompts, and their advantages: each reward less the mean of those of its prompt."""
    from memorymark.training.policy import ADVANTAGES

    texts = {"input_ids": maker.words(maker.size, maker.shape.tokens)}
    return {**texts, "attention_mask": maker.ones(maker.size, maker.shape.tokens), ADVANTAGES: maker.values(maker.size)}


def _choices(maker: Maker) -> Batch:
    """Makes questions with texts to choose from."""
    size, several, length = maker.size, maker.task.sequences, maker.shape.tokens
    batch = {
        "input_ids": maker.words(size, several, length),
        "attention_mask": maker.ones(size, several, length),
        "labels": maker.zeros(size),
    }
    if maker.config.model_type in SEES_SEPARATORS:
        batch["global_attention_mask"] = maker.zeros(size, several, length)
        batch["global_attention_mask"][:, :, min(QUESTION, length // 2) :] = 1
    return batch


def _images_and_texts(maker: Maker) -> Batch:
    batch = {"input_ids": maker.words(maker.size, maker.shape.tokens), **seen(maker)}
    if "attention_mask" in maker.arguments:
        batch["attention_mask"] = maker.ones(maker.size, maker.shape.tokens)
    return batch
