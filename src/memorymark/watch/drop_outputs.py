"""Rewrites a recorded step as if its loop kept only the loss. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from memorymark.watch.recording import StepRecording


def without_outputs(recording: StepRecording) -> StepRecording:
    """Returns the step with its kept outputs freed as soon as the forward pass has ended."""
    events, before = recording.events, dict(recording.before)
    freed_at: dict[int, list[tuple[int, int]]] = defaultdict(list)
    left_out: set[int] = set()
    for made, position in recording.kept_outputs:
        key, size = events[made]
        freed_at[position].append((key, -size))
        end = next((index for index in range(made + 1, len(events)) if events[index][0] == key), None)
        if end is None:  # it lives on into the next step, as that of the step before did into this one
            end = next((i for i, (other, freed) in enumerate(events) if freed == -size and other in before), None)
            if end is not None:
                before.pop(events[end][0])
        if end is not None:
            left_out.add(end)
    rewritten: list[tuple[int, int]] = []
    starts: list[int] = []
    for index in range(len(events) + 1):
        starts.append(len(rewritten))
        rewritten += freed_at[index]
        if index < len(events) and index not in left_out:
            rewritten.append(events[index])
    return replace(
        recording,
        before=before,
        events=rewritten,
        marks=[(phase, starts[end]) for phase, end in recording.marks],
        owners_before={key: owner for key, owner in recording.owners_before.items() if key in before},
        owners_made={starts[index] + len(freed_at[index]): owner for index, owner in recording.owners_made.items()},
        kept_outputs=[],
    )
