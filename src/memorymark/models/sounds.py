"""Batches of sounds, in the form that each kind of model hears them. Worker side: imports torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memorymark.catalog.tasks import TASKS
from memorymark.models.maker import IGNORED, SPECTRA_PER_SECOND, Maker, Shape
from memorymark.models.places import count_places, place_word

if TYPE_CHECKING:
    from torch import Tensor

    from memorymark.training.workload import Batch

TASK = TASKS["speech-seq2seq"]
SAMPLES_PER_SECOND = 16_000
# Of models that stack two spectra.
FRAMES_PER_SECOND = 50
LETTERS_PER_SECOND = 10
# Their spectrograms have a row for each frequency; those of others one for each moment.
FREQUENCY_FIRST = {"whisper", "voxtral", "voxtral_realtime", "qwen3_asr"}
# They look for the lengths of texts in the mask of their sounds.
MASKED = {"lasr_ctc", "parakeet_ctc", "granite_speech5_ctc"}
# Their masks are of the sound's places in the text.
MASKED_IN_TEXT = {"granite_speech", "granite_speech_plus"}
# Those of these are widened by their differences, and stacked.
WIDENED = {"granite_speech5_ctc": 4}
# Fields that say how many frequencies a spectrum has, and how wide two that are stacked are.
FREQUENCIES = ("num_mel_bins", "input_feat_per_channel", "input_size", "n_mels")
STACKED = ("feature_projection_input_dim", "input_dim")


def seconds_of(config: Any) -> int | None:
    """Returns the length of the sounds that a config is made for; ``None`` if the model takes any."""
    if _is_spectrogram(config):
        return int(config.max_length) // SPECTRA_PER_SECOND
    return _frames(config) // SPECTRA_PER_SECOND if _has_positions(config) else None


def set_seconds(config: Any, seconds: int) -> None:
    """Changes a config to sounds of another length."""
    if _is_spectrogram(config):
        config.max_length = seconds * SPECTRA_PER_SECOND
    elif config.model_type == "whisper":
        config.max_source_positions = seconds * SPECTRA_PER_SECOND // 2


def sounds(maker: Maker) -> Batch:
    """Makes sounds with a class or a text each."""
    batch: dict[str, Any] = _sound(maker)
    if maker.task.id == "ctc":
        batch["labels"] = maker.words(maker.size, maker.shape.seconds * LETTERS_PER_SECOND)
    elif maker.task.id == "audio-frame-classification":
        moments = _moments(maker.config, batch)
        batch["labels"] = maker.zeros(maker.size, moments, maker.config.num_labels)
    else:
        batch["labels"] = maker.classes(maker.size)
    return batch


def _moments(config: Any, batch: Batch) -> int:
    """Returns how many frames a model makes of a sound, each of which has a class."""
    if "input_features" in batch:
        return int(batch["input_features"].shape[1])
    length = int(batch["input_values"].shape[1])
    for width, stride in zip(config.conv_kernel, config.conv_stride, strict=True):
        length = (length - width) // stride + 1
    return length


def spoken_texts(maker: Maker) -> Batch:
    """Makes sounds with what is said in them; decoders read both in one text that begins with the sound's places."""
    import torch

    size, length = maker.size, maker.shape.tokens
    batch: dict[str, Any] = _sound(maker)
    if "input_ids" not in maker.arguments or _has_own_decoder(maker.config):
        return {**batch, "labels": maker.words(size, length)}
    places, words = sound_places(maker.config, maker.shape.seconds), maker.certain_words(size, length)
    labels = words.clone()
    if places:
        sound = torch.full((size, places), _sound_word(maker.config) or 0, device=maker.device)
        words = torch.cat([sound, words[:, places:]], 1)
        labels = torch.cat([torch.full_like(sound, IGNORED), words[:, places:]], 1)
    return {**batch, "input_ids": words, "attention_mask": maker.ones(size, length), "labels": labels}


def sound_places(config: Any, seconds: int) -> int:
    """Returns how many positions of a text a sound takes."""
    if _sound_word(config) is None:
        return 0
    return count_places(config, TASK, Shape(8, seconds=seconds), "get_audio_features", _sound)


def _sound_word(config: Any) -> int | None:
    return place_word(config, "audio")


def _has_own_decoder(config: Any) -> bool:
    return bool(getattr(config, "is_encoder_decoder", False))


def _sound(maker: Maker) -> dict[str, Tensor]:
    """Makes what is heard, without labels."""
    config, seconds, size = maker.config, maker.shape.seconds, maker.size
    if _is_spectrogram(config):
        return {"input_values": maker.values(size, config.max_length, config.num_mel_bins)}
    if "input_values" in maker.arguments and ("input_features" not in maker.arguments or _hears_waves(config)):
        batch = {"input_values": maker.values(size, seconds * _rate(config))}
        if "padding_mask" in maker.arguments:
            batch["padding_mask"] = maker.ones(size, seconds * _rate(config)).bool()
        return batch
    width = _field(config, STACKED)
    frames = seconds * (FRAMES_PER_SECOND if width else SPECTRA_PER_SECOND)
    if _has_positions(config):
        frames = _frames(config)
    width = width or _field(config, FREQUENCIES) * max(_field(config, ("num_stacked_frames",)), 1) or config.d_model
    width *= WIDENED.get(config.model_type, 1)
    first = config.model_type in FREQUENCY_FIRST
    batch = {"input_features": maker.values(size, *((width, frames) if first else (frames, width)))}
    if config.model_type in MASKED:
        batch["attention_mask"] = maker.ones(size, frames)
    if "input_features_mask" in maker.arguments:
        batch["input_features_mask"] = maker.ones(size, _masked(config, frames)).bool()
    return batch


def _masked(config: Any, frames: int) -> int:
    """Returns how long a mask of the sound is: as long as the sound, or as what is made of it for the text."""
    if config.model_type not in MASKED_IN_TEXT:
        return frames
    windows = -(-frames // int(config.window_size))
    return windows * int(config.window_size) // int(config.downsample_rate)


def _hears_waves(config: Any) -> bool:
    return any(hasattr(part, "conv_dim") for part in _parts(config))


def _rate(config: Any) -> int:
    return int(getattr(config, "sampling_rate", None) or SAMPLES_PER_SECOND)


def _parts(config: Any) -> list[Any]:
    names = ("audio_config", "encoder_config", "encoder")
    return [config, *(part for name in names if (part := getattr(config, name, None)) is not None)]


def _field(config: Any, names: tuple[str, ...]) -> int:
    values = (getattr(part, name, None) for part in _parts(config) for name in names)
    return next((value for value in values if isinstance(value, int) and value), 0)


def _has_positions(config: Any) -> bool:
    """Tells whether a sound has as many positions as the config says, two frames each."""
    return config.model_type in ("whisper", "voxtral")


def _frames(config: Any) -> int:
    """Returns the number of frames that a Whisper model takes; two make one position."""
    return 2 * _field(config, ("max_source_positions",))


def _is_spectrogram(config: Any) -> bool:
    return bool(config.model_type == "audio-spectrogram-transformer")
