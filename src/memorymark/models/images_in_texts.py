"""Batches of texts with images in them, and how many places of a text an image takes. Worker side: imports torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from memorymark.catalog.tasks import TASKS
from memorymark.errors import UsageError
from memorymark.models import heads
from memorymark.models.image_inputs import image_inputs
from memorymark.models.maker import IGNORED, Maker, Shape

if TYPE_CHECKING:
    from torch import Tensor, nn

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
    return _counted(_Shown(config), pixels)


class _Shown:
    """A config, equal to others that say the same."""

    def __init__(self, config: Any) -> None:
        self.config, self._said = config, repr(sorted(config.to_dict().items(), key=str))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shown) and other._said == self._said

    def __hash__(self) -> int:
        return hash(self._said)


@lru_cache(maxsize=64)
def _counted(shown: _Shown, pixels: int) -> int:
    """Asks the model how many features it makes of an image, on tensors without data."""
    config = shown.config
    found = heads.model_class(config, TASK)
    if found is None or config.model_type in NO_PLACES or _image_word(config) is None:
        return 0
    if config.model_type in LATENT_PLACES:
        return int(getattr(config, LATENT_PLACES[config.model_type]))
    try:
        return _features(found, config, pixels)
    except UsageError:
        raise
    except Exception as error:  # models fail in many ways at inputs that they were not made for
        raise UsageError(
            f"how many tokens of {config.model_type} an image of {pixels} pixels takes is not known; pass a "
            "file.py:function that makes the model and its batches.",
            code="not_applicable",
            field="model",
            detail=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}",
        ) from None


def _features(found: type[nn.Module], config: Any, pixels: int) -> int:
    import torch

    from memorymark.models.known_values import without_data

    with without_data() as values:
        values.is_built = True
        model = heads.build(config, TASK, config.model_type, tied=None)
        values.is_built = False
        maker = Maker(config, TASK, heads.forward_arguments(found), Shape(8, pixels), 1, torch.device("cpu"))
        inputs = image_inputs(maker)
        features = _from(model)(**inputs)
        made = _tensors(getattr(features, "pooler_output", None) if hasattr(features, "pooler_output") else features)
    width = made[0].shape[-1]
    return sum(tensor.numel() // width for tensor in made)


def _from(model: nn.Module) -> Callable[..., Any]:
    """Returns the model's function from an image to what stands for it in the text."""
    import inspect

    for owner in (model, getattr(model, "model", None)):
        function = getattr(owner, "get_image_features", None)
        if function is not None:
            break
    else:
        raise UsageError(
            f"how {type(model).__name__} takes images is not known; pass a file.py:function that makes it.",
            code="not_applicable",
            field="model",
        )
    takes = set(inspect.signature(function).parameters)

    def call(**inputs: Any) -> Any:
        taken = {name: value for name, value in inputs.items() if name in takes or "args" in takes}
        for name in ("vision_feature_layer", "vision_feature_layers", "vision_feature_select_strategy"):
            if name in takes and getattr(model.config, name, None) is not None:
                taken[name] = getattr(model.config, name)
        return function(**taken)

    return call


def _tensors(tree: Any) -> list[Tensor]:
    import torch

    if isinstance(tree, torch.Tensor):
        return [tree]
    return [tensor for part in tree for tensor in _tensors(part)] if isinstance(tree, (list, tuple)) else []


def _image_word(config: Any) -> int | None:
    """Returns the token that keeps an image's places."""
    for name in ("image_token_id", "image_token_index", "media_placeholder_token_id"):
        word = getattr(config, name, None)
        if isinstance(word, int):
            return word
    return 0 if config.model_type in LATENT_PLACES else None


def images_in_texts(maker: Maker) -> Batch:
    """Makes texts that begin with their image, of which only the words count for the loss."""
    import torch

    config, size, length = maker.config, maker.size, maker.shape.tokens
    places, words = image_places(config, maker.shape.pixels), maker.certain_words(size, length)
    labels = words.clone()
    if places:
        images = torch.full((size, places), _image_word(config) or 0, device=maker.device)
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


def _one_place_for_several_patches(config: Any, pixels: int) -> int:
    vision = config.vision_config
    return (pixels // int(vision.patch_size) // int(vision.spatial_merge_size)) ** 2


# Known without asking the model, which takes a second.
KNOWN_PLACES: dict[str, Callable[[Any, int], int]] = {
    "blip": _no_places,
    "llava": _one_place_a_patch,
    "qwen2_vl": _one_place_for_several_patches,
    "qwen2_5_vl": _one_place_for_several_patches,
}
