"""The documentation describes all that the code offers, and names nothing that is not there."""

import dataclasses
import re

import pytest

import memorymark as mm
from memorymark.fleet import thresholds
from memorymark.results.explanation import Removable
from memorymark.results.option import Refused
from support.advices import advice, option
from support.command_line import run_here
from support.comparisons import comparison
from support.documentation import PAGES, ROOT, name_of
from support.fleet_holds import fleet_of, hold
from support.lengths import SWEEP
from support.recorded_analyses import recorded
from support.tiny import tiny

COMMANDS = [
    ("analyze",),
    ("advise",),
    ("measure",),
    ("predict",),
    ("explain",),
    ("matrix",),
    ("watch",),
    ("fleet",),
    ("sweep",),
    ("validate", "backward"),
    ("validate", "compile"),
    ("validate", "prediction"),
    ("models",),
    ("gpus",),
    ("doctor",),
    ("history",),
    ("compare",),
    ("report",),
    ("serve",),
]


def page(name):
    return (ROOT / "docs" / name).read_text()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_option_of_a_command_is_in_the_command_line_page(command):
    shown = run_here(*command, "--help").stdout
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+(?=\s)", shown)) - {"--help"}
    assert options
    assert {option for option in options if f"`{option}" not in page("cli.md")} == set()


def test_every_room_is_in_the_map_of_the_architecture():
    source = ROOT / "src" / "memorymark"
    packages = [f"{path.parent.name}/" for path in source.glob("*/__init__.py")]
    modules = [path.name for path in source.glob("*.py") if not path.name.startswith("__")]
    assert len(packages) > 10
    assert [room for room in (*packages, *modules) if f"`{room}`" not in page("ARCHITECTURE.md")] == []


def test_every_field_of_the_json_documents_is_explained():
    _, analysis = recorded("bert_fp32")
    document = analysis.to_dict()
    timed = next(trial for trial in document["trials"] if trial["breakdown"])
    fields = {*document, *timed, *timed["breakdown"], *document["results"][0], *document["usage"]}
    assert {field for field in fields if f"{field}`" not in page("numbers.md")} == set()


def test_every_field_of_an_advice_is_explained():
    found = advice(option(("bf16",), 500.0, measured=330.0), measured=110.0, refused=(Refused(("lora",), "no."),))
    document = found.to_dict()
    options = {f"options[].{name}" for name in document["options"][0]}
    fields = {*document, *options, *(f"today.{name}" for name in document["today"]), *document["refused"][0]}
    assert {field for field in fields if f"`{field}`" not in page("numbers.md")} == set()


def test_every_field_of_a_comparison_and_of_a_sweep_is_explained():
    compared, swept = comparison(a10=100.0).to_dict(), SWEEP.to_dict()
    inside = {
        *(f"gpus[].{name}" for name in compared["gpus"][0]),
        *(f"lengths[].{name}" for name in swept["lengths"][0]),
    }
    fields = {*compared, *swept, *inside}
    assert {field for field in fields if f"`{field}`" not in page("numbers.md")} == set()


def test_every_fact_about_device_and_model_is_explained():
    _, analysis = recorded("bert_fp32")
    fields = {f"info.{name}" for name in analysis.to_dict()["info"]}
    assert {field for field in fields if f"`{field}`" not in page("numbers.md")} == set()


def test_every_field_of_a_fleet_is_explained():
    document = fleet_of([hold(0.0)]).to_dict()
    [job] = document["jobs"]
    fields = {*document, *(f"jobs[].{name}" for name in job)}
    fields |= {f"jobs[].findings[].{name}" for name in job["findings"][0]}
    assert {field for field in fields if f"`{field}`" not in page("fleet.md")} == set()


def test_the_thresholds_of_a_fleet_are_those_in_force():
    rows = {row.split("`")[1]: row for row in page("fleet.md").splitlines() if row.startswith("| `")}
    shares = {
        "idle": (thresholds.IDLE_BUSY, thresholds.IDLE_SHARE),
        "data_bound": (thresholds.UNDERUSED_BUSY, thresholds.BURSTY, thresholds.HELD_MEMORY),
        "oversized": (thresholds.OVERSIZED_FREE, thresholds.SMALLER_SAVES),
        "tensor_idle": (thresholds.TENSOR_BUSY, thresholds.TENSOR_IDLE),
        "underused": (thresholds.UNDERUSED_BUSY,),
    }
    said = {kind: [int(percent) / 100 for percent in re.findall(r"(\d+) %", rows[kind])] for kind in shares}
    assert said == {kind: list(values) for kind, values in shares.items()}
    assert f"younger than {thresholds.YOUNG_SECONDS / 60:.0f} minutes" in rows["too_young"]
    assert f"{100 * thresholds.SMALLER_FILL:.0f} % of its usable memory" in page("fleet.md")
    assert thresholds.BURST_DEVIATIONS == 2 and "plus two standard deviations" in page("fleet.md")


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_files_and_make_targets_that_are_named_exist(path):
    text = path.read_text()
    makefile = (ROOT / "Makefile").read_text()
    assert [name for name in re.findall(r"`make ([a-z-]+)`", text) if f"\n{name}:" not in makefile] == []
    assert [name for name in re.findall(r"`?((?:benchmarks|tests)/\w+\.py)", text) if not (ROOT / name).exists()] == []


def test_the_example_of_the_dashboard_is_what_the_prediction_says():
    example = (ROOT / "web" / "src" / "front" / "WhatYouGet.tsx").read_text()
    found = mm.analyze("bert", gpu="a10")

    assert f"Maximum, batch {found.max_batch_size}" in example
    assert f"Batch {found.recommended.batch_size} trains" in example
    assert f"{found.speedup:.2f}x faster" in example


def test_every_field_of_an_explanation_is_explained():
    document = mm.explain(tiny(), 4, gpu="a10").to_dict()
    fields = {name for name in document if name not in ("timeline", "modules", "alive", "removable")}
    fields |= {f"timeline.{name}" for name in document["timeline"]}
    fields |= {f"modules[].{name}" for name in document["modules"][0]}
    fields |= {f"removable.{one.name}" for one in dataclasses.fields(Removable)}
    assert {field for field in fields if f"`{field}`" not in page("numbers.md")} == set()


def test_every_field_of_a_matrix_is_explained():
    document = mm.matrix(tiny(), gpu="a10", max_batch=2).to_dict()
    fields = {*document, *(f"rows[].{name}" for name in document["rows"][0])}
    assert {field for field in fields if f"`{field}`" not in page("numbers.md")} == set()
