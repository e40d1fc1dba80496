"""Reads questions and results as versions before this change wrote them: what lists show, and the configs."""

from __future__ import annotations

import hashlib
import json
from typing import Any

LONGEST_TEXT = 2000
RECIPE: dict[str, Any] = {
    "precision": "fp32",
    "optimizer": "adamw",
    "fused": False,
    "gradient_checkpointing": False,
    "train_mode": True,
    "loss": "model",
    "accumulation_steps": 1,
    "compile": False,
    "tf32": False,
    "channels_last": False,
    "lora": 0,
    "attention": "auto",
}
OPTIMIZERS = {
    "adamw": "AdamW",
    "adam": "Adam",
    "sgd": "SGD",
    "adafactor": "Adafactor",
    "adamw8bit": "8-bit AdamW",
    "none": "no optimizer",
}
CHOICES = {
    "precision": ("fp32", "bf16", "fp16"),
    "optimizer": tuple(OPTIMIZERS),
    "loss": ("model", "mean"),
    "attention": ("auto", "eager", "sdpa"),
}


def listed(model: str, asked: Any, result: Any) -> dict[str, Any]:
    """Returns the columns of a job that lists show."""
    batch_size = int(_in(asked, "current_batch_size") or 0)
    cap_bytes = _in(asked, "request", "target", "memory_cap_bytes") or None
    return {
        "model_name": _storable_text(str(_in(asked, "request", "model") or model)),
        "kind": _kind(asked),
        "recipe_words": _storable_text(_recipe_words(_in(asked, "request", "recipe"), result)),
        "sample_words": _storable_text(_sample_words(asked)),
        "current_batch_size": _storable_number(batch_size) or 0,
        "memory_cap_bytes": _storable_number(cap_bytes),
    }


def put_away(document: Any) -> tuple[Any, dict[str, Any]]:
    """Returns a question or a result without its configs, and the configs by hash."""
    if not isinstance(document, dict):
        return document, {}
    changed, found = dict(document), {}
    request = changed.get("request")
    if isinstance(request, dict) and isinstance(request.get("config"), dict):
        name = hashlib.sha256(json.dumps(request["config"]).encode()).hexdigest()
        found[name] = request["config"]
        changed["request"] = {"config_hash": name, **{key: request[key] for key in request if key != "config"}}
    if isinstance(changed.get("analyses"), dict):
        several = {name: put_away(one) for name, one in changed["analyses"].items()}
        changed["analyses"] = {name: without for name, (without, _) in several.items()}
        for _, pasted in several.values():
            found |= pasted
    return changed, found


def _kind(asked: Any) -> str:
    if _in(asked, "advise"):
        return "advice"
    if _in(asked, "all_gpus"):
        return "comparison"
    return "sweep" if _in(asked, "seq_lens") else "analysis"


def _recipe_words(given: Any, result: Any) -> str:
    """Describes the recipe in a few words; an empty string if it cannot be read."""
    info = _info(result)
    if not isinstance(given, dict) or any(not _is_of_recipe(name, value) for name, value in given.items()):
        return ""
    recipe = {**RECIPE, **given}
    words = _precision_words(recipe, _in(info, "weights_dtype") or "")
    words += [_in(info, "optimizer") or ("fused " if recipe["fused"] else "") + OPTIMIZERS[recipe["optimizer"]]]
    words += [f"LoRA rank {recipe['lora']}"] if recipe["lora"] else []
    words += ["gradient checkpointing"] if recipe["gradient_checkpointing"] else []
    words += ["torch.compile"] if recipe["compile"] else []
    words += {"auto": [], "eager": ["eager attention"], "sdpa": ["SDPA attention"]}[recipe["attention"]]
    words += ["TF32"] if recipe["tf32"] else []
    words += ["channels_last"] if recipe["channels_last"] else []
    words += [f"{recipe['accumulation_steps']} accumulation steps"] if recipe["accumulation_steps"] > 1 else []
    words += ["eval mode"] if not recipe["train_mode"] else []
    words += ["mean of the logits as loss"] if recipe["loss"] == "mean" else []
    return ", ".join(words)


def _is_of_recipe(name: str, value: Any) -> bool:
    if name in CHOICES:
        return value in CHOICES[name]
    return name in RECIPE and type(value) is type(RECIPE[name])


def _precision_words(recipe: dict[str, Any], weights_dtype: str) -> list[str]:
    precision = recipe["precision"]
    if recipe["lora"] or weights_dtype in ("", "fp32"):
        return [precision]
    autocast = [f"{precision} autocast"] if precision not in ("fp32", weights_dtype) else []
    return [f"{weights_dtype} weights", *autocast]


def _info(result: Any) -> Any:
    """Returns what the result says about how the workload is really trained."""
    if not result:
        return None
    several = (result.get("analyses") or {}).values()
    return result.get("info") or next((_in(one, "info") for one in several), None)


def _sample_words(asked: Any) -> str | None:
    """Returns the requested size or sizes of a sample."""
    request, lengths = _in(asked, "request"), _in(asked, "seq_lens")
    if lengths:
        return f"{', '.join(str(length) for length in lengths)} tokens"
    sizes = {"seq_len": "tokens", "image_size": "pixels", "audio_seconds": "seconds"}
    given = {unit: _in(request, name) for name, unit in sizes.items()}
    return ", ".join(f"{size} {unit}" for unit, size in given.items() if size) or None


def _in(document: Any, *names: str) -> Any:
    """Follows keys into a nested document; returns ``None`` if one is missing."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _storable_text(value: str | None) -> str | None:
    """Makes text storable in any database and short enough for lists: no lone surrogates, no NUL."""
    return None if value is None else value[:LONGEST_TEXT].encode("utf-8", "replace").decode().replace("\0", "?")


def _storable_number(value: Any) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**63 else None
