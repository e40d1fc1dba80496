"""Tells what memory holds by the module and the operation that made it. Pure.

Nothing is known by its name: a layer of a row that computes attention is one that does, and what is in it besides, its
norms and embeddings aside, is its multilayer perceptron.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from memorymark.devices.allocations import Source
from memorymark.results.explanation import MemoryKind, ModuleFacts

SOFTMAX = frozenset({"_softmax", "_safe_softmax"})
ATTENTION = "attention"
# The fewest dimensions of scores of attention: a score for each query and key of each sample or head.
FEWEST_DIMENSIONS = 3
LOG_SOFTMAX = "_log_softmax"
MANY_CLASSES = 1000
OF_LAYER: dict[str, MemoryKind] = {"embedding": "embedding", "convolution": "convolution", "norm": "norm"}


@dataclass(frozen=True)
class Kinds:
    """Tells the kinds of memory of a step.

    ``roots`` are the modules that attention belongs to, ``layers`` the layers of rows that contain one, ``scores`` the
    shapes of attention's scores, and ``classes`` the numbers of logits.
    """

    modules: Mapping[str, ModuleFacts]
    roots: frozenset[str]
    layers: frozenset[str]
    scores: frozenset[tuple[int, ...]]
    classes: frozenset[int]

    @classmethod
    def of(cls, modules: Mapping[str, ModuleFacts], sources: Iterable[Source], vocabulary: int) -> Kinds:
        """Finds out where attention is from everything that ran."""
        sources = set(sources)
        attending = {source for source in sources if _attends(source)}
        roots = {_root(modules, source.module) for source in attending} - {""}
        layers = {above for root in roots for above in parents(root) if _is_of_list(modules, above)}
        scores = {source.shape for source in attending if _base(source.operation) in SOFTMAX}
        classes = {source.shape[-1] for source in sources if _is_loss(source)} | ({vocabulary} if vocabulary else set())
        return cls(modules, frozenset(roots), frozenset(layers), frozenset(scores), frozenset(classes))

    def of_block(self, source: Source, *, lasting: bool) -> MemoryKind:
        """Returns what a block holds; ``lasting`` ones are weights, gradients and optimizer state."""
        inside = (source.module, *parents(source.module))
        is_as_wide = not self.classes.isdisjoint(source.shape[-1:])
        if not lasting and is_as_wide and self.layers.isdisjoint(inside):  # layers may be as wide by chance
            return "logits"
        if not lasting and source.shape in self.scores and not self.roots.isdisjoint(inside):
            return "attention_scores"
        layer = self.modules[source.module].kind if source.module in self.modules else "other"
        if layer in OF_LAYER:
            return OF_LAYER[layer]
        if not self.roots.isdisjoint(inside):
            return "attention"
        if source.module in self.layers or _is_of_list(self.modules, source.module):
            return "residual" if not self.layers.isdisjoint(inside) else "other"
        if not self.layers.isdisjoint(inside):
            return "mlp"
        return "linear" if layer == "linear" else "other"


def parents(path: str) -> Iterable[str]:
    """Yields the paths of the modules that a module is in, the next first."""
    while "." in path:
        path = path.rpartition(".")[0]
        yield path


def _attends(source: Source) -> bool:
    base = _base(source.operation)
    return ATTENTION in base or (base in SOFTMAX and len(source.shape) >= FEWEST_DIMENSIONS)


def _is_loss(source: Source) -> bool:
    """Tells whether a loss is computed from so many logits that no other tensor has as many in a row by chance."""
    return _base(source.operation) == LOG_SOFTMAX and bool(source.shape) and source.shape[-1] >= MANY_CLASSES


def _base(operation: str) -> str:
    parts = operation.split(".")
    return parts[1] if len(parts) > 2 else operation


def _is_of_list(modules: Mapping[str, ModuleFacts], path: str) -> bool:
    """Tells whether a module is one of a list."""
    above = path.rpartition(".")[0]
    return bool(path) and above in modules and modules[above].kind == "list"


def _root(modules: Mapping[str, ModuleFacts], path: str) -> str:
    """Returns the module that all of an attention belongs to: the largest below a module of a list."""
    chain = [path, *parents(path)]
    for below, above in pairwise(chain):
        if _is_of_list(modules, above):
            return below
    return path
