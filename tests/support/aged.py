"""Results as earlier versions wrote them: without a kind, and without the parts that were added since."""

from dataclasses import is_dataclass
from typing import get_args, get_origin

from memorymark.documents import REQUIRED, Document, kind_of, parts_of
from memorymark.results.result import BY_KIND


def aged(document, *, only_kind=False):
    """A result as it was at first, or only before it said its kind."""
    return _aged(BY_KIND[document["kind"]], document, only_kind)


def _aged(declared, value, only_kind):
    if is_dataclass(declared) and isinstance(value, dict):
        if not issubclass(declared, Document):
            return value
        types = {part.name: part.type for part in parts_of(declared)}
        added = {part.name for part in parts_of(declared) if part.absent is not REQUIRED and not only_kind}
        kept = {name: part for name, part in value.items() if name not in added}
        if kind_of(declared) is not None:
            kept.pop("kind")
        return {name: _aged(types[name], part, only_kind) for name, part in kept.items()}
    inner = get_args(declared)
    if get_origin(declared) is dict:
        return {name: _aged(inner[1], one, only_kind) for name, one in value.items()}
    if get_origin(declared) in (list, tuple):
        return [_aged(inner[0], one, only_kind) for one in value]
    named = [one for one in inner if is_dataclass(one) or get_origin(one)]  # of an optional one
    return _aged(named[0], value, only_kind) if named and value is not None else value
