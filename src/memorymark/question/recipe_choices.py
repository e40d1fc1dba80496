"""What the options of a recipe that are choices may be, and the synonyms of each."""

from __future__ import annotations

from typing import Literal, get_args

from memorymark.checks.choices import Choice

Precision = Literal["fp32", "bf16", "fp16"]
Optimizer = Literal["adamw", "adam", "sgd", "adafactor", "lion", "muon", "adamw8bit", "paged-adamw8bit", "none"]
OptimizerVariant = Literal["auto", "foreach", "forloop"]
Attention = Literal["auto", "eager", "sdpa", "flash"]
Loss = Literal["model", "mean", "chunked"]
AllocatorKind = Literal["default", "expandable"]
Weights = Literal["auto", "fp32", "bf16", "fp16", "int8", "nf4"]
LoraVariant = Literal["lora", "dora", "rslora"]
Checkpointing = Literal["none", "full", "selective"]
Offload = Literal["none", "activations", "optimizer"]
Strategy = Literal["auto", "ddp", "zero1", "zero2", "zero3", "fsdp", "hsdp"]

PRECISION = Choice(
    "precision",
    get_args(Precision),
    {
        **dict.fromkeys(("float32", "float", "f32", "single", "full", "32-true"), "fp32"),
        **dict.fromkeys(("bfloat16", "bfloat", "brain float 16", "bf16-mixed"), "bf16"),
        **dict.fromkeys(("float16", "half", "f16", "16-mixed", "fp16-mixed"), "fp16"),
    },
)
WEIGHTS = Choice(
    "weights",
    get_args(Weights),
    {
        **dict.fromkeys(("float32", "float", "f32"), "fp32"),
        **dict.fromkeys(("bfloat16", "bf16-true"), "bf16"),
        **dict.fromkeys(("float16", "half", "f16", "16-true"), "fp16"),
        **dict.fromkeys(("8bit", "8-bit", "llm.int8", "load_in_8bit"), "int8"),
        **dict.fromkeys(("4bit", "4-bit", "qlora", "load_in_4bit"), "nf4"),
    },
)
OPTIMIZER = Choice(
    "optimizer",
    get_args(Optimizer),
    {
        **dict.fromkeys(("adamw_torch", "adamw_hf"), "adamw"),
        **dict.fromkeys(("sgd_momentum", "momentum"), "sgd"),
        **dict.fromkeys(("adamw_bnb_8bit", "bnb_adamw8bit", "8bit_adamw", "bitsandbytes.optim.AdamW8bit"), "adamw8bit"),
        **dict.fromkeys(("paged_adamw_8bit", "bitsandbytes.optim.PagedAdamW8bit"), "paged-adamw8bit"),
        **dict.fromkeys(("lion_32bit", "bitsandbytes.optim.Lion"), "lion"),
        "no optimizer": "none",
    },
)
OPTIMIZER_VARIANT = Choice(
    "optimizer_variant",
    get_args(OptimizerVariant),
    {"default": "auto", **dict.fromkeys(("single_tensor", "loop"), "forloop"), "multi_tensor": "foreach"},
)
ATTENTION = Choice(
    "attention",
    get_args(Attention),
    {
        "default": "auto",
        **dict.fromkeys(("scaled_dot_product_attention", "scaled_dot_product"), "sdpa"),
        **dict.fromkeys(("flash_attention_2", "flash_attention_3", "flash_attn", "fa2", "fa3"), "flash"),
    },
)
LOSS = Choice("loss", get_args(Loss), dict.fromkeys(("liger", "fused_linear_cross_entropy"), "chunked"))
ATTENTION_WORDS = {"eager": "eager attention", "sdpa": "SDPA attention", "flash": "flash attention"}
LOSS_WORDS = {"mean": "mean of the logits as loss", "chunked": "chunked loss"}
CHECKPOINTING = Choice(
    "gradient_checkpointing",
    get_args(Checkpointing),
    {
        **dict.fromkeys(("true", "yes", "on"), "full"),
        **dict.fromkeys(("false", "no", "off"), "none"),
        **dict.fromkeys(("sac", "op"), "selective"),
    },
)
OFFLOAD = Choice("offload", get_args(Offload), {"activation": "activations", "optimizer_state": "optimizer"})
LORA_VARIANT = Choice("lora_variant", get_args(LoraVariant), {"use_dora": "dora", "use_rslora": "rslora"})
ALLOCATOR = Choice("allocator", get_args(AllocatorKind), {"expandable_segments": "expandable", "segments": "default"})
STRATEGY = Choice(
    "strategy",
    get_args(Strategy),
    {
        **dict.fromkeys(("distributed_data_parallel", "data parallel"), "ddp"),
        **dict.fromkeys(("fsdp2", "fully_shard", "full_shard"), "fsdp"),
        **dict.fromkeys(("shard_grad_op", "zero-2", "zero_2"), "zero2"),
        **dict.fromkeys(("hybrid_shard", "hybrid"), "hsdp"),
        **dict.fromkeys(("zero-1", "zero_1"), "zero1"),
        **dict.fromkeys(("zero-3", "zero_3"), "zero3"),
    },
)
