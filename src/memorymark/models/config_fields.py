"""Filters a config.json for transformers: keeps the fields its classes read, and refuses strings that lead elsewhere.

Worker side: inspects classes of transformers. A config is untrusted text. Its values may be numbers, switches or names
of choices; a path, an address or another model's name would make a library open or fetch it.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from memorymark.errors import UsageError
from memorymark.question.timm_names import SPELLED as TIMM_NAME

# Read by the base classes of transformers or through the model's text part, so allowed for every class.
OF_ALL_MODELS = {
    *("add_cross_attention", "decoder_start_token_id", "head_dim", "id2label", "is_decoder", "is_encoder_decoder"),
    *("layer_types", "max_position_embeddings", "num_labels", "original_max_position_embeddings"),
    *("partial_rotary_factor", "per_layer_config", "problem_type", "rope_parameters", "rope_scaling", "rope_theta"),
    *("rotary_emb_base", "rotary_pct", "tie_word_embeddings", "architectures", "model_type"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id"),
}
# The name of an activation, a norm, a class: no slash, no colon, no tilde.
WORD = re.compile(r"[\w.+=,() -]*", re.ASCII)
LONGEST_WORD = 100
# A ratio, as Granite's downsampling.
RATIO = re.compile(r"\d{1,3}/\d{1,3}")
READS = re.compile(r"config\.(\w+)|[\"'](\w+)[\"']")


def only_known(facts: dict[str, Any], config_class: Any) -> dict[str, Any]:
    """Returns the config without the fields that its class does not read; refuses strings that lead elsewhere."""
    return {
        key: _checked(key, value, config_class)
        for key, value in facts.items()
        if key == "id2label" or key in known_fields(config_class)
    }


@cache
def known_fields(config_class: Any) -> frozenset[str]:
    """Returns the fields that a class declares, or that its code or its model's code reads."""
    from transformers import PreTrainedConfig

    declared = {field.name for field in fields(config_class)}
    # Some classes declare a part only as a config; attributes of the base class are not fields of a model.
    parts = [
        one for one in config_class.sub_configs.values() if hasattr(one, "sub_configs") and one is not PreTrainedConfig
    ]
    read = {*OF_ALL_MODELS, *config_class.attribute_map, *config_class.sub_configs, *_read_by_code(config_class)}
    read |= {name for part in parts if part is not config_class for name in known_fields(part)}
    read -= vars(PreTrainedConfig).keys() - OF_ALL_MODELS
    # A field must not replace a method.
    return frozenset(declared | {name for name in read if not callable(getattr(config_class, name, None))})


def _read_by_code(config_class: Any) -> set[str]:
    """Returns field names in the source of a class and its models: older spellings and undeclared fields."""
    try:
        folder = Path(inspect.getfile(config_class)).parent
        sources = [*folder.glob("configuration_*.py"), *folder.glob("modeling_*.py")]
        texts = [source.read_text(encoding="utf-8") for source in sources]
    except (OSError, TypeError):  # installed without its source
        return set()
    return {name for text in texts for pair in READS.findall(text) for name in pair if name}


def _checked(key: str, value: Any, config_class: Any) -> Any:
    """Returns the value of a field without unknown parts; refuses values that are not plain."""
    if key == "id2label" and isinstance(value, dict):
        return {number: f"LABEL_{number}" for number in value}  # only their number matters; labels may be any text
    if key == "architectures" and isinstance(value, list):
        return [name for name in value if isinstance(name, str) and name.isidentifier()]
    if key == "model_args" and value:
        raise UsageError(
            "the config passes arguments to timm; name the model instead, such as timm:vit_base_patch16_224.",
            code="bad_config",
            field="config",
        )
    if key == "architecture" and not (isinstance(value, str) and TIMM_NAME.fullmatch(value)):
        raise UsageError(
            "the architecture of the config is not a timm model; name one, such as timm:resnet50.",
            code="bad_config",
            field="config",
        )
    if isinstance(value, dict):
        part = _part(key, value, config_class)
        if part is not None:
            return only_known(value, part)
        return {_word(key, name): _checked(key, item, None) for name, item in value.items()}
    if isinstance(value, list):
        return [_checked(key, item, None) for item in value]
    return _word(key, value) if isinstance(value, str) else value


def _part(key: str, value: dict[str, Any], config_class: Any) -> Any:
    """Returns the class of a part of a config, such as its text or its images."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    declared = config_class.sub_configs.get(key) if config_class is not None else None
    from transformers import PreTrainedConfig

    if declared is not None and hasattr(declared, "sub_configs") and declared is not PreTrainedConfig:
        return declared
    family = value.get("model_type")
    if isinstance(family, str) and family in CONFIG_MAPPING:
        return CONFIG_MAPPING[family]
    return None


def _word(key: str, text: str) -> str:
    if RATIO.fullmatch(text):
        return text
    if len(text) > LONGEST_WORD or not WORD.fullmatch(text) or ".." in text:
        raise UsageError(
            f"{key[:LONGEST_WORD]!r} of the config holds a path, an address or the name of another model, which is not "
            "allowed; leave it out.",
            code="bad_config",
            field="config",
        )
    return text
