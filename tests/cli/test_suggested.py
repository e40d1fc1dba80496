"""Suggestions as commands to type."""

import shlex

import pytest
import typer

from memorymark.cli.main import app
from memorymark.cli.suggested import changed_command, suggested_commands
from memorymark.suggestions import Proposal, Suggestion
from memorymark.units import GIB
from support.command_line import document, run_here

PROGRAM = typer.main.get_command(app)


def checked(missed_margin=None, **change):
    of_gpu = {"max_batch_size": 3, "device_bytes": GIB, "total_bytes": 2 * GIB}
    return Suggestion(change=change, recipe="x", missed_margin=missed_margin, **of_gpu)


@pytest.mark.parametrize(
    ("typed", "change", "command"),
    [
        ("analyze bert --gpu t4 -b 8", {"gpu": "h200"}, "analyze bert -b 8 --gpu h200"),
        ("analyze bert --gpu=t4 -q", {"gpu": "h200"}, "analyze bert -q --gpu h200"),
        ("analyze bert --fused", {"fused": False, "optimizer": "adafactor"}, "analyze bert --optimizer adafactor"),
        ("analyze bert -q --memory-gib 4", {"memory_gib": None}, "analyze bert -q"),
        (
            "analyze bert -q",
            {"gradient_checkpointing": True, "lora": 16},
            "analyze bert -q --gradient-checkpointing --lora 16",
        ),
        ("analyze bert", {"gradient_checkpointing": "full"}, "analyze bert --gradient-checkpointing"),
        ("analyze --gradient-checkpointing bert", {"lora": 16}, "analyze --gradient-checkpointing bert --lora 16"),
        ("analyze --gradient-checkpointing selective bert", {"gradient_checkpointing": "none"}, "analyze bert"),
        ("analyze bert -b 8 -q", {"batch_size": 4}, "analyze bert -q --batch-size 4"),
        ("analyze --channels-last bert", {"channels_last": False}, "analyze bert"),
        ("predict --small bert", {"small": None}, "predict bert"),
        ("analyze brt --gpu a10", {"model": "bert"}, "analyze bert --gpu a10"),
        ("analyze --gpu a10 brt", {"model": "bert"}, "analyze --gpu a10 bert"),
        ("validate backward brt -b 2", {"model": "bert"}, "validate backward bert -b 2"),
        ("predict 'my model' --gpu a10", {"gpu": "t4"}, "predict 'my model' --gpu t4"),
    ],
)
def test_a_suggestion_is_shown_as_the_command_that_asks_for_it(typed, change, command):
    assert changed_command(PROGRAM, shlex.split(typed), change) == f"memorymark {command}"


def test_what_was_checked_says_how_far_it_carries():
    said = suggested_commands(PROGRAM, ["analyze", "bert"], [checked(gpu="h200"), checked(lora=16)])

    assert said.splitlines() == [
        "Checked to fit:",
        "  memorymark analyze bert --gpu h200  # up to batch 3, predicted",
        "  memorymark analyze bert --lora 16   # up to batch 3, predicted",
    ]


def test_what_leaves_less_than_the_margin_says_so():
    said = suggested_commands(PROGRAM, ["analyze", "bert"], [checked(missed_margin=0.05, fused=True)])

    assert said.splitlines()[1] == (
        "  memorymark analyze bert --fused  # up to batch 3, predicted, with less than the margin of 5 % free"
    )


def test_a_change_that_changes_nothing_that_was_typed_is_not_shown():
    arguments = ["validate", "compile", "bert"]  # which compiles without being told to

    assert suggested_commands(PROGRAM, arguments, [Proposal("without compile", {"compile": False})]) == ""


@pytest.mark.parametrize("arguments", [["history"], ["gpus"], [], ["frobnicate"]])
def test_a_change_that_a_command_has_no_option_for_is_not_shown(arguments):
    assert suggested_commands(PROGRAM, arguments, [Proposal("a10", {"gpu": "a10"})]) == ""


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        ("analyze brt --gpu a10", "analyze bert --gpu a10"),
        ("predict bert --gpu a11", "predict bert --gpu a10"),
        ("predict bert --precision bf61 --gpu a10", "predict bert --gpu a10 --precision bf16"),
        ("measure bert --gpu a10 -b 4", "measure bert -b 4"),
        ("analyze bert --image-size 224 --gpu a10", "analyze bert --gpu a10"),
        ("history --model brt", "history --model bert"),
    ],
)
def test_after_a_slip_the_command_that_was_meant_is_shown(typed, command):
    result = run_here(*typed.split())

    assert result.returncode == 2
    assert result.stderr.splitlines()[1:] == ["Try:", f"  memorymark {command}"]


def test_with_json_an_error_is_data():
    told = document(run_here("predict", "bert", "--gpu", "a11", "--json"))

    assert list(told) == [
        "status", "kind", "error", "code", "field", "given", "allowed", "suggestions", "trials",
    ]  # fmt: skip
    assert (told["status"], told["kind"], told["code"]) == ("error", "error", "unknown_gpu")
    assert (told["field"], told["given"]) == ("gpu", "a11")
    assert "a10" in told["allowed"]
    assert told["suggestions"] == [{"label": "a10", "change": {"gpu": "a10"}}]
