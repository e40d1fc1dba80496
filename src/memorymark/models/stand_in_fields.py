"""What configs leave to their class, and the class does not say, or says so that the parts do not fit. No torch.

A stand-in of nothing but a ``model_type`` takes it from here; a published config says it itself.
"""

from __future__ import annotations

from typing import Any

Fields = dict[str, Any]
_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_FEW_EXPERTS = {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1}
_DEEPSEEK_V2 = {"num_experts_per_tok": 2, "n_group": 1, "topk_group": 1}
_QWEN4 = {
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 256,
    "indexer_budget": 32,
    "indexer_compress_ratio": 4,
    "output_gate_type": "sigmoid",
}
_BERT = {"model_type": "bert"}
_WRITER = {**_BERT, "is_decoder": True, "add_cross_attention": True}
_GEMMA4_IMAGES = {"vision_config": {"model_type": "gemma4_vision"}}
_OMNI = {"vision_start_token_id": 151652, "vision_end_token_id": 151653, "audio_start_token_id": 151647}
_OVER_IMAGES = {**_ROPE, "mrope_section": [16, 24, 24]}
_RESNET = {
    "use_timm_backbone": False,
    "backbone": None,
    "backbone_config": {"model_type": "resnet", "out_features": ["stage2", "stage3", "stage4"]},
}
_UNFOLDED = {
    "backbone_config": {
        "model_type": "dinov2",
        "hidden_size": 384,
        "num_attention_heads": 6,
        "reshape_hidden_states": False,
        "out_indices": [3, 6, 9, 12],
    }
}
_MUSIC = {
    "text_encoder": {"model_type": "t5"},
    "audio_encoder": {"model_type": "encodec"},
    "decoder": {"model_type": "musicgen_decoder"},
}
_SIGLIP = {"image_size": 896, "patch_size": 14}


def _reads(width: int, field: str = "out_hidden_size") -> Fields:
    """Returns a vision part whose features are as wide as the text's."""
    return {"vision_config": {field: width}}


LEFT_OPEN: dict[str, Fields] = {
    "depth_anything": _UNFOLDED,
    "prompt_depth_anything": _UNFOLDED,
    "bamba": {"attn_layer_indices": [1]},
    "blt": {"use_cache": False},
    "chameleon": {"vocabulary_map": {"<image>": 4}, "image_token_id": 4},
    "depth_pro": {"intermediate_hook_ids": [1, 0]},
    "eomt": {"num_blocks": 1},
    "eomt_dinov3": {"num_blocks": 1},
    "lw_detr": {"projector_scale_factors": [1.0]},
    "musicgen": _MUSIC,
    "musicgen_melody": _MUSIC,
    "rf_detr": {
        "backbone_config": {
            "model_type": "rf_detr_dinov2",
            "image_size": 384,
            "patch_size": 16,
            "num_windows": 2,
            "out_indices": [2, 5, 8, 11],
            "window_block_indexes": [0, 1, 3, 4, 6, 7, 9, 10],
        }
    },
    "sapiens2": {
        "head_config": {
            "upsample_out_channels": [768, 768, 512, 512],
            "use_pixel_shuffle": True,
            "upsample_kernel_size": 3,
            "conv_out_channels": [128, 128],
        }
    },
    "granitemoehybrid": {"layer_types": ["mamba", "attention"], "num_hidden_layers": 2},
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "conditional_detr": _RESNET,
    "dab-detr": _RESNET,
    "deformable_detr": _RESNET,
    "detr": _RESNET,
    "table-transformer": _RESNET,
    "beit": {"out_indices": [3, 5, 7, 11]},
    "data2vec-vision": {"out_indices": [3, 5, 7, 11]},
    "upernet": {"backbone_config": {"model_type": "resnet", "out_features": ["stage1", "stage2", "stage3", "stage4"]}},
    "aria": {"vision_config": {"image_size": 490, "patch_size": 14}},
    "gemma3": {"vision_config": _SIGLIP},
    "shieldgemma2": {"vision_config": _SIGLIP},
    "t5gemma2": {"encoder": {"vision_config": _SIGLIP}},
    "glm4v_moe": {"text_config": {"head_dim": 128}},
    "granite_speech": {"projector_config": {"encoder_hidden_size": 1024}},
    "granite_speech_plus": {"projector_config": {"encoder_hidden_size": 1024}},
    "janus": _reads(4096, "projection_dim"),
    "moonshine": {"pad_token_id": 2},
    "moonshine_streaming": {"pad_token_id": 2, "num_key_value_heads": 8},
    "qwen2_5_omni_thinker": _OMNI,
    "vipllava": {"vision_feature_layers": [-2, -1]},
    "voxtral": {"audio_token_id": 24},
    "mllama": {
        "vision_config": {"intermediate_layers_indices": [0, 0, 1, 1, 1]},
        "text_config": {"cross_attention_layers": [1]},
    },
    "deepseek_vl_hybrid": {"high_res_vision_config": {"global_attn_indexes": [0, 1]}},
    "blip-2": {"image_token_index": 2},
    "cohere_compass": {
        **_reads(8192),
        "text_config": {"rope_parameters": {"full_attention": _ROPE, "sliding_attention": _ROPE}},
    },
    "cohere_compass_text": {"rope_parameters": {"full_attention": _ROPE, "sliding_attention": _ROPE}},
    "cosmos3_omni": _reads(4096),
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "clip_qkv": 8}},
    "deepseek_ocr2": {
        "text_config": {**_DEEPSEEK_V2, "mlp_layer_types": ["dense", "sparse"], "num_hidden_layers": 2},
        "vision_config": {"encoder_config": {"hidden_size": 896, "num_attention_heads": 14, "num_key_value_heads": 2}},
    },
    "deepseek_v2": _DEEPSEEK_V2,
    "dots1": _FEW_EXPERTS,
    "encoder-decoder": {"pad_token_id": 0, "decoder_start_token_id": 0, "encoder": _BERT, "decoder": _WRITER},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "exaone4_5": _reads(4096),
    "gemma4": _GEMMA4_IMAGES,
    "gemma4_unified": {"vision_config": {"model_type": "gemma4_unified_vision"}},
    "glm4v": {"text_config": {"rope_parameters": _OVER_IMAGES}},
    "glm46v": {"text_config": {"rope_parameters": _OVER_IMAGES}},
    "glmga": {"text_config": {"rope_parameters": _OVER_IMAGES}},
    "glm5_next": _reads(4096),
    "glm_ocr": _reads(1024),
    "granite4_vision": {
        "downsample_rate": "1/2",
        "deepstack_layer_map": [[0, 0]],
        "spatial_target_layers": [1],
        "vision_feature_layer": -1,
        "vision_feature_select_strategy": "full",
        "text_config": {"model_type": "granite4_vision_text"},
        "vision_config": {"model_type": "siglip_vision_model"},
    },
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "hunyuan_vl": {"text_config": {"head_dim": 128, "rope_parameters": {**_ROPE, "mrope_section": [16, 16, 16, 16]}}},
    "instructblip": {"image_token_index": 2},
    "instructblipvideo": {"video_token_index": 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 8},
    "ovis2": {
        "text_config": {"hidden_size": 1536, "num_attention_heads": 12, "num_key_value_heads": 12},
        "hidden_size": 1536,
    },
    "paddleocr_vl": {"text_config": {"rope_parameters": _OVER_IMAGES}},
    "qwen2_5_vl": _reads(8192),
    "qwen2_vl": _reads(8192, "hidden_size"),
    "qwen3_5": _reads(4096),
    "qwen3_5_moe": _reads(2048),
    "qwen3_omni_moe_thinker": {**_OMNI, **_reads(2048)},
    "qwen3_vl": _reads(4096),
    "qwen3_vl_moe": _reads(2048),
    "qwen4_exp": {"text_config": _QWEN4, "vision_config": {"out_hidden_size": 2048}},
    "qwen4_exp_text": _QWEN4,
    "reformer": {"axial_pos_shape": [8, 8]},
    "speech-encoder-decoder": {
        "encoder": {"model_type": "wav2vec2"},
        "pad_token_id": 0,
        "decoder_start_token_id": 0,
        "decoder": _WRITER,
    },
    "step3p7": {"text_config": {"sliding_window": 512}},
    "vision-encoder-decoder": {
        "encoder": {"model_type": "vit"},
        "pad_token_id": 0,
        "decoder_start_token_id": 0,
        "decoder": _WRITER,
    },
    "vision-text-dual-encoder": {"vision_config": {"model_type": "vit"}, "text_config": _BERT},
    "wav2vec2-bert": {"vocab_size": 32},
    "wav2vec2-conformer": {"vocab_size": 32},
    "xmod": {"default_language": "en_XX"},
}

# What a stand-in needs that has fewer layers than its class allows.
LEAST: dict[str, Fields] = {
    "zamba": {
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
        "num_hidden_layers": 4,
    },
}


def filled_in(facts: Fields) -> Fields:
    """Returns a config with what its class leaves open; what the config says itself stays."""
    return _with(LEFT_OPEN.get(facts.get("model_type", ""), {}), facts)


def _with(usual: Fields, given: Fields) -> Fields:
    both = {
        key: _with(usual[key], given[key])
        for key in usual
        if isinstance(usual[key], dict) and isinstance(given.get(key), dict)
    }
    return {**usual, **given, **both}
