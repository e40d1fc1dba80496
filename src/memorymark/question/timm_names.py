"""The names of timm's models, read without importing timm, which takes seconds and imports torch."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

# As timm spells them: vit_base_patch16_224, convnext_tiny.fb_in1k.
SPELLED = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*(\.[a-z0-9_]+)?", re.ASCII)
REGISTERED = re.compile(r"^@register_model\s*\ndef (\w+)\(", re.MULTILINE)
# How the names of well-known models begin, for machines without timm.
FAMILIES = (
    *("beit", "cait", "coat", "convit", "convmixer", "convnext", "crossvit", "cspresnet", "davit", "deit", "densenet"),
    *("dla", "dpn", "edgenext", "efficientformer", "efficientnet", "efficientvit", "eva02", "fastvit", "ghostnet"),
    *("hiera", "hrnet", "inception", "levit", "maxvit", "mixer", "mixnet", "mnasnet", "mobilenet", "mobileone"),
    *("mobilevit", "mvit", "nfnet", "pit_", "poolformer", "pvt_v2", "regnet", "repvgg", "res2net", "resmlp", "resnest"),
    *("resnet", "resnext", "rexnet", "seresnet", "swin", "tf_efficientnet", "tinynet", "tiny_vit", "twins", "vgg"),
    *("visformer", "vit_", "volo", "wide_resnet", "xception", "xcit"),
)


@cache
def timm_names() -> frozenset[str]:
    """Returns the models that the installed timm's source registers; empty if timm is not installed."""
    spec = find_spec("timm")
    folders = spec.submodule_search_locations if spec is not None else None
    files = [file for folder in folders or () for file in sorted((Path(folder) / "models").glob("*.py"))]
    texts = (file.read_text(encoding="utf-8", errors="replace") for file in files)
    return frozenset(name for text in texts for name in REGISTERED.findall(text))


def is_timm_name(text: str) -> bool:
    """Whether the installed timm has a model of this name; a tag after a dot names its weights and is ignored."""
    return SPELLED.fullmatch(text) is not None and text.partition(".")[0] in timm_names()


def looks_like_timm(text: str) -> bool:
    """Whether the text is spelled like a timm name and begins like a well-known one."""
    return SPELLED.fullmatch(text) is not None and text.startswith(FAMILIES)
