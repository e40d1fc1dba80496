"""What benchmarks/unseen.py asks: trainings of twelve families that no rule of the prediction was made with.

None of them is a pair of benchmarks/zoo.py, any_model.py, llm_cases.py or keep_outputs.py. A model is an id of the
catalog, a function of a file beside this one, or the fields of a config.json.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

BF16: dict[str, Any] = {"precision": "bf16"}
FP16: dict[str, Any] = {"precision": "fp16"}
LAST: dict[str, Any] = {**BF16, "channels_last": True}
KEPT: dict[str, Any] = {**BF16, "keep_outputs": True}


@dataclass(frozen=True)
class Case:
    """A training: a model, options by their names, and the cap in GiB under which its largest batch is compared."""

    family: str
    model: str
    options: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] | None = None
    cap_gib: float = 14.2
    file: str = ""

    @property
    def name(self) -> str:
        """What tells it from other cases."""
        said = " ".join(str(value) if value is not True else key for key, value in self.options.items())
        return f"{self.model} {said}".strip()


def of_config(family: str, model: str, options: dict[str, Any], cap_gib: float = 14.2, **config: Any) -> Case:
    """A model of transformers by the fields of its config."""
    return Case(family, model, options, config, cap_gib)


SMALL_DECODER = {"num_hidden_layers": 8, "hidden_size": 768, "num_attention_heads": 12, "vocab_size": 32_000}
GROUPED = {**SMALL_DECODER, "intermediate_size": 2048, "num_key_value_heads": 4}

CASES = [
    # Encoders
    Case("encoder", "albert", BF16),
    Case("encoder", "minilm", {}),
    Case("encoder", "xlm-roberta", {**BF16, "seq_len": 256}),
    Case("encoder", "deberta-v3", {**FP16, "task": "token-classification"}),
    Case("encoder", "electra-small", {"optimizer": "sgd", "seq_len": 512}),
    of_config("encoder", "mpnet", {**BF16, "task": "masked-lm"}, model_type="mpnet"),
    of_config("encoder", "fnet", {**BF16, "task": "sequence-classification"}, model_type="fnet"),
    of_config("encoder", "nystromformer", {"task": "masked-lm", "seq_len": 512}, model_type="nystromformer"),
    # Decoders
    Case("decoder", "pythia-160m", {**BF16, "seq_len": 512}),
    Case("decoder", "smollm2-135m", {"seq_len": 256}),
    Case("decoder", "bloom-560m", {**BF16, "seq_len": 256, "gradient_checkpointing": True}, cap_gib=21.7),
    Case("decoder", "gemma-3-270m", {**BF16, "seq_len": 512, "loss": "chunked"}, cap_gib=21.7),
    Case("decoder", "biogpt", {**KEPT, "seq_len": 256}),
    Case("decoder", "qwen3-0.6b", {"weights": "bf16", "seq_len": 1024, "accumulation_steps": 4}, cap_gib=21.7),
    of_config(
        "decoder",
        "phi",
        {**BF16, "task": "causal-lm", "seq_len": 512},
        model_type="phi",
        **SMALL_DECODER,
        intermediate_size=3072,
    ),
    of_config(
        "decoder",
        "stablelm",
        {"task": "causal-lm", "seq_len": 512},
        model_type="stablelm",
        **GROUPED,
        tie_word_embeddings=True,
    ),
    of_config("decoder", "cohere", {**BF16, "task": "causal-lm", "seq_len": 512}, model_type="cohere", **GROUPED),
    of_config(
        "decoder",
        "codegen",
        {**FP16, "task": "causal-lm", "seq_len": 256},
        model_type="codegen",
        n_embd=768,
        n_head=12,
        n_layer=8,
        rotary_dim=32,
    ),
    # Other mixers of tokens
    of_config(
        "state space",
        "mamba",
        {**BF16, "task": "causal-lm", "seq_len": 256},
        model_type="mamba",
        num_hidden_layers=8,
        hidden_size=512,
        vocab_size=32_000,
    ),
    of_config(
        "state space",
        "rwkv",
        {"task": "causal-lm", "seq_len": 64},
        model_type="rwkv",
        num_hidden_layers=4,
        hidden_size=512,
        vocab_size=32_000,
    ),
    # Mixtures of experts
    of_config(
        "mixture",
        "qwen2_moe",
        {**BF16, "task": "causal-lm", "seq_len": 512},
        21.7,
        model_type="qwen2_moe",
        num_hidden_layers=6,
        hidden_size=512,
        num_attention_heads=8,
        num_key_value_heads=2,
        moe_intermediate_size=512,
        shared_expert_intermediate_size=1024,
        num_experts=16,
        num_experts_per_tok=4,
        vocab_size=32_000,
    ),
    of_config(
        "mixture",
        "granitemoe",
        {**BF16, "task": "causal-lm", "seq_len": 512},
        model_type="granitemoe",
        num_hidden_layers=6,
        hidden_size=512,
        intermediate_size=512,
        num_attention_heads=8,
        num_key_value_heads=4,
        num_local_experts=8,
        num_experts_per_tok=2,
        vocab_size=32_000,
    ),
    # Encoder-decoders
    Case("encoder-decoder", "flan-t5-small", BF16),
    of_config(
        "encoder-decoder",
        "pegasus",
        {**BF16, "task": "seq2seq-lm"},
        model_type="pegasus",
        d_model=512,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
        vocab_size=32_000,
    ),
    of_config(
        "encoder-decoder",
        "m2m_100",
        {"task": "seq2seq-lm"},
        model_type="m2m_100",
        d_model=512,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
        vocab_size=64_000,
    ),
    of_config(
        "encoder-decoder",
        "longt5",
        {**BF16, "task": "seq2seq-lm", "seq_len": 512},
        model_type="longt5",
        d_model=512,
        d_kv=64,
        d_ff=1024,
        num_layers=6,
        num_heads=8,
        vocab_size=32_000,
    ),
    # Images
    Case("vision transformer", "dinov2-base", BF16),
    Case("vision transformer", "deit-small", {"optimizer": "lion"}),
    of_config("vision transformer", "pvt_v2", {**BF16, "task": "image-classification"}, model_type="pvt_v2"),
    of_config(
        "vision transformer",
        "swinv2",
        {**BF16, "task": "image-classification"},
        model_type="swinv2",
        image_size=256,
        window_size=8,
    ),
    of_config("vision transformer", "beit", {**FP16, "task": "image-classification"}, model_type="beit"),
    of_config("vision transformer", "segformer", {"task": "image-classification"}, model_type="segformer"),
    Case("convolution", "resnet-18", LAST),
    Case("convolution", "efficientnet-b0", {}),
    of_config("convolution", "regnet", {**BF16, "task": "image-classification"}, model_type="regnet"),
    of_config("convolution", "convnextv2", {**LAST, "task": "image-classification"}, model_type="convnextv2"),
    of_config("convolution", "poolformer", {"task": "image-classification"}, model_type="poolformer"),
    of_config("convolution", "mobilenet_v1", {**BF16, "task": "image-classification"}, model_type="mobilenet_v1"),
    # Sound
    Case("sound", "wavlm-base", BF16),
    Case("sound", "whisper-base", {"seq_len": 64}),
    of_config("sound", "sew", {**BF16, "task": "audio-classification"}, model_type="sew"),
    of_config("sound", "data2vec-audio", {"task": "ctc"}, model_type="data2vec-audio"),
    # Images and texts
    Case("images and texts", "siglip-base", BF16),
    Case("images and texts", "blip-captioning", {}),
    of_config("images and texts", "altclip", {**BF16, "task": "contrastive"}, model_type="altclip"),
    # Plain modules
    *(
        Case("plain convolutions", f"{name}()", options, cap_gib=cap_gib, file="unseen_convolutions.py")
        for name, options, cap_gib in (
            ("vgg", {}, 14.2),
            ("vgg", LAST, 14.2),
            ("waves", BF16, 9.5),
            ("dilated", {}, 9.5),
            ("volumes", BF16, 21.7),
            ("volumes", {}, 21.7),
            ("autoencoder", {}, 9.5),
            ("separable", BF16, 9.5),
            ("super_resolution", BF16, 14.2),
            ("twins", {"optimizer": "sgd"}, 9.5),
        )
    ),
    *(
        Case("pixels", f"{name}()", options, file="unseen_convolutions.py")
        for name, options in (("segmenter", {}), ("segmenter", BF16), ("diffusion", BF16), ("diffusion", {}))
    ),
    *(
        Case("recurrent", f"{name}()", options, cap_gib=9.5, file="unseen_nets.py")
        for name, options in (("cells", {}), ("cells", BF16), ("gated", {}), ("recurrent_speech", {}))
    ),
    *(
        Case("plain modules", f"{name}()", options, cap_gib=9.5, file="unseen_nets.py")
        for name, options in (
            ("mixer", BF16),
            ("points", {}),
            ("wide_and_deep", {}),
            ("variational", {}),
            ("graph", BF16),
            ("nano", BF16),
            ("nano", {"fused": True}),
        )
    ),
]
