"""The tables of docs/accuracy.md: how far predictions are off, from the errors that were recorded."""

from __future__ import annotations

from statistics import median
from typing import Any

from pages.markdown import MODELS, paragraph, percent, table
from pages.recorded import read

NUMBERS = {
    "allocated": "peak allocated",
    "reserved": "peak reserved",
    "maxima": "largest batch",
    "starts": "largest batch that a training starts with",
    "seconds": "step time, timed in two sessions",
    "seconds_once": "step time, timed in one session",
    "speedups": "speedup from one batch to another",
}
OF_TIME = ("seconds", "seconds_once", "speedups")
GPUS = {"a10": "NVIDIA A10", "a100-40gb": "NVIDIA A100 40 GB"}


def pairs() -> list[dict[str, Any]]:
    """The recorded pairs, those that the rules were made with first."""
    return sorted(read("h200_predicted.json")["pairs"], key=lambda pair: pair["held_back"])


def errors(number: str, *, held_back: bool | None = None) -> list[float]:
    """The sizes of all errors of a number, the smallest first."""
    chosen = [pair for pair in pairs() if held_back is None or pair["held_back"] is held_back]
    return sorted(abs(error) for pair in chosen for error in pair[number])


def summary() -> str:
    """How far each number is off, and what the model had seen of the pairs it was compared with."""
    kernels = read("h200_kernels.json.gz")
    held = {f"{pair['workload']}:{pair['recipe']}" for pair in pairs() if pair["held_back"]}
    of_held = sum(kernel["workload"] in held for kernel in kernels)
    seen = {
        (False, False): "these pairs",
        (True, False): "single operations only",
        (False, True): "their kernels",
        (True, True): f"{of_held} of its {len(kernels)} kernels",
    }
    rows = []
    for number, label in NUMBERS.items():
        for held_back, name in ((False, "fitted"), (True, "held out")):
            found = errors(number, held_back=held_back)
            at = [median(found), found[int(0.95 * (len(found) - 1))], found[-1]]
            known = seen[held_back, number in OF_TIME]
            rows.append([label if not held_back else "", name, len(found), *map(percent, at), known])
    return table(["number", "set", "compared", "median", "95th percentile", "worst", "the model had seen"], rows)


def headline() -> str:
    """The errors that matter most, in one paragraph."""
    allocated, largest = errors("allocated"), errors("maxima")
    fitted, held = (median(errors("seconds", held_back=held_back)) for held_back in (False, True))
    return paragraph(
        f"Over {len(pairs())} pairs of workload and recipe, peak allocated memory is off by",
        f"{percent(median(allocated))} in the median and {percent(allocated[-1], 1)} at most, the largest batch by",
        f"{percent(median(largest))} and {percent(largest[-1], 1)}, the time of a step by {percent(fitted, 0)} in the",
        f"median, or {percent(held, 0)} for pairs whose peaks, maxima and step times were",
        "held out (some of their kernels were not).",
        "Measured on an NVIDIA H200; no other GPU has been measured yet.",
    )


def counts() -> str:
    """The same in one paragraph."""
    largest, starts, reserved = (errors(number) for number in ("maxima", "starts", "reserved"))
    unsafe = sum(pair["unsafe"] for pair in pairs())
    return paragraph(
        f"Of the {len(largest)} largest batches {exact(largest)} are exact and {within(largest, 0.01)} within 1 %.",
        f"Of the {len(starts)} largest batches that a training starts with {exact(starts)} are exact and",
        f"{within(starts, 0.01)} within 1 %. Of the {len(reserved)} peaks of reserved memory {exact(reserved)} are",
        f"right to the byte. In {len(largest)} analyses under a cap, {unsafe or 'none'} recommended a batch",
        "above the true maximum.",
    )


def exact(found: list[float]) -> int:
    return sum(error == 0 for error in found)


def within(found: list[float], limit: float) -> int:
    return sum(error <= limit for error in found)


def by_pair() -> str:
    """One line for each pair of workload and recipe."""

    def worst(found: list[float]) -> str:
        return f"{100 * max(found, key=abs):+.2f} %" if found else ""

    rows = []
    for pair in pairs():
        middle = percent(median(map(abs, pair["allocated"]))) if pair["allocated"] else ""
        share = percent(pair["share"], 0) if pair["share"] else ""
        found = [worst(pair[number]) for number in ("allocated", "reserved", "maxima", "seconds")]
        held = "held out" if pair["held_back"] else "fitted"
        rows.append([pair["workload"], pair["recipe"], held, middle, *found, share])
    header = ["workload", "recipe", "set", "allocated, median", "allocated, worst", "reserved, worst"]
    return table([*header, "largest batch, worst", "time, worst", "recommended, of best"], rows)


def any_model() -> str:
    """Families that were measured after the rules were made."""

    def both(found: list[float], digits: int) -> str:
        return f"{100 * median(found):.{digits}f} / {100 * max(found):.{digits}f}" if found else ""

    rows = []
    for one in read("h200_predicted_any_model.json")["families"]:
        off = f"{100 * (one['predicted'] / one['largest'] - 1):+.2f} %"
        what = [one[name] for name in ("family", "model", "by", "recipe", "largest", "predicted")]
        rows.append([*what, off, both(one["allocated"], 2), both(one["reserved"], 2), both(one["seconds"], 0)])
    header = ["family", "model", "named by", "recipe", "largest batch", "predicted", "off by"]
    return table([*header, "allocated %", "reserved %", "time %"], rows)


def any_model_counts() -> str:
    """The same over all families."""
    families = read("h200_predicted_any_model.json")["families"]
    allocated = [error for one in families for error in one["allocated"]]
    seconds = [error for one in families for error in one["seconds"]]
    largest = [abs(one["predicted"] / one["largest"] - 1) for one in families]
    return paragraph(
        f"Over all of them: peak allocated {percent(median(allocated))} in the median and {percent(max(allocated), 1)}",
        f"at most ({len(allocated)} sizes), largest batch {percent(median(largest), 1)} and",
        f"{percent(max(largest), 1)}, step time {percent(median(seconds), 0)} and {percent(max(seconds), 0)}",
        f"({len(seconds)} sizes).",
    )


def published() -> str:
    """What others published for GPUs that were not measured."""
    rows = [
        [GPUS[gpu], MODELS[model], what, true, predicted, off]
        for gpu, model, what, true, predicted, off in read("h200_predicted.json")["published"]
    ]
    return table(["GPU", "model", "", "published", "predicted", "off by"], rows)


def made_with() -> str:
    """When and with which versions the predictions were made."""
    return signature(read("h200_predicted.json"))


def signature(record: dict[str, Any]) -> str:
    """What recorded predictions were made with, and how."""
    made, later = record["made_with"], record.get("times_made_on")
    again = [f"*Times were predicted again on {later}; the memory was not.*"] if later else []
    return paragraph(
        f"*Predicted with memorymark {made['memorymark']}, torch {made['torch']}, transformers {made['transformers']},",
        f"Python {made['python']}, {made['date']}; `{record['command']}`, which needs no GPU.*",
        *again,
    )
