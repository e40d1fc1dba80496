"""Explains the memory of a recorded or predicted step: through the step, and at its peak by module. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from memorymark.devices.allocations import (
    PARTS_ALLOCATED,
    Block,
    Owner,
    Source,
    Trace,
    alive_after,
    events_until_peak,
    parts_of_blocks,
)
from memorymark.probe.kinds import Kinds, parents
from memorymark.results.explanation import (
    AliveBlocks,
    Anatomy,
    MemoryKind,
    ModuleFacts,
    ModuleMemory,
    PhaseSpan,
    Timeline,
)
from memorymark.results.trial import Trial

# The most moments of a timeline, and of the largest blocks.
MOST_MOMENTS, MOST_ALIVE = 2000, 20
LASTING = frozenset({"weights_bytes", "gradients_bytes", "gradient_buckets_bytes", "optimizer_state_bytes"})


def anatomy_of(
    trial: Trial,
    trace: Trace,
    owners: Mapping[Hashable, Owner],
    modules: Mapping[str, ModuleFacts],
    vocabulary: int = 0,
) -> Anatomy:
    """Explains a step by its labelled trace; its parts at the peak are those of the trial's breakdown."""
    part_of = parts_of_blocks(trace, owners)
    peak = events_until_peak(trace)
    alive = alive_after(trace, peak)
    rounding = trial.peak_allocated_bytes - sum(alive.values())
    kinds = Kinds.of(modules, trace.sources, vocabulary)
    folds = Folds(modules)
    blocks = []
    for block, size in alive.items():
        part = part_of(block)
        source = _source_of(trace, block, lasts=part in LASTING)
        kind = kinds.of_block(source, lasting=part in LASTING)
        blocks.append(_Held(part, kind, source, folds.folded(source.module), size))
    return Anatomy(
        trial=trial,
        timeline=timeline_of(trace, owners, peak, rounding),
        modules=_by_module(blocks, modules, rounding),
        alive=_largest(blocks),
    )


@dataclass(frozen=True)
class _Held:
    part: str
    kind: MemoryKind
    source: Source
    path: str
    size_bytes: int


def _source_of(trace: Trace, block: Block, *, lasts: bool) -> Source:
    """Returns what made a block; one that ``lasts`` belongs to its parameter's module. Others may reuse its key."""
    key, born = block
    ran = trace.sources[born] if 0 <= born < len(trace.sources) else Source()
    return trace.origins.get(key, ran) if born < 0 or lasts else ran


class Folds:
    """Replaces the numbers of equal layers in the paths of modules."""

    def __init__(self, modules: Mapping[str, ModuleFacts]) -> None:
        self._lists = {path for path, facts in modules.items() if facts.kind == "list"}
        within: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for path, facts in modules.items():
            for above in (path, *parents(path)):
                within[above].append((path[len(above) :], facts.type))
        self._form = {path: hash(tuple(forms)) for path, forms in within.items()}
        self._folded: dict[str, str] = {"": ""}
        children: dict[str, Counter[int]] = defaultdict(Counter)
        for path in modules:
            above = path.rpartition(".")[0]
            if above in self._lists:
                children[above][self._form[path]] += 1
        self._equal = children

    def folded(self, path: str) -> str:
        """Returns a path with ``*`` for the number of each layer that has an equal in its list."""
        if path not in self._folded:
            above, _, name = path.rpartition(".")
            has_equals = above in self._lists and self._equal[above][self._form.get(path, 0)] > 1
            before = self.folded(above)
            self._folded[path] = ".".join(filter(None, (before, "*" if has_equals else name)))
        return self._folded[path]


def _by_module(blocks: Sequence[_Held], modules: Mapping[str, ModuleFacts], rounding: int) -> list[ModuleMemory]:
    sizes: dict[tuple[str, MemoryKind], Counter[str]] = defaultdict(Counter)
    paths: dict[tuple[str, MemoryKind], set[str]] = defaultdict(set)
    for one in blocks:
        sizes[one.path, one.kind][one.part] += one.size_bytes
        paths[one.path, one.kind].add(one.source.module)
    if rounding:
        sizes["", "rounding"]["temporaries_bytes"] += rounding
        paths["", "rounding"].add("")
    found = [
        ModuleMemory(
            path=path,
            type=modules[first].type if (first := min(paths[path, kind])) in modules else "",
            kind=kind,
            count=len(paths[path, kind]),
            parts={part: parts[part] for part in PARTS_ALLOCATED if parts[part]},
        )
        for (path, kind), parts in sizes.items()
    ]
    return sorted(found, key=lambda one: -one.total_bytes)


def _largest(blocks: Sequence[_Held]) -> list[AliveBlocks]:
    counts: Counter[tuple[str, MemoryKind, str, str, tuple[int, ...], int]] = Counter()
    for one in blocks:
        shape = () if one.part in LASTING else one.source.shape
        operation = "" if one.part in LASTING else one.source.operation
        counts[one.part, one.kind, operation, one.path, shape, one.size_bytes] += 1
    largest = sorted(counts, key=lambda key: -key[-1] * counts[key])[:MOST_ALIVE]
    return [
        AliveBlocks(
            part=part,
            kind=kind,
            operation=operation,
            path=path,
            shape=list(shape),
            count=counts[part, kind, operation, path, shape, size],
            total_bytes=size * counts[part, kind, operation, path, shape, size],
        )
        for part, kind, operation, path, shape, size in largest
    ]


def timeline_of(trace: Trace, owners: Mapping[Hashable, Owner], peak: int, rounding: int) -> Timeline:
    """Returns what is alive after each of up to 2,000 events, the one of the peak among them."""
    moments = _kept(trace, peak)
    sizes = _sizes_at(trace, owners, moments)
    sources = [trace.sources[at - 1] if 0 < at <= len(trace.sources) else Source() for at in moments]
    phases = [(name, end) for name, end in trace.marks]
    starts = [0, *(end for _, end in phases)]
    return Timeline(
        events=len(trace.events),
        moments=moments,
        operations=[source.operation for source in sources],
        modules=[source.module for source in sources],
        parts={part: values for part, values in sizes.items() if any(values)},
        rounding_bytes=rounding,
        phases=[PhaseSpan(name, start, end) for (name, end), start in zip(phases, starts, strict=False)],
        peak=moments.index(peak),
    )


def _kept(trace: Trace, peak: int) -> list[int]:
    """Returns the moments to keep: the ends of phases, the peak and, of each stretch, its highest and its lowest."""
    running = list(accumulate((size for _, size in trace.events), initial=0))
    always = {0, peak, len(running) - 1, *(end for _, end in trace.marks)}
    if len(running) <= MOST_MOMENTS:
        return list(range(len(running)))
    stretches = max((MOST_MOMENTS - len(always)) // 2, 1)
    ends = [len(running) * number // stretches for number in range(stretches + 1)]
    for start, stop in pairwise(ends):
        always |= {max(range(start, stop), key=running.__getitem__), min(range(start, stop), key=running.__getitem__)}
    return sorted(always)


def _sizes_at(trace: Trace, owners: Mapping[Hashable, Owner], moments: Sequence[int]) -> dict[str, list[int]]:
    """Returns the bytes of each part at these moments."""
    values: dict[str, list[int]] = {part: [] for part in PARTS_ALLOCATED}
    wanted = iter(moments)
    at = next(wanted)
    for done, sizes in enumerate(_totals(trace, owners)):
        if done == at:
            for part, sizes_so_far in values.items():
                sizes_so_far.append(sizes[part])
            at = next(wanted, -1)
    return values


def _totals(trace: Trace, owners: Mapping[Hashable, Owner]) -> Iterator[Counter[str]]:
    """Yields the bytes by part before the first event and after each."""
    part_of = parts_of_blocks(trace, owners)
    alive: dict[Hashable, tuple[str, int]] = {}
    sizes: Counter[str] = Counter()
    for key, size in trace.before.items():
        alive[key] = part_of((key, -1)), size
        sizes[alive[key][0]] += size
    yield sizes
    for index, (key, size) in enumerate(trace.events):
        if size > 0:
            alive[key] = part_of((key, index)), size
            sizes[alive[key][0]] += size
        elif (gone := alive.pop(key, None)) is not None:
            sizes[gone[0]] -= gone[1]
        yield sizes
