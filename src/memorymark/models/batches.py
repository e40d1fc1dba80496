"""Makes synthetic batches from a model's config and the arguments of its forward pass. Worker side: imports torch.

No sample is padded: the batch to plan for is the one in which every sample has full length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from memorymark.catalog.tasks import Task, prompt_tokens
from memorymark.errors import UsageError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from memorymark.training.workload import Batch

SAMPLES_PER_SECOND = 16_000
SMALL_SIDE = 64
FRAMES_PER_SECOND = 50
SPECTRA_PER_SECOND = 100
LETTERS_PER_SECOND = 10
CODE_POINTS = 0xD800
"""The tokens of models without a vocabulary, which read characters: all before those that stand for none."""
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
# The label of a token that does not count.
IGNORED = -100
# These take images of any size.
ANY_IMAGE_SIZE = {"dinov2", "dinov2_with_registers", "dinov3_vit", "dinov3_convnext"}


@dataclass(frozen=True)
class Shape:
    """The size of a sample, in the task's units."""

    tokens: int = 0
    pixels: int = 0
    seconds: int = 0
    completion_tokens: int = 0

    def sizes(self, task: Task) -> dict[str, int]:
        """Returns the size by unit, for the units of the task."""
        return {unit: getattr(self, unit) for unit in task.units}

    def describe(self, task: Task, config: Any, mean_tokens: int = 0) -> str:
        """Returns the size in words: ``128 tokens``, ``77 tokens, 224 pixels``; of a packed row if a mean is given."""
        if mean_tokens:
            return f"rows of {self.tokens} tokens, packed with samples of {mean_tokens}"
        if self.completion_tokens:
            prompt = self.tokens - self.completion_tokens
            return f"a completion of {self.completion_tokens} tokens after a prompt of {prompt}"
        words = [f"{size} {unit[:-1] if size == 1 else unit}" for unit, size in self.sizes(task).items()]
        if task.sequences > 1:
            words[0] = f"a pair of {words[0]} each"
        if task.id == "speech-seq2seq":
            words.insert(0, f"{_frames(config) // SPECTRA_PER_SECOND} s of sound")
        return ", ".join(words)


def text_config(config: Any) -> Any:
    """Returns the part of a config that describes text."""
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def image_config(config: Any) -> Any:
    """Returns the part of a config that describes images."""
    return getattr(config, "vision_config", None) or config


def most_tokens(config: Any) -> int | None:
    """Returns the longest sequence that a model's positions allow; ``None`` if unlimited."""
    text = text_config(config)
    most = getattr(text, "max_target_positions", None) or getattr(text, "max_position_embeddings", None)
    if not isinstance(most, int) or most < 1:
        return None
    return most - (text.pad_token_id or 0) - 1 if config.model_type in OFFSET_POSITIONS else most


def image_side(config: Any) -> int | None:
    """Returns the side of the images that a config is made for."""
    side = getattr(image_config(config), "image_size", None)
    if isinstance(side, (list, tuple)) and side:
        side = side[0]
    return side if isinstance(side, int) else None


def small_side(config: Any, usual: int) -> int:
    """Returns the image side for a stand-in: small, or the config's if windows must divide the image."""
    has_windows = getattr(image_config(config), "window_size", None) is not None
    return usual if has_windows else min(usual, SMALL_SIDE)


def set_image_side(config: Any, side: int) -> None:
    """Changes a config to another image size, as users do to train on larger images."""
    part = image_config(config)
    if image_side(config) is not None and config.model_type not in ANY_IMAGE_SIZE:
        both = isinstance(part.image_size, (list, tuple))  # height and width
        part.image_size = type(part.image_size)([side] * len(part.image_size)) if both else side


def seconds_of(config: Any) -> int | None:
    """Returns the length of the sounds that a config is made for; ``None`` if the model takes any."""
    if _is_spectrogram(config):
        return int(config.max_length) // SPECTRA_PER_SECOND
    return _frames(config) // SPECTRA_PER_SECOND if config.model_type == "whisper" else None


def set_seconds(config: Any, seconds: int) -> None:
    """Changes a config to sounds of another length."""
    if _is_spectrogram(config):
        config.max_length = seconds * SPECTRA_PER_SECOND
    elif config.model_type == "whisper":
        config.max_source_positions = seconds * SPECTRA_PER_SECOND // 2


def usual_tokens(config: Any, task: Task, pixels: int) -> int:
    """Returns the usual sequence length of the task, at most what the model allows."""
    limit = most_tokens(config)
    if task.id == "contrastive":
        return limit or task.size
    size = task.size + (image_places(config, pixels) if task.id == "image-text-to-text" else 0)
    return min(size, limit or size)


def image_places(config: Any, pixels: int) -> int:
    """Returns how many positions of a sequence an image of this side takes."""
    return PLACES[config.model_type](config, pixels) if config.model_type in PLACES else 0


def make_batch(
    config: Any, task: Task, arguments: set[str], shape: Shape, name: str
) -> Callable[[int, torch.device], Batch]:
    """Returns a function that makes batches for a model whose forward pass takes these ``arguments``."""
    makers = {
        "image-classification": _images,
        "audio-classification": _sounds,
        "ctc": _sounds,
        "speech-seq2seq": _spectrograms,
        "contrastive": _images_and_texts,
        "image-text-to-text": _images_in_texts,
        "reward": _pairs,
        "dpo": _pairs,
        "grpo": _completions,
    }
    make = makers.get(task.id, _texts)
    if make is _images_in_texts and config.model_type not in PLACES:
        raise UsageError(
            f"how {name} ({config.model_type}) takes images is not known; pass a file.py:function that makes it.",
            code="not_applicable",
            field="model",
        )
    wanted = {"pixel_values", "input_values", "input_features", "input_ids"}
    known = {"_images": {"pixel_values"}, "_sounds": {"input_values", "input_features"}}
    if not arguments & known.get(make.__name__, wanted):
        raise unknown_inputs(config, name)

    def batch(size: int, device: torch.device) -> Batch:
        try:
            return make(_Maker(config, task, arguments, shape, size, device))
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


@dataclass(frozen=True)
class _Maker:
    """Makes the tensors of one batch."""

    config: Any
    task: Task
    arguments: set[str]
    shape: Shape
    size: int
    device: torch.device

    def words(self, *shape: int) -> Tensor:
        """Returns random tokens without any special ones, such as padding or end."""
        import torch

        first, end = ordinary_words(self.config)
        return torch.randint(first, end, shape, device=self.device)

    def ended_words(self, size: int, length: int) -> Tensor:
        """Returns texts that repeat one word and finish with an end token, where encoder-decoders read a text's class.

        With random words, models could not know where the texts end.
        """
        import torch

        end: int | list[int] = self.config.eos_token_id
        texts = torch.full((size, length), ordinary_words(self.config)[0], device=self.device)
        texts[:, -1] = end[0] if isinstance(end, list) else end
        return texts

    def ones(self, *shape: int) -> Tensor:
        import torch

        return torch.ones(shape, dtype=torch.long, device=self.device)

    def zeros(self, *shape: int) -> Tensor:
        import torch

        return torch.zeros(shape, dtype=torch.long, device=self.device)

    def values(self, *shape: int) -> Tensor:
        import torch

        return torch.rand(shape, device=self.device)

    def classes(self, *shape: int) -> Tensor:
        """Returns a class for each sample, or a number if the model is a regression."""
        import torch

        count = self.config.num_labels
        if count == 1 or self.config.problem_type == "regression":
            return torch.rand((*shape, count) if count > 1 else shape, device=self.device)
        if self.config.problem_type == "multi_label_classification":
            return torch.rand((*shape, count), device=self.device)
        return torch.randint(0, count, shape, device=self.device)


def ordinary_words(config: Any) -> tuple[int, int]:
    """Returns the longest range of token ids without special tokens: its first id and its end."""
    text = text_config(config)
    given = {**config.to_dict(), **text.to_dict()}
    end = getattr(text, "vocab_size", None) or CODE_POINTS
    named = [value for key, value in given.items() if key.endswith(("_token_id", "_token_index"))]
    special = [one for value in named for one in (value if isinstance(value, list) else [value])]  # several ends
    edges = sorted({-1, end, *(value for value in special if isinstance(value, int) and 0 <= value < end)})
    runs = [(before + 1, after) for before, after in pairwise(edges)]
    return max(runs, key=lambda run: run[1] - run[0])


def _texts(maker: _Maker) -> Batch:
    size, length = maker.size, maker.shape.tokens
    has_end = maker.task.id == "sequence-classification" and getattr(maker.config, "is_encoder_decoder", False)
    batch = {"input_ids": maker.ended_words(size, length) if has_end else maker.words(size, length)}
    if "attention_mask" in maker.arguments:
        batch["attention_mask"] = maker.ones(size, length)
    if "token_type_ids" in maker.arguments and (getattr(maker.config, "type_vocab_size", 0) or 0) > 1:
        batch["token_type_ids"] = maker.zeros(size, length)
    if maker.task.id == "sequence-classification":
        batch["labels"] = maker.classes(size)
    elif maker.task.id == "token-classification":
        batch["labels"] = maker.classes(size, length)
    elif maker.task.id == "question-answering":
        batch |= {"start_positions": maker.zeros(size), "end_positions": maker.zeros(size)}
    elif maker.task.id == "seq2seq-lm":
        batch["labels"] = maker.words(size, length)
    else:
        batch["labels"] = batch["input_ids"].clone()
    if maker.task.id == "sft":
        batch["labels"][:, : prompt_tokens(length)] = IGNORED
    return batch


def _pairs(maker: _Maker) -> Batch:
    """Makes pairs as TRL collates them: all preferred texts, then all rejected ones."""
    rows, length = maker.size * maker.task.sequences, maker.shape.tokens
    return {"input_ids": maker.words(rows, length), "attention_mask": maker.ones(rows, length)}


def _completions(maker: _Maker) -> Batch:
    """Makes completions with their prompts, and their advantages: each reward less the mean of those of its prompt."""
    from memorymark.training.policy import ADVANTAGES

    texts = {"input_ids": maker.words(maker.size, maker.shape.tokens)}
    return {**texts, "attention_mask": maker.ones(maker.size, maker.shape.tokens), ADVANTAGES: maker.values(maker.size)}


def _images(maker: _Maker) -> Batch:
    return {"pixel_values": _pixels(maker), "labels": maker.classes(maker.size)}


def _pixels(maker: _Maker) -> Tensor:
    channels = getattr(image_config(maker.config), "num_channels", 3)
    return maker.values(maker.size, channels, maker.shape.pixels, maker.shape.pixels)


def _sounds(maker: _Maker) -> Batch:
    config, seconds = maker.config, maker.shape.seconds
    if _is_spectrogram(config):
        batch = {"input_values": maker.values(maker.size, config.max_length, config.num_mel_bins)}
    elif "input_values" in maker.arguments:
        batch = {"input_values": maker.values(maker.size, seconds * SAMPLES_PER_SECOND)}
    elif hasattr(config, "num_mel_bins"):
        batch = {"input_features": maker.values(maker.size, config.num_mel_bins, _frames(config))}
    else:
        width = config.feature_projection_input_dim
        batch = {"input_features": maker.values(maker.size, seconds * FRAMES_PER_SECOND, width)}
    if maker.task.id == "ctc":
        batch["labels"] = maker.words(maker.size, seconds * LETTERS_PER_SECOND)
    else:
        batch["labels"] = maker.classes(maker.size)
    return batch


def _spectrograms(maker: _Maker) -> Batch:
    config = maker.config
    features = (config.num_mel_bins, _frames(config))
    return {
        "input_features": maker.values(maker.size, *features),
        "labels": maker.words(maker.size, maker.shape.tokens),
    }


def _frames(config: Any) -> int:
    """Returns the number of frames that a Whisper model takes; two make one position."""
    return 2 * int(config.max_source_positions)


def _is_spectrogram(config: Any) -> bool:
    return bool(config.model_type == "audio-spectrogram-transformer")


def _images_and_texts(maker: _Maker) -> Batch:
    batch = {"input_ids": maker.words(maker.size, maker.shape.tokens), "pixel_values": _pixels(maker)}
    if "attention_mask" in maker.arguments:
        batch["attention_mask"] = maker.ones(maker.size, maker.shape.tokens)
    return batch


def _images_in_texts(maker: _Maker) -> Batch:
    import torch

    config, size, length = maker.config, maker.size, maker.shape.tokens
    places, words = image_places(config, maker.shape.pixels), maker.words(size, length)
    labels = words.clone()
    if places:
        images = torch.full((size, places), config.image_token_id, device=maker.device)
        words = torch.cat([images, words[:, places:]], 1)
        labels = torch.cat([torch.full_like(images, IGNORED), words[:, places:]], 1)
    batch = {"input_ids": words, "attention_mask": maker.ones(size, length)}
    if config.model_type in ("qwen2_vl", "qwen2_5_vl"):
        vision = config.vision_config
        side = maker.shape.pixels // vision.patch_size
        width = getattr(vision, "in_channels", 3) * vision.temporal_patch_size * vision.patch_size**2
        batch["pixel_values"] = maker.values(size * side * side, width)
        batch["image_grid_thw"] = torch.tensor([[1, side, side]] * size, device=maker.device)
        batch["mm_token_type_ids"] = (words == config.image_token_id).long()
    else:
        batch["pixel_values"] = _pixels(maker)
    batch["labels"] = labels
    return {name: value for name, value in batch.items() if name in maker.arguments}


def _no_places(config: Any, pixels: int) -> int:  # noqa: ARG001 - cross-attention reads the image
    return 0


def _one_place_a_patch(config: Any, pixels: int) -> int:
    whole = 1 if getattr(config, "vision_feature_select_strategy", "default") == "full" else 0
    return (pixels // int(config.vision_config.patch_size)) ** 2 + whole


def _one_place_for_several_patches(config: Any, pixels: int) -> int:
    vision = config.vision_config
    return (pixels // int(vision.patch_size) // int(vision.spatial_merge_size)) ** 2


# How many positions of a sequence an image takes, for the families whose inputs are known.
PLACES: dict[str, Callable[[Any, int], int]] = {
    "blip": _no_places,
    "llava": _one_place_a_patch,
    "qwen2_vl": _one_place_for_several_patches,
    "qwen2_5_vl": _one_place_for_several_patches,
}
