"""An option is declared once; everything that callers see follows from it."""

from dataclasses import dataclass

import pytest
import typer

from memorymark import keyword_types
from memorymark.cli.main import app
from memorymark.cli.options import NOT_TYPED
from memorymark.client import as_body
from memorymark.errors import UsageError
from memorymark.question.flat import OPTIONS, flat, make_question
from memorymark.question.options import option, options_of, require_option, settle_options, unusual
from memorymark.server.bodies import JobBody

# What analyze and its like take by themselves.
NO_KEYWORD = {"model", "config", "seq_lens", "all_gpus", "compare_gpus", "gpu_facts", "advise", "try_compile"}


@dataclass(frozen=True, kw_only=True)
class Oven:
    """Anything that is declared as options are."""

    hot: bool = option(False, "Whether it is hot.", words=lambda _: "hot")
    cooled: bool = option(True, "Leave it warm.", called="warm", stored=lambda on: not on, told=lambda on: not on)
    share: float = option(0.5, "How full it is.", minimum=0, below=1, needs={"hot": (True,)})
    loaves: int = option(2, "Loaves in it.", above=0, maximum=9, words=lambda count: f"{count} loaves")

    def __post_init__(self):
        settle_options(self)


@pytest.mark.parametrize("name", sorted(set(OPTIONS) - set(NOT_TYPED)))
def test_every_option_is_one_of_the_command_line(name):
    commands = typer.main.get_command(app).commands
    found = {parameter.name: parameter for parameter in (*commands["analyze"].params, *commands["advise"].params)}

    assert found[name].opts == ["model"] or OPTIONS[name].flag.partition("/")[0] in found[name].opts


@pytest.mark.parametrize("name", sorted(set(OPTIONS) - NO_KEYWORD))
def test_every_option_is_a_keyword_with_a_type(name):
    assert name in {**keyword_types.AnalysisOptions.__annotations__, **keyword_types.TrialOptions.__annotations__}


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_every_option_is_a_field_of_the_body_with_its_help_and_its_bounds(name):
    one, field = OPTIONS[name], JobBody.model_fields[OPTIONS[name].http_name]
    schema = JobBody.model_json_schema()["properties"][one.http_name]
    numbers = next((kind for kind in schema.get("anyOf", [schema]) if kind.get("type") in ("integer", "number")), {})

    assert field.description == one.help
    assert numbers.get("minimum") == (one.minimum if numbers else None)
    assert numbers.get("exclusiveMinimum") == (one.above if numbers else None)
    assert numbers.get("exclusiveMaximum") == (one.below if numbers else None)


def test_the_client_sends_every_option_that_is_not_as_declared():
    given = {
        "model": "resnet",
        "image_size": 64,
        "fused": True,
        "gpu": "a10",
        "memory_gib": 8.0,
        "margin": 0.1,
        "people": 3,
    }

    sent = as_body(make_question(given))

    assert sent.pop("model_name") == given.pop("model")
    assert sent == given


def test_flat_options_ask_the_question_that_they_were_made_from():
    question = make_question(
        {"model": "resnet", "channels_last": True, "eval_mode": True, "memory_gib": 8, "people": 3}
    )

    assert (question.request.recipe.train_mode, question.request.target.memory_cap_bytes) == (False, 8 * 2**30)
    assert make_question(flat(question)) == question


@pytest.mark.parametrize(
    ("given", "said", "allowed"),
    [
        ({"loaves": 0, "hot": True}, "--loaves must be a number above 0, not 0.", {"above": 0, "maximum": 9}),
        ({"loaves": 10}, "--loaves must be a number above 0 and at most 9, not 10.", {"above": 0, "maximum": 9}),
        ({"share": 1.0, "hot": True}, "--share must be from 0 to below 1, not 1.", {"minimum": 0, "below": 1}),
        ({"share": float("nan")}, "--share must be from 0 to below 1, not nan.", {"minimum": 0, "below": 1}),
        ({"cooled": "yes"}, "--warm must be True or False, not 'yes'.", ["True or False"]),
    ],
)
def test_what_the_declaration_excludes_is_refused_with_what_is_allowed(given, said, allowed):
    with pytest.raises(UsageError) as caught:
        Oven(**given)

    assert (caught.value.said_in("command_line"), caught.value.allowed) == (said, allowed)


def test_an_option_that_needs_another_is_refused_without_it():
    with pytest.raises(UsageError, match=r"share= needs hot= True, not False; change one of them") as caught:
        Oven(share=0.7)

    assert (caught.value.code, caught.value.field) == ("not_applicable", "share")
    assert Oven(share=0.7, hot=True).share == 0.7


def test_only_what_is_unusual_is_said():
    assert unusual(Oven()) == []
    assert unusual(Oven(hot=True, loaves=3)) == ["hot", "3 loaves"]


def test_names_and_defaults_are_those_that_callers_write():
    assert [(one.name, one.default) for one in options_of(Oven).values()] == [
        ("hot", False), ("warm", False), ("share", 0.5), ("loaves", 2),
    ]  # fmt: skip


def test_one_option_can_be_checked_alone():
    assert require_option(Oven, "loaves", 3) == 3
    with pytest.raises(UsageError, match=r"loaves= must be a whole number, not 2\.5"):
        require_option(Oven, "loaves", 2.5)
