"""GPUs and prices as people write them."""

import json

import pytest

from memorymark.client import as_body
from memorymark.errors import UsageError
from memorymark.question.gpu_choice import with_gpu_options
from memorymark.question.question import Question
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.server.bodies import JobBody
from support.own_gpu import LAB


@pytest.fixture
def lab(tmp_path):
    file = tmp_path / "lab.json"
    file.write_text(json.dumps(LAB))
    return file


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"gpu": None}, {"gpu": None}),
        ({"gpu": "a10"}, {"gpu": "a10"}),
        ({"gpu": "l4, a10"}, {"compare_gpus": ("l4", "a10")}),
        ({"gpu": ["l4"]}, {"compare_gpus": ("l4",)}),
        ({"gpu": LAB}, {"gpu_facts": LAB}),
        ({"gpu": [LAB, "a10"]}, {"gpu_facts": LAB, "compare_gpus": ("a10",)}),
        ({"price_per_hour": "1.5"}, {"price_per_hour": 1.5}),
        ({"price_per_hour": None}, {"price_per_hour": None}),
        (
            {"gpu": "l4,a10", "price_per_hour": "0.5,1"},
            {"compare_gpus": ("l4", "a10"), "prices": {"l4": 0.5, "a10": 1.0}},
        ),
        (
            {"gpu": ["l4", "a10"], "price_per_hour": [0.5, 1]},
            {"compare_gpus": ("l4", "a10"), "prices": {"l4": 0.5, "a10": 1}},
        ),
    ],
    ids=str,
)
def test_what_people_write_stands_for_options(given, options):
    assert with_gpu_options(given) == options


def test_a_file_describes_a_gpu(lab):
    assert with_gpu_options({"gpu": str(lab)}) == with_gpu_options({"gpu": lab}) == {"gpu_facts": LAB}
    assert with_gpu_options({"gpu": f"{lab},l4"}) == {"gpu_facts": LAB, "compare_gpus": ("l4",)}


def test_a_described_gpu_is_a_target_of_its_own_that_goes_through_json():
    target = Target(gpu_facts=LAB)

    assert (target.gpu, target.entry.name, target.is_open) == ("labgpu", "Lab GPU", False)
    assert Target(**json.loads(json.dumps({"gpu": target.gpu, "gpu_facts": target.gpu_facts}))) == target
    with pytest.raises(UsageError, match=r"memory_gib= asks for .* Lab GPU has"):
        Target(gpu_facts=LAB, memory_cap_bytes=30 * 2**30)


def test_the_name_of_a_file_alone_opens_none(lab):
    with pytest.raises(UsageError, match="unknown GPU"):
        Target(gpu=str(lab))


def test_prices_come_from_a_file(tmp_path):
    file = tmp_path / "prices.csv"
    file.write_text("gpu,usd_per_hour,note\nl4,0.49,ours\nRTX 4090,0.3,\n")

    assert with_gpu_options({"prices": str(file)}) == {"prices": {"l4": 0.49, "RTX 4090": 0.3}}
    assert with_gpu_options({"prices": file}) == {"prices": {"l4": 0.49, "RTX 4090": 0.3}}


@pytest.mark.parametrize("text", ["", "name,price\nl4,1\n", "gpu,usd_per_hour\nl4,1\nl4,2\n"], ids=repr)
def test_a_file_without_prices_is_refused(tmp_path, text):
    file = tmp_path / "prices.csv"
    file.write_text(text)

    with pytest.raises(UsageError, match=r"prices=.*(must have the columns gpu and usd_per_hour|two prices for l4)"):
        with_gpu_options({"prices": str(file)})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"gpu": "nowhere.json"}, "nowhere.json cannot be read"),
        ({"gpu": ""}, "gpu= takes names of GPUs"),
        ({"gpu": "l4,,a10"}, "gpu= takes names of GPUs"),
        ({"gpu": []}, "gpu= takes names of GPUs"),
        ({"gpu": ["l4", 5]}, "gpu= takes names of GPUs, as in l4,a10, not 5"),
        ({"gpu": 5}, "gpu= must be a string, or a list"),
        ({"gpu": [LAB, LAB]}, "one GPU of your own at a time"),
        ({"gpu": "l4,a10", "price_per_hour": "1"}, "names 1 price for 2 GPUs"),
        ({"gpu": "l4", "price_per_hour": "1,2"}, "names 2 prices for one GPU"),
        ({"price_per_hour": "cheap"}, "price_per_hour= must be a number"),
        ({"gpu": "l4,a10", "price_per_hour": "1,2", "prices": {"l4": 1}}, "exclude each other"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(given, said):
    with pytest.raises(UsageError, match=said):
        with_gpu_options(given)


def test_where_one_gpu_is_meant_several_are_refused():
    with pytest.raises(UsageError, match="gpu= takes one GPU here"):
        with_gpu_options({"gpu": "l4,a10"}, several=False)


def test_a_gpu_of_ones_own_and_prices_go_over_http():
    target = Target(gpu_facts=LAB)
    question = Question(request=Request(model="bert", target=target), compare_gpus=("l4",), prices={"Lab GPU": 0.2})

    assert JobBody(**json.loads(json.dumps(as_body(question)))).question() == question
    assert question.prices == {"labgpu": 0.2}
    assert [gpu.id for gpu in question.gpus_compared] == ["labgpu", "l4"]
    assert Question.from_dict(json.loads(json.dumps(question.to_dict()))) == question
