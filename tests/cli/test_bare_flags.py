"""A flag that may come without a value."""

import pytest
import typer

from memorymark.cli.main import app

PREDICT = typer.main.get_command(app).commands["predict"]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("bert", "none"),
        ("bert --gradient-checkpointing", "full"),
        ("--gradient-checkpointing bert", "full"),
        ("bert --gradient-checkpointing --lora 4", "full"),
        ("--gradient-checkpointing full bert", "full"),
        ("bert --gradient-checkpointing selective", "selective"),
        ("bert --gradient-checkpointing=selective", "selective"),
        ("bert --gradient-checkpointing none", "none"),
    ],
)
def test_the_flag_alone_means_full_wherever_it_stands(words, kind):
    given = PREDICT.make_context("predict", words.split()).params

    assert (given["model"], given["gradient_checkpointing"]) == ("bert", kind)
