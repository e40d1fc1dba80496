"""Puts the operations of all layers into the traces of steps that ran with a few of each row.

Two neighbouring blocks of a row must have done the same, on storages of their own and of their neighbours. The second
of them is then the pattern of all blocks that did not run.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby
from typing import NamedTuple, TypeVar

from memorymark.prediction.tracing.layers import BEFORE, LAST, PATTERN, Row
from memorymark.prediction.tracing.operation import PHASE_END, Block, Operation, StepTrace, TensorFacts

_Numbered = TypeVar("_Numbered", TensorFacts, tuple[int, int])


class NotAlikeError(Exception):
    """The layers of a row differ after all, so all of them have to run."""


class Origin(NamedTuple):
    """What a storage is in its block: a weight, or what one of its operations made."""

    block: Block
    key: Hashable


class Shifted(NamedTuple):
    """A storage as a pattern refers to it: what it is, in a block some blocks further in a row."""

    row: int
    further: int
    key: Hashable


@dataclass(frozen=True)
class Pass:
    """The places of the operations of each block in one pass through a row; ``order`` is -1 if it goes backwards."""

    row: int
    blocks: dict[int, range]
    order: int

    @property
    def start(self) -> int:
        """The place of its first operation."""
        return min(places.start for places in self.blocks.values())

    @property
    def stop(self) -> int:
        """The place after its last operation."""
        return max(places.stop for places in self.blocks.values())


class Repeating:
    """Repeats blocks in traces; numbers of storages from ``first_number`` on are free."""

    def __init__(self, rows: Sequence[Row], first_number: int) -> None:
        self._rows = rows
        self._new_numbers = count(first_number)
        self._known: set[int] = set()
        self._origins: dict[int, Origin] = {}
        self._numbers: dict[Shifted, int] = {}

    def add_weight(self, row: int, block: int, key: Hashable, number: int | None) -> int:
        """Notes a weight of a row's block, by the number it had if the block ran; returns its number."""
        if number is None:
            return self._number(Shifted(row, block, key))
        self._note(number, Block(row, self._rows[row].place_of(block)), key)
        return number

    def know(self, numbers: Iterable[int]) -> None:
        """Notes storages that may belong to no block."""
        self._known.update(numbers)

    def whole(self, traces: Sequence[StepTrace]) -> list[StepTrace]:
        """Returns the steps with the operations of all layers."""
        return [self._whole(trace, step) for step, trace in enumerate(traces)]

    def _number(self, storage: Shifted) -> int:
        """Returns the number of what a storage is in a block, counted from the first of the whole row."""
        if storage not in self._numbers:
            self._numbers[storage] = next(self._new_numbers)
        return self._numbers[storage]

    def _note(self, number: int, block: Block, key: Hashable) -> None:
        self._known.add(number)
        self._origins[number] = Origin(block, key)
        self._numbers[Shifted(block.row, self._rows[block.row].block_at(block.place), key)] = number

    def _whole(self, trace: StepTrace, step: int) -> StepTrace:
        operations = [_renamed(op, trace.renamed) for op in trace.operations]
        passes: list[Pass] = []
        start = 0
        for phase, stop in trace.marks:
            updates = phase == "optimizer"
            blocks = self._blocks_of_update(operations[start:stop]) if updates else trace.blocks[start:stop]
            passes += _passes(blocks, start)
            self._note_made(operations, passes, range(start, stop), step)
            start = stop
        found: list[tuple[int, Operation]] = []
        stop = 0
        for one in passes:
            found += [(at, self._in_whole_rows(operations[at])) for at in range(stop, one.start)]
            found += self._all_blocks(operations, one)
            stop = one.stop
        found += [(at, self._in_whole_rows(operations[at])) for at in range(stop, len(operations))]
        places, whole = [at for at, _ in found], [op for _, op in found]
        ends = [end for end, op in enumerate(whole, 1) if op.name == PHASE_END]
        return replace(
            trace,
            operations=whole,
            blocks=[],
            marks=[(phase, end) for (phase, _), end in zip(trace.marks, ends, strict=True)],
            updates=_moved_ranges(trace.updates, places),
            owners={
                number: owner
                for storage, owner in trace.owners.items()
                for number in (self._in_all_blocks(storage) if isinstance(storage, int) else [storage])
            },
            homes=dict(self._all_homes(trace.homes)),
        )

    def _all_homes(self, homes: dict[int, str]) -> Iterator[tuple[int, str]]:
        """Yields the storages of all blocks with the modules that they belong to."""
        for number, home in homes.items():
            origin = self._origins.get(number)
            if origin is None or origin.block.place != PATTERN:
                yield number, home
                continue
            row = self._rows[origin.block.row]
            for block in self._like_pattern(row):
                yield self._number(Shifted(origin.block.row, block, origin.key)), row.path_in(block, home)

    def _blocks_of_update(self, operations: Sequence[Operation]) -> list[Block | None]:
        """Returns the block of each operation that takes tensors of one block only."""
        owners: dict[int, Block] = {}
        blocks: list[Block | None] = []
        for op in operations:
            storages = [tensor.storage for tensor in (*op.inputs, *op.outputs)]
            taken = {owners[one] for one in storages if one in owners}
            taken |= {self._origins[one].block for one in storages if one in self._origins}
            blocks.append(taken.pop() if len(taken) == 1 else None)
            if blocks[-1] is not None:
                owners.update(dict.fromkeys((number for number, _ in op.made), blocks[-1]))
        return blocks

    def _note_made(self, operations: Sequence[Operation], passes: Sequence[Pass], phase: range, step: int) -> None:
        """Notes what each storage that a phase makes is in its block."""
        inside = {
            at: (Block(one.row, place), (step, number, at - places.start))
            for number, one in enumerate(passes)
            for place, places in one.blocks.items()
            for at in places
        }
        for at in phase:
            op = operations[at]
            self._known.update(number for number, _ in op.made)
            if at in inside:
                block, key = inside[at]
                for nth, (number, _) in enumerate(op.made):
                    self._note(number, block, (*key, nth))
            elif len(op.outputs) > 1:
                self._note_list(op, (step, at))

    def _note_list(self, op: Operation, key: tuple[int, int]) -> None:
        """Notes whose the results of an operation on a list of tensors are: those of the first list that it takes."""
        made = {number for number, _ in op.made}
        seen: dict[Block, int] = {}
        for given, result in zip(op.inputs, op.outputs, strict=False):
            origin = self._origins.get(given.storage)
            if origin is not None and result.storage in made and given.shape == result.shape:
                seen[origin.block] = seen.get(origin.block, -1) + 1
                self._note(result.storage, origin.block, (*key, "list", seen[origin.block]))

    def _all_blocks(self, operations: Sequence[Operation], one: Pass) -> Iterator[tuple[int, Operation]]:
        """Yields the operations of all blocks in one pass, each with the place of the one that it repeats."""
        row = self._rows[one.row]
        before, pattern = one.blocks[BEFORE], one.blocks[PATTERN]
        if len(before) != len(pattern):
            raise NotAlikeError
        shifts = [self._shifts(operations[a], operations[b]) for a, b in zip(before, pattern, strict=True)]
        for block in range(row.alike + 2)[:: one.order]:
            place = row.place_of(block)
            if place == PATTERN:
                for at, shifted in zip(pattern, shifts, strict=True):
                    repeated = _renumbered(operations[at], self._numbers_in(block, shifted))
                    yield at, replace(repeated, module=row.path_in(block, repeated.module))
            else:
                for at in one.blocks[place]:
                    yield at, self._at_an_end(operations[at], one.row, place)

    def _shifts(self, before: Operation, pattern: Operation) -> dict[int, Shifted]:
        """Returns what the storages of a pattern's operation are, seen from its block; the one before must be alike."""
        if _form(before) != _form(pattern):
            raise NotAlikeError
        shifted: dict[int, Shifted] = {}
        tensors = zip((*before.inputs, *before.outputs), (*pattern.inputs, *pattern.outputs), strict=True)
        made = zip(before.made, pattern.made, strict=True)
        for a, b in [*((x.storage, y.storage) for x, y in tensors), *((x, y) for (x, _), (y, _) in made)]:
            if a != b and (a in self._known or b in self._known):
                seen = self._seen_from(BEFORE, a), self._seen_from(PATTERN, b)
                if seen[0] is None or seen[0] != seen[1]:
                    raise NotAlikeError
                shifted[b] = seen[0]
        freed = [
            {number: self._seen_from(place, number) for number in op.freed if number in self._known}
            for place, op in ((BEFORE, before), (PATTERN, pattern))
        ]
        if None in freed[1].values() or sorted(map(repr, freed[0].values())) != sorted(map(repr, freed[1].values())):
            raise NotAlikeError
        return shifted | {number: seen for number, seen in freed[1].items() if seen is not None}

    def _seen_from(self, place: int, number: int) -> Shifted | None:
        origin = self._origins.get(number)
        return None if origin is None else Shifted(origin.block.row, origin.block.place - place, origin.key)

    def _numbers_in(self, block: int, shifted: dict[int, Shifted]) -> dict[int, int]:
        return {
            number: self._number(Shifted(storage.row, block + storage.further, storage.key))
            for number, storage in shifted.items()
        }

    def _at_an_end(self, op: Operation, row: int, place: int) -> Operation:
        """Returns an operation of the blocks before the pattern or after it."""
        blocks = {origin.block for number in op.freed if (origin := self._origins.get(number)) is not None}
        if blocks.issuperset(Block(row, at) for at in range(LAST + 1)):  # the first to run after all of that died
            return replace(op, freed=tuple(number for each in op.freed for number in self._in_all_blocks(each)))
        if place < PATTERN:
            return op
        further, numbers = self._rows[row].alike + 1 - LAST, {}
        for number in _storages(op):  # from the blocks just before
            origin = self._origins.get(number)
            if origin is not None and origin.block in (Block(row, BEFORE), Block(row, PATTERN)):
                numbers[number] = self._number(Shifted(row, origin.block.place + further, origin.key))
        return _renumbered(op, numbers)

    def _in_whole_rows(self, op: Operation) -> Operation:
        """Returns an operation outside of all passes with the tensors of all blocks, such as an update of a list."""
        places = [
            self._origins[number].block
            for number in (*(tensor.storage for tensor in op.inputs), *op.freed)
            if number in self._origins
        ]
        rows = {block.row for block in places}
        if any(places.count(Block(row, BEFORE)) != places.count(Block(row, PATTERN)) for row in rows):
            raise NotAlikeError
        if not any(block.place == PATTERN for block in places):
            return op
        return replace(
            op,
            inputs=tuple(self._listed(op.inputs)),
            outputs=tuple(self._listed(op.outputs)),
            made=tuple(self._listed(op.made)),
            freed=tuple(number for each in op.freed for number in self._in_all_blocks(each)),
        )

    def _listed(self, tensors: Sequence[_Numbered]) -> Iterator[_Numbered]:
        """Yields a list of tensors with those of all blocks, block by block."""
        for block, group in groupby(tensors, key=self._block_of):
            if block is None or block.place != PATTERN:
                yield from group
                continue
            own = list(group)
            for numbers in zip(*(self._in_all_blocks(_number_of(tensor)) for tensor in own), strict=True):
                yield from (_with_number(tensor, number) for tensor, number in zip(own, numbers, strict=True))

    def _block_of(self, tensor: _Numbered) -> Block | None:
        origin = self._origins.get(_number_of(tensor))
        return None if origin is None else origin.block

    def _in_all_blocks(self, number: int) -> list[int]:
        """Returns the storages of all blocks for one of the pattern's, and any other as it is."""
        origin = self._origins.get(number)
        if origin is None or origin.block.place != PATTERN:
            return [number]
        blocks = self._like_pattern(self._rows[origin.block.row])
        return [self._number(Shifted(origin.block.row, block, origin.key)) for block in blocks]

    def _like_pattern(self, row: Row) -> Iterator[int]:
        return (block for block in range(row.alike + 2) if row.place_of(block) == PATTERN)


def _passes(blocks: Sequence[Block | None], start: int) -> list[Pass]:
    """Returns the passes through whole rows in a phase that starts there, by the blocks of its operations.

    What runs between two blocks belongs to the first of them.
    """
    passes: list[Pass] = []
    runs: list[tuple[Block, int, int]] = []  # of one row, each with its first operation and the one after its last
    for at, block in enumerate(blocks, start):
        if block is None:
            continue
        if runs and block == runs[-1][0]:
            runs[-1] = (block, runs[-1][1], at + 1)
        elif _goes_on([one for one, _, _ in runs], block):
            runs[-1] = (*runs[-1][:2], at)
            runs.append((block, at, at + 1))
        else:
            passes += _as_pass(runs)
            runs = [(block, at, at + 1)]
    return passes + _as_pass(runs)


def _goes_on(run: Sequence[Block], block: Block) -> bool:
    """Tells whether a pass through these blocks may go on with another."""
    if not run or run[-1].row != block.row:
        return False
    step = block.place - run[-1].place
    return abs(step) == 1 and (len(run) < 2 or step == run[1].place - run[0].place)


def _as_pass(runs: Sequence[tuple[Block, int, int]]) -> list[Pass]:
    """Returns a pass through a whole row; what touches only its ends is none."""
    places = [block.place for block, _, _ in runs]
    upwards = list(range(LAST + 1))
    if places in (upwards, upwards[::-1]):
        ranges = {block.place: range(start, stop) for block, start, stop in runs}
        return [Pass(runs[0][0].row, ranges, 1 if places == upwards else -1)]
    if set(places) <= {0, LAST}:  # or none at all
        return []
    raise NotAlikeError


def _moved_ranges(ranges: Sequence[tuple[int, int]], places: Sequence[int]) -> list[tuple[int, int]]:
    """Returns ranges of operations where these were repeated; ``places`` says which each of them repeats."""
    starts, stops = {start for start, _ in ranges}, {stop for _, stop in ranges}
    begins = [at for at, place in enumerate(places) if place in starts]
    ends = [at for at, place in enumerate(places, 1) if place + 1 in stops]
    return list(zip(begins, ends, strict=True))


def _form(op: Operation) -> tuple[object, ...]:
    """Returns what must be equal for two operations to be the same on other storages."""
    tensors = [[(t.shape, t.dtype, t.contiguous, t.channels_last) for t in each] for each in (op.inputs, op.outputs)]
    return op.name, tensors, op.arguments, [size for _, size in op.made], op.eager, op.on_host


def _storages(op: Operation) -> Iterator[int]:
    yield from (tensor.storage for tensor in (*op.inputs, *op.outputs))
    yield from (number for number, _ in op.made)
    yield from op.freed


def _renamed(op: Operation, renamed: dict[int, int]) -> Operation:
    """Returns an operation that names tensors by the storages that hold them."""
    return _renumbered(op, {number: renamed[number] for number in _storages(op) if number in renamed})


def _renumbered(op: Operation, numbers: dict[int, int]) -> Operation:
    if not numbers:
        return op
    return op.with_tensors(
        tuple([tensor.stored_in(numbers.get(tensor.storage, tensor.storage)) for tensor in op.inputs]),
        tuple([tensor.stored_in(numbers.get(tensor.storage, tensor.storage)) for tensor in op.outputs]),
        tuple([numbers.get(number, number) for number in op.freed]),
        tuple([(numbers.get(number, number), size) for number, size in op.made]),
    )


def _number_of(tensor: TensorFacts | tuple[int, int]) -> int:
    return tensor.storage if isinstance(tensor, TensorFacts) else tensor[0]


def _with_number(tensor: _Numbered, number: int) -> _Numbered:
    return tensor.stored_in(number) if isinstance(tensor, TensorFacts) else (number, tensor[1])
