"""Sentences that name options, in the terms of whoever reads them."""

import json
import math

import pytest

from memorymark.messages import Message, OptionName, brief, verbatim

DIALECTS = ("command_line", "python", "http")


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{margin} is a fraction.", ("--margin is a fraction.", "margin= is a fraction.", "margin is a fraction.")),
        ("drop {memory_gib}.", ("drop --memory-gib.", "drop memory_gib=.", "drop memory_gib.")),
        ("use {device:cpu}.", ("use --device cpu.", 'use device="cpu".', "use device cpu.")),
        ("try {lora:16}.", ("try --lora 16.", "try lora=16.", "try lora 16.")),
        ("try {margin:0.1}.", ("try --margin 0.1.", "try margin=0.1.", "try margin 0.1.")),
        ("say {compile:True}.", ("say --compile.", "say compile=True.", "say compile true.")),
        ("{model} is missing.", ("MODEL is missing.", "model is missing.", "model_name is missing.")),
        ("{list.models} lists all.", ("`memorymark models` lists all.",) * 2 + ("GET /models lists all.",)),
        ("see {serve.allow_code}.", ("see --allow-code.",) * 3),
        ("no option at all -- {{none}}.", ("no option at all -- {none}.",) * 3),
    ],
)
def test_an_option_is_called_as_the_reader_writes_it(template, said):
    assert tuple(Message(template).said_in(dialect) for dialect in DIALECTS) == said


def test_an_option_can_be_named_with_a_value_of_the_message():
    message = Message("{gpu:{wanted}} is for one GPU.", wanted="a10")

    assert message.said_in("command_line") == "--gpu a10 is for one GPU."
    assert message.said_in("python") == 'gpu="a10" is for one GPU.'


def test_words_may_leave_open_which_option_they_are_about():
    message = Message("{option:{size}} is too large.", option=OptionName("seq_len"), size=513)

    assert [message.said_in(dialect) for dialect in DIALECTS] == [
        "--seq-len 513 is too large.",
        "seq_len=513 is too large.",
        "seq_len 513 is too large.",
    ]


@pytest.mark.parametrize("text", ["{margin}", "{", "}", "{0}", "{list.models}", "{margin!r:>999999999}", "--margin"])
def test_text_of_others_is_said_as_it_is(text):
    assert verbatim(text).said_in("http") == text
    assert Message("unknown {name}.", name=text).said_in("command_line") == f"unknown {text}."


def test_a_message_within_a_message_is_said_in_the_same_terms():
    inner = Message("{what} is not here; drop {compile}.", what="it")

    assert Message("{why:clause}, or ask.", why=inner).said_in("http") == "it is not here; drop compile, or ask."
    assert Message("failed: {why}", why=inner).said_in("command_line") == "failed: it is not here; drop --compile."


@pytest.mark.parametrize(
    "message",
    [
        Message("{margin} must be below 1, not {given:g}.", given=1.5),
        Message("{margin} must be below 1, not {given:g}.", given=math.nan),
        Message("{what:clause}; {hint:clause}.", what=verbatim("no {braces}."), hint=Message("drop {lora}")),
        Message("{option} of {name!r}.", option=OptionName("gpu"), name="a'b"),
        Message("{file} is not here.", file=print),
    ],
    ids=lambda message: message.template,
)
def test_a_message_says_the_same_after_it_was_json(message):
    read = Message.from_dict(json.loads(json.dumps(message.to_dict(), allow_nan=False)))

    assert [read.said_in(dialect) for dialect in DIALECTS] == [message.said_in(dialect) for dialect in DIALECTS]


def test_a_message_from_elsewhere_can_neither_look_inside_nor_ask_for_megabytes():
    said = Message("{text.__class__} {text:>999999999}", text="x").said_in("python")

    assert len(said) < 2000
    assert "<class" not in said


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (1.5, 1.5),
        (math.inf, "inf"),
        (True, True),
        ((1, "a"), [1, "a"]),
        ({"a": {2}}, {"a": [2]}),
        ("x" * 1000, "x" * 200),
        (["x" * 1000], "a list"),
        (1 << 100_000, "a number of 100001 bits"),
    ],
    ids=lambda value: str(type(value)),
)
def test_what_was_given_is_told_again_as_json_and_in_short(value, told):
    assert brief(value) == told
    json.dumps(brief(value), allow_nan=False)
