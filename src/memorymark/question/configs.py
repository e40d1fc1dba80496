"""Configs of transformers as JSON objects: read, checked, cut down. No torch, no transformers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.units import KIB, format_bytes

LARGEST_CONFIG_BYTES = 256 * KIB
# The first bytes of other files that people give instead of a config.
MAGIC = {
    b"\x80": "a pickle",
    b"PK": "a zip archive, as torch.save writes",
    b"GGUF": "a GGUF file",
    b"\x89HDF": "an HDF5 file",
}
# Fields about how to build a model, not what to build; the recipe sets types, and `quantization.py` reads its field.
LEFT_OUT = {
    "_attn_implementation",
    "_attn_implementation_internal",
    "_experts_implementation",
    "_name_or_path",
    "attn_implementation",
    "auto_map",
    "backbone_kwargs",
    "dtype",
    "experts_implementation",
    "name_or_path",
    "quantization_config",
    "torch_dtype",
    "use_kernels",
    "use_pretrained_backbone",
}
LAYERS = {
    "decoder_layers",
    "depth",
    "encoder_layers",
    "n_layer",
    "n_layers",
    "num_decoder_layers",
    "num_encoder_layers",
    "num_hidden_layers",
    "num_layers",
}
# Lists that give the kind of each layer, such as full or linear attention.
KINDS = ("layer_types", "layers_block_type", "mlp_layer_types")
# Fields that say which layers of a hybrid attend, and what they say in a stand-in, whose second one does.
PLACES: dict[str, Any] = {"attn_layer_period": 2, "attn_layer_offset": 1, "attn_layer_indices": [1]}
# Which layers' outputs the rest of a model reads: none of them can be left out.
TAPPED = ("out_indices", "backbone_out_indices")
# The kinds of layers that take turns, and lists of kinds with how often they do.
TURNS, REPEATED = "block_types", "attention_types"
TOKENS = ("_token_id", "_token_index")
# Fields that count parts of a model. Counts above MOST_PARTS would keep a worker busy and fill its memory.
COUNTS = re.compile(r"(.*_)?(layers?|blocks?|stages?|experts?|heads?|depths?)")
MOST_PARTS = 20_000
# What families call the number of experts of a layer, and how many of them a token uses.
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
ACTIVE_EXPERTS = ("num_experts_per_tok", "num_experts_per_token", "moe_top_k", "moe_topk")
FAMILY = re.compile(r"[\w.-]{1,100}", re.ASCII)
LABELS = ("num_labels", "num_classes")
MOST_LABELS = 1_000_000
LARGEST_NUMBER = 2**53
STAND_IN_LAYERS = 2
STAND_IN_WORDS = 2048


def read_config(path: str) -> dict[str, Any]:
    """Reads the config in a folder or a file."""
    file = Path(path)
    try:
        if file.is_dir():
            file = file / "config.json"
            if not file.is_file():
                raise _unreadable(path, f"{path} has no config.json; give a folder that has one, or the file itself.")
        elif not file.exists():
            raise _unreadable(path, f"there is no {path}; give a folder with a config.json, or a Hugging Face id.")
        elif not file.is_file():
            raise _unreadable(path, f"{path} is neither a folder nor a file; give a folder with a config.json.")
        with file.open("rb") as opened:
            content = opened.read(LARGEST_CONFIG_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable(path, f"{path} cannot be read: {reason}; give a folder with a config.json.") from None
    return parse_config(content, str(file))


def parse_config(content: bytes, name: str) -> dict[str, Any]:
    """Parses a config; ``name`` is what errors call it."""
    for start, what in MAGIC.items():
        if content.startswith(start):
            raise _no_config(f"{name} is {what}, not a config; nothing in it was loaded. Give its model's config.json.")
    if b"\0" in content[:1024]:
        raise _no_config(f"{name} is a binary file, not a config; give its model's config.json.")
    if len(content) > LARGEST_CONFIG_BYTES:
        raise too_large_config(name)
    try:
        config = json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise _no_config(f"{name} is not JSON ({reason}); give a config.json as transformers writes it.") from None
    if not isinstance(config, dict):
        raise _no_config(f"{name} is not a JSON object; give a config.json as transformers writes it.")
    return config


def _unreadable(path: str, sentence: str) -> UsageError:
    return UsageError(sentence, code="not_readable", field="model", given=path)


def _no_config(sentence: str | Message) -> UsageError:
    return UsageError(sentence, code="bad_config", field="config")


def too_large_config(name: str) -> UsageError:
    """Returns the error for a file that is too large to be a config."""
    return _no_config(f"{name} is larger than {format_bytes(LARGEST_CONFIG_BYTES)}, too large for a model's config.")


def check_config(config: Any, name: str, *, may_run_code: bool = False) -> None:
    """Raises if ``config`` cannot be the config of a model."""
    if not isinstance(config, dict):
        raise _no_config(f"the config must be an object, the content of a config.json, not {type(config).__name__}.")
    try:
        size = len(json.dumps(config, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        raise _no_config("the config must hold JSON values only, as a config.json does.") from None
    if size > LARGEST_CONFIG_BYTES:
        raise too_large_config("the config")
    _check_numbers(config)
    _check_experts(config)
    family = config.get("model_type")
    if isinstance(family, str) and not FAMILY.fullmatch(family):
        raise _no_config("the config's model_type is not a valid name; give one such as bert.")
    if isinstance(config.get("model_type"), str) or (may_run_code and "auto_map" in config):
        return
    if isinstance(config.get("architecture"), str):
        raise _no_config(f"{name} is the config of a timm model; name it as timm:{config['architecture']}.")
    if "auto_map" in config:
        raise _no_config(
            Message("{name} comes with its own code; use {trust_remote_code:True} if you trust it.", name=name)
        )
    if "base_model_name_or_path" in config:
        raise _no_config(f"{name} is the config of an adapter; give that of its base model.")
    raise _no_config(f"{name} has no model_type, so it is not a model's config; give one as transformers writes it.")


def _check_numbers(value: Any, key: str = "") -> None:
    """Raises on numbers that no model has."""
    if isinstance(value, dict):
        for name, part in value.items():
            _check_numbers(part, name)
    elif isinstance(value, list):
        for part in value:
            _check_numbers(part, key)
    elif isinstance(value, int) and not isinstance(value, bool):
        most = MOST_LABELS if key in LABELS else MOST_PARTS if COUNTS.fullmatch(key) else LARGEST_NUMBER
        if abs(value) > most:
            raise _no_config(f"{key[:100]!r} of the config is larger than in any model; give at most {most}.")


def _check_experts(config: dict[str, Any]) -> None:
    """Raises if a token would use more experts than a layer has."""
    for part in (config, *(value for value in config.values() if isinstance(value, dict))):
        counts = [part[name] for name in EXPERTS if isinstance(part.get(name), int)]
        for name in ACTIVE_EXPERTS:
            active = part.get(name)
            if counts and isinstance(active, int) and active > max(counts):
                raise _no_config(f"the config's {name} is {active}, more than its {max(counts)} experts; give fewer.")


def what_to_build(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the config without what is not about the architecture: dtypes, kernels and code to fetch."""
    kept = {key: value for key, value in config.items() if key not in LEFT_OUT}
    if isinstance(kept.get("backbone"), str):
        raise _no_config("the config names another model as its backbone; give one with a backbone_config instead.")
    return {key: _to_build(value) for key, value in kept.items()}


def _to_build(value: Any) -> Any:
    if isinstance(value, list):
        return [_to_build(item) for item in value]
    return what_to_build(value) if isinstance(value, dict) else value


def is_cut(key: str) -> bool:
    """Whether a stand-in changes this field."""
    return (
        key in LAYERS
        or key in ("depths", "vocab_size", *KINDS, *PLACES, *TAPPED, TURNS, REPEATED)
        or key.endswith(TOKENS)
    )


def stand_in(config: dict[str, Any], *, shorter: bool | None = None) -> dict[str, Any]:
    """Returns a config of the same architecture and width with two layers and a short vocabulary."""
    if shorter is None:
        counts = [config.get("vocab_size"), *(part.get("vocab_size") for part in config.values() if type(part) is dict)]
        shorter = any(isinstance(words, int) and words > STAND_IN_WORDS for words in counts)
    small: dict[str, Any] = {}
    kept = _kept_layers(config)
    is_tapped = "depths" in config or any(isinstance(config.get(key), list) and len(config[key]) > 1 for key in TAPPED)
    for key, value in config.items():
        if key in LAYERS and isinstance(value, int):
            small[key] = value if is_tapped else min(value, len(kept) or _turns(config) or STAND_IN_LAYERS)
        elif key == "depths" and isinstance(value, list):
            small[key] = [1] * len(value)
        elif key in TAPPED and isinstance(value, list) and not is_tapped:
            small[key] = [len(kept) or STAND_IN_LAYERS] if _taps_last(config, value) else value
        elif key in KINDS and isinstance(value, list):
            small[key] = [value[place] for place in kept]
        elif key in PLACES and value is not None:
            small[key] = PLACES[key]
        elif key == REPEATED and isinstance(value, list):
            small[key] = [[kinds, 1] for kinds, _ in value]
        elif key == "vocab_size" and isinstance(value, int):
            small[key] = min(value, STAND_IN_WORDS)
        elif key.endswith(TOKENS) and isinstance(value, int) and shorter:
            small[key] = value if value < STAND_IN_WORDS else STAND_IN_WORDS - 1 - value % (STAND_IN_WORDS // 2)
        else:
            small[key] = stand_in(value, shorter=shorter) if isinstance(value, dict) else value
    return small


def _taps_last(config: dict[str, Any], places: list[Any]) -> bool:
    """Tells whether only the last layer's output is read."""
    return places == [next((config[key] for key in LAYERS if isinstance(config.get(key), int)), None)]


def _turns(config: dict[str, Any]) -> int:
    """Returns how many layers it takes until each kind had its turn."""
    kinds = config.get(TURNS)
    return len(kinds) if isinstance(kinds, list) else 0


def _kept_layers(config: dict[str, Any]) -> list[int]:
    """Returns the places of a stand-in's layers if layers differ: the first of each kind, two at least."""
    lists = [config[key] for key in KINDS if isinstance(config.get(key), list)]
    if not lists:
        return []
    kinds = list(zip(*lists, strict=False))
    firsts = {kinds.index(kind) for kind in kinds}
    others = [place for place in range(len(kinds)) if place not in firsts]
    return sorted([*firsts, *others[: max(STAND_IN_LAYERS - len(firsts), 0)]])


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
