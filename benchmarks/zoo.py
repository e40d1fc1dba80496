"""Workloads of many families, with the recipes that they were measured under: what the prediction is held against.

All are built from configs with random weights. ``HELD_BACK`` were not looked at while the prediction was made.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

import memorymark as mm
from memorymark.training.workload import Workload

PUBLISHED = {"train_mode": False, "loss": "mean", "optimizer": "none"}
RECIPES: dict[str, dict[str, Any]] = {
    "fp32": {},
    "bf16": {"precision": "bf16"},
    "fp16": {"precision": "fp16"},
    "published": PUBLISHED,
    "bf16-checkpointing": {"precision": "bf16", "gradient_checkpointing": True},
    "fp32-checkpointing": {"gradient_checkpointing": True},
    "bf16-fused": {"precision": "bf16", "fused": True},
    "bf16-accumulate": {"precision": "bf16", "accumulation_steps": 4},
    "bf16-channels-last": {"precision": "bf16", "channels_last": True},
    "tf32": {"tf32": True},
    "sgd": {"optimizer": "sgd"},
    "adafactor": {"optimizer": "adafactor"},
}


def recipe(name: str) -> mm.Recipe:
    return mm.Recipe(**RECIPES[name])


def transformer(kind: str, config: str, batch: Callable, **facts: Any) -> Callable[[], Workload]:
    """A transformers class built from its config; some facts are lists, which JSON-like configs want."""

    def make() -> Workload:
        def build() -> nn.Module:
            import transformers

            return getattr(transformers, kind)(getattr(transformers, config)(**facts))

        return Workload(build=build, batch=batch)

    return make


def module(build: Callable[[], nn.Module], batch: Callable, loss: Callable) -> Callable[[], Workload]:
    return lambda: Workload(build=build, batch=batch, loss=loss)


def tokens(vocabulary: int, length: int = 128, *, types: bool = False, labels: int | None = None) -> Callable:
    """Token ids with a mask; ``labels`` classes, or the ids themselves for a language model."""

    def batch(size: int, device: torch.device) -> dict[str, torch.Tensor]:
        ids = torch.randint(0, vocabulary - 1, (size, length), device=device)
        inputs = {"input_ids": ids, "attention_mask": torch.ones(size, length, dtype=torch.long, device=device)}
        if types:
            inputs["token_type_ids"] = torch.zeros(size, length, dtype=torch.long, device=device)
        inputs["labels"] = ids.clone() if labels is None else torch.randint(0, labels, (size,), device=device)
        return inputs

    return batch


def images(side: int = 224, labels: int = 1000) -> Callable:
    def batch(size: int, device: torch.device) -> dict[str, torch.Tensor]:
        pixels = torch.rand(size, 3, side, side, device=device)
        return {"pixel_values": pixels, "labels": torch.randint(0, labels, (size,), device=device)}

    return batch


def sound(size: int, device: torch.device) -> dict[str, torch.Tensor]:
    """Two seconds at 16 kHz."""
    return {
        "input_values": torch.rand(size, 32_000, device=device),
        "labels": torch.randint(0, 12, (size,), device=device),
    }


def spectrograms(size: int, device: torch.device) -> dict[str, torch.Tensor]:
    return {
        "input_features": torch.rand(size, 80, 3000, device=device),
        "labels": torch.randint(0, 50_000, (size, 32), device=device),
    }


def vectors(shape: tuple[int, ...], labels: int) -> Callable:
    def batch(size: int, device: torch.device) -> dict[str, torch.Tensor]:
        return {"x": torch.rand(size, *shape, device=device), "y": torch.randint(0, labels, (size,), device=device)}

    return batch


def pictures_and_masks(size: int, device: torch.device) -> dict[str, torch.Tensor]:
    return {
        "x": torch.rand(size, 3, 128, 128, device=device),
        "y": torch.randint(0, 8, (size, 128, 128), device=device),
    }


def word_ids(size: int, device: torch.device) -> dict[str, torch.Tensor]:
    ids = torch.randint(0, 20_000, (size, 65), device=device)
    return {"x": ids[:, :-1], "y": ids[:, 1:]}


def cross_entropy(model: Callable[..., torch.Tensor], batch: dict[str, torch.Tensor]) -> torch.Tensor:
    logits = model(batch["x"])
    classes_last = logits.dim() == 3
    return F.cross_entropy(
        logits.flatten(0, 1) if classes_last else logits, batch["y"].flatten() if classes_last else batch["y"]
    )


class Recurrent(nn.Module):
    """Word embeddings, a recurrent network of two layers, and a prediction of the next word."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.embed = nn.Embedding(20_000, 512)
        self.layers = kind(512, 512, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(512, 20_000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.layers(self.embed(x))
        return self.head(hidden)


class Encoder(nn.Module):
    """torch's own transformer layers over vectors."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.head = nn.Linear(512, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x).mean(1))


class UNet(nn.Module):
    """Down three times and up again, with skips; a class for every pixel."""

    def __init__(self) -> None:
        super().__init__()
        widths = [32, 64, 128, 256]
        self.down = nn.ModuleList(self._block(a, b) for a, b in zip([3, *widths], widths, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairwise(widths))
        self.join = nn.ModuleList(self._block(2 * width, width) for width in widths[:-1])
        self.head = nn.Conv2d(32, 8, 1)

    @staticmethod
    def _block(before: int, after: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, padding=1),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for index, block in enumerate(self.down):
            x = block(x if index == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for index in reversed(range(len(self.up))):
            x = self.join[index](torch.cat([skips[index], self.up[index](x)], 1))
        return self.head(x)


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(1024, 4096), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 100)
    )


SMALL_LLAMA = {
    "hidden_size": 768,
    "intermediate_size": 2048,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "vocab_size": 32_000,
}
ROBERTA_LARGE = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "vocab_size": 50_265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "num_labels": 2,
}

WORKLOADS: dict[str, Callable[[], Workload]] = {
    "bert": transformer("BertForSequenceClassification", "BertConfig", tokens(30_522, types=True, labels=2)),
    "bert-512": transformer("BertForSequenceClassification", "BertConfig", tokens(30_522, 512, types=True, labels=2)),
    "roberta-large": transformer(
        "RobertaForSequenceClassification", "RobertaConfig", tokens(50_000, labels=2), **ROBERTA_LARGE
    ),
    "distilbert": transformer("DistilBertForSequenceClassification", "DistilBertConfig", tokens(30_522, labels=2)),
    "electra": transformer("ElectraForSequenceClassification", "ElectraConfig", tokens(30_522, labels=2)),
    "gpt2": transformer("GPT2ForSequenceClassification", "GPT2Config", tokens(50_257, labels=2), pad_token_id=50_256),
    "gpt2-lm": transformer("GPT2LMHeadModel", "GPT2Config", tokens(50_257)),
    "llama": transformer("LlamaForCausalLM", "LlamaConfig", tokens(32_000), **SMALL_LLAMA),
    "llama-512": transformer("LlamaForCausalLM", "LlamaConfig", tokens(32_000, 512), **SMALL_LLAMA),
    "qwen3": transformer(
        "Qwen3ForCausalLM",
        "Qwen3Config",
        tokens(50_000, 256),
        hidden_size=512,
        intermediate_size=1536,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=128,
        vocab_size=151_936,
    ),
    "gemma": transformer(
        "GemmaForCausalLM",
        "GemmaConfig",
        tokens(50_000, 256),
        hidden_size=512,
        intermediate_size=2048,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
        vocab_size=64_000,
    ),
    "t5": transformer("T5ForConditionalGeneration", "T5Config", tokens(32_000), decoder_start_token_id=0),
    "bart": transformer(
        "BartForConditionalGeneration",
        "BartConfig",
        tokens(50_000),
        d_model=768,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
    ),
    "resnet": transformer("ResNetForImageClassification", "ResNetConfig", images(), num_labels=1000),
    "convnext": transformer("ConvNextForImageClassification", "ConvNextConfig", images(), num_labels=1000),
    "mobilenet": transformer("MobileNetV2ForImageClassification", "MobileNetV2Config", images(), num_labels=1000),
    "efficientnet": transformer(
        "EfficientNetForImageClassification",
        "EfficientNetConfig",
        images(),
        num_labels=1000,
        width_coefficient=1.0,
        depth_coefficient=1.0,
        hidden_dim=1280,
        image_size=224,
        dropout_rate=0.2,
    ),
    "vit": transformer("ViTForImageClassification", "ViTConfig", images(), num_labels=1000),
    "swin": transformer("SwinForImageClassification", "SwinConfig", images(), num_labels=1000),
    "wav2vec2": transformer(
        "Wav2Vec2ForSequenceClassification",
        "Wav2Vec2Config",
        sound,
        num_labels=12,
        layerdrop=0.0,
        apply_spec_augment=False,
    ),
    "whisper": transformer("WhisperForConditionalGeneration", "WhisperConfig", spectrograms),
    "mlp": module(mlp, vectors((1024,), 100), cross_entropy),
    "torch-encoder": module(Encoder, vectors((196, 512), 10), cross_entropy),
    "unet": module(UNet, pictures_and_masks, cross_entropy),
    "lstm": module(lambda: Recurrent(nn.LSTM), word_ids, cross_entropy),
    "gru": module(lambda: Recurrent(nn.GRU), word_ids, cross_entropy),
}

PAIRS: list[tuple[str, str]] = [
    *(
        ("bert", name)
        for name in ("fp32", "bf16", "published", "fp16", "bf16-checkpointing", "adafactor", "bf16-fused")
    ),
    ("bert", "bf16-accumulate"),
    ("bert", "tf32"),
    ("bert-512", "bf16"),
    ("bert-512", "fp32"),
    ("roberta-large", "fp32"),
    ("roberta-large", "bf16"),
    ("distilbert", "sgd"),
    ("gpt2", "fp32"),
    ("gpt2", "bf16"),
    ("gpt2", "published"),
    ("gpt2-lm", "bf16"),
    ("gpt2-lm", "fp32"),
    ("llama", "bf16"),
    ("llama", "fp32"),
    ("llama-512", "bf16-checkpointing"),
    ("t5", "fp32"),
    ("t5", "bf16"),
    ("resnet", "fp32"),
    ("resnet", "bf16"),
    ("resnet", "published"),
    ("resnet", "bf16-channels-last"),
    ("convnext", "fp32"),
    ("convnext", "bf16"),
    ("mobilenet", "fp32"),
    ("vit", "bf16"),
    ("vit", "fp32"),
    ("wav2vec2", "bf16"),
    ("wav2vec2", "fp32"),
    ("mlp", "fp32"),
    ("torch-encoder", "bf16"),
    ("torch-encoder", "fp32"),
    ("unet", "fp32"),
    ("swin", "fp32"),
    ("lstm", "fp32"),
    ("lstm", "bf16"),
]
HELD_BACK: list[tuple[str, str]] = [
    ("electra", "bf16"),
    ("qwen3", "bf16"),
    ("gemma", "bf16"),
    ("bart", "bf16"),
    ("bart", "fp32"),
    ("efficientnet", "bf16"),
    ("swin", "bf16"),
    ("whisper", "fp32"),
    ("unet", "bf16"),
    ("gru", "fp32"),
    ("gru", "bf16"),
    ("distilbert", "fp16"),
]
