"""A comparison of GPUs in words."""

from __future__ import annotations

from memorymark.render.words import MEMORY_ONLY, SMALL, SYNTHETIC, described, predicted_notes
from memorymark.results.comparison import Comparison, Contender

COMPARED = "max is the largest batch that trains, use the one worth using; "
PER_MILLION, PER_RUN = "$/million is for a million samples at it.", "the whole run is at that one."
# At most this many GPUs are named if several are within the uncertainty.
NAMED_CANDIDATES = 4
# Of more GPUs than fit a screen, a table has those with a price and so many of the fastest.
MOST_ROWS, FASTEST_ROWS = 24, 12


def comparison_heading(result: Comparison) -> tuple[str, str]:
    """Returns the heading of a training on every GPU."""
    info = result.info
    model = result.request.entry.name + (SMALL if info and info.small else "")
    recipe = described(result.request, info)
    return model, " · ".join(filter(None, (info.sample if info else "", recipe, result.which, "predicted")))


def short_name(contender: Contender) -> str:
    """Returns the GPU's name for a table."""
    return contender.gpu.name.removeprefix("NVIDIA ").removeprefix("GeForce ")


def about_contest(result: Comparison) -> list[str]:
    """Says which GPU is the fastest and which the cheapest, as far as the uncertainty allows."""
    said = [
        f"{title}: {_one_of(candidates)}"
        for title, candidates in (("Fastest", result.fastest_candidates), ("Cheapest", result.cheapest_candidates))
        if candidates
    ]
    if result.unpriced:
        said.append(f"No price is known for {_few(result.unpriced)}; not considered for cheapest: give --prices.")
    return said


def _few(contenders: list[Contender]) -> str:
    names = [short_name(contender) for contender in contenders]
    if len(names) > NAMED_CANDIDATES + 1:
        names[NAMED_CANDIDATES:] = [f"{len(names) - NAMED_CANDIDATES} others"]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _one_of(candidates: list[Contender]) -> str:
    names = [short_name(contender) for contender in candidates]
    if len(names) == 1:
        return f"{names[0]}."
    if len(names) > NAMED_CANDIDATES + 1:
        names[NAMED_CANDIDATES:] = [f"one of {len(names) - NAMED_CANDIDATES} others"]
    return f"{', '.join(names[:-1])} or {names[-1]}, within the uncertainty."


def comparison_notes(result: Comparison) -> list[str]:
    """Returns what a reader of a comparison should know."""
    certain, timed = (result.info.certain, result.info.timed) if result.info else (True, True)
    untimed = [short_name(c) for c in result.contenders if c.memory_only and c.analysis]
    only = [f"{MEMORY_ONLY} {', '.join(untimed)}."] if untimed else []
    tight = [a for a in result.analyses.values() if a.recommended is None and not a.info.memory_only]
    none = [f"the column use says none if no batch keeps a margin of {100 * tight[0].margin:g} %."] if tight else []
    cost = PER_RUN if any(contender.whole_run for contender in result.contenders) else PER_MILLION
    return [COMPARED + cost, *none, *only, *predicted_notes(None, certain=certain, timed=timed), SYNTHETIC]


def shortlist(result: Comparison) -> tuple[list[Contender], list[Contender]]:
    """Returns the GPUs to show and those left out: of very many, GPUs without a price, slow ones and too small ones."""
    everyone = result.contenders
    if len(everyone) <= MOST_ROWS:
        return everyone, []
    fastest = [contender for contender in everyone if contender.samples_per_second][:FASTEST_ROWS]
    shown = [c for c in everyone if c.analysis is not None and (c.price is not None or c in fastest)]
    return shown, [contender for contender in everyone if contender not in shown]


def about_left_out(left_out: list[Contender]) -> list[str]:
    """Says which GPUs a table leaves out."""
    fitting = [contender for contender in left_out if contender.analysis is not None]
    small = [contender for contender in left_out if contender.analysis is None]
    said = [f"{len(fitting)} more GPUs can train it; --every-gpu shows them."] if fitting else []
    return [*said, *([f"Too small: {', '.join(map(short_name, small))}."] if small else [])]
