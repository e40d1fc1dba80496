"""The numbers on the slides, all read from recorded results; the slides' template holds none."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from material.recorded_results import analysis, gpu_and_torch, number, predictions, recorded_on, recording, section
from memorymark.catalog import find_model
from memorymark.question.question import DEFAULT_CURRENT
from memorymark.units import GIB, format_bytes

CONTENDERS = ("**MemoryMark**", "Accelerate", "Lightning power", "Lightning binsearch")

NUMBERS = {"allocated": "peak allocated", "maxima": "largest batch", "seconds": "step time"}

# Its largest batch starts and then fails.
BRIEF = ("ResNet-50", "bf16")


@dataclass(frozen=True)
class Bar:
    """A bar of a chart; ``share`` is its length in percent."""

    name: str
    share: float
    words: str
    is_ours: bool = False


def slide_facts() -> dict[str, Any]:
    """Returns everything that the template may name."""
    return {
        **problem(),
        "edges": section("Exact maxima, and how sharp the edge is").tables[0],
        "edges_citation": section("Exact maxima, and how sharp the edge is").citation,
        **searches(),
        **accuracy(),
        **impact(),
    }


def problem() -> dict[str, Any]:
    """Today's batch of BERT against the largest one, and the trials that found it."""
    data = analysis("bert_fp32")
    trials, cap = data["trials"], data["capacity_bytes"]
    last = {trial["batch_size"]: trial for trial in trials}
    today, most, edge = last[DEFAULT_CURRENT], last[data["max_batch_size"]], last[data["max_batch_size"] + 1]
    used, used_at_most = (100 * one["peak_reserved_bytes"] / cap for one in (today, most))
    return {
        "cap": format_bytes(cap),
        "memory_bars": [
            Bar(f"today, batch {today['batch_size']}", used, f"{100 - used:.0f} % wasted"),
            Bar(f"maximum, batch {most['batch_size']}", used_at_most, f"{used_at_most:.0f} % used", is_ours=True),
        ],
        "today": today["batch_size"],
        "waste": f"{100 - used:.0f} %",
        "recommended": data["recommended_batch_size"],
        "speedup": f"{data['speedup']:.2f}x",
        "today_speed": f"{today['samples_per_second']:.0f}",
        "maximum": most["batch_size"],
        "edge": edge["batch_size"],
        "edge_failure": edge["failure"]["message"],
        "search": [
            (one["batch_size"], one["fits"], f"{one['device_bytes'] / GIB:.1f} GiB" if one["fits"] else "out of memory")
            for one in trials
            if one["samples_per_second"] is None
        ],
        "analysis_citation": "Measured on an {}, torch {}, {}".format(*gpu_and_torch(), recorded_on()),
    }


def searches() -> dict[str, Any]:
    """The search against its peers: how long it takes, and what it finds."""
    part = section("The search against what a user could pick instead")
    rows = [row for row in part.tables[0] if row["search"] in CONTENDERS]
    cases = list(dict.fromkeys((row["model"], row["recipe"]) for row in rows))
    found = {(row["model"], row["recipe"], row["search"]): row for row in rows}
    lasting = section("A whole analysis, and whether its advice holds").tables[1]
    slowest = max(number(row["search s"]) for row in rows if (row["model"], row["recipe"]) == cases[0])
    return {
        "contenders": [name.strip("*") for name in CONTENDERS],
        "contests": [(*case, [found[(*case, name)] for name in CONTENDERS]) for case in cases],
        "search_bars": [
            Bar(
                name.strip("*"),
                100 * number(row["search s"]) / slowest,
                f"{row['search s']} s",
                is_ours=name == CONTENDERS[0],
            )
            for name in CONTENDERS
            if (row := found[(*cases[0], name)])
        ],
        "search_case": " ".join(cases[0]),
        "brief_case": " ".join(BRIEF),
        "brief_maximum": found[(*BRIEF, CONTENDERS[0])]["found"],
        "lasting_maximum": next(row["maximum"] for row in lasting if (row["model"], row["recipe"]) == BRIEF),
        "search_citation": part.citation,
    }


def accuracy() -> dict[str, Any]:
    """How far off predictions are."""
    record = predictions()
    largest = sorted(abs(error) for pair in record["pairs"] for error in pair["maxima"])
    gpu, torch = gpu_and_torch()
    made_on = record["made_with"]["date"]
    return {
        "pairs": len(record["pairs"]),
        "maxima_compared": len(largest),
        "maxima_exact": sum(error == 0 for error in largest),
        "maxima_within": sum(error <= 0.01 for error in largest),
        "accuracy": [errors(held_out, number) for held_out in (False, True) for number in NUMBERS],
        "accuracy_citation": f"Measured on an {gpu}, torch {torch}, {recorded_on()}; predicted {made_on}",
    }


def errors(held_out: bool, number: str) -> dict[str, Any]:
    """A row of the table of errors."""
    chosen = (pair for pair in predictions()["pairs"] if pair["held_back"] is held_out)
    found = sorted(abs(error) for pair in chosen for error in pair[number])
    at = {"median": median(found), "95th percentile": found[int(0.95 * (len(found) - 1))], "worst": found[-1]}
    shown = {name: f"{100 * error:.2f} %" for name, error in at.items()}
    return {"set": "held out" if held_out else "fitted", "number": NUMBERS[number], "compared": len(found), **shown}


def impact() -> dict[str, Any]:
    """What advice gained on the GPU, and what the predicted analysis of the demo saves."""
    part = section("Advice")
    gains = part.tables[0]
    most = max(number(row["gain"]) for row in gains)
    predicted = recording("bert-a10-predicted")
    result = predicted["result"]
    return {
        "gains": [
            Bar(
                find_model(row["model"]).name,
                100 * number(row["gain"]) / most,
                f"{row['gain']}, {row['best']}",
                is_ours=True,
            )
            for row in gains
        ],
        "best_gain": max(gains, key=lambda row: number(row["gain"]))["gain"],
        "gains_citation": part.citation,
        "predicted_gpu": result["gpu_name"],
        "predicted_speedup": f"{result['speedup']:.2f}x",
        "predicted_batch": result["recommended_batch_size"],
        "predicted_savings": f"${result['cost_savings_annual']:.0f}",
        "predicted_runs": f"{result['usage']['runs_per_year']:g}",
        "predicted_hours": f"{result['usage']['hours_per_run']:g}",
        "predicted_citation": (
            f"Predicted for an {result['gpu_name']} with torch {result['versions']['torch'].partition('+')[0]}, "
            f"{predicted['recorded_at'][:10]}"
        ),
    }
