import json
import pickle

import pytest
import torch

import memorymark as mm
from memorymark.errors import UsageError
from memorymark.question.configs import LARGEST_CONFIG_BYTES, check_config, read_config, stand_in, what_to_build


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text('{"model_type": "bert", "hidden_size": 64}')
    return tmp_path / "mine"


def test_a_folder_and_its_config_file_are_the_same_model(folder):
    config = {"model_type": "bert", "hidden_size": 64}

    assert read_config(str(folder)) == read_config(str(folder / "config.json")) == config


def test_a_request_holds_the_config_of_its_folder_and_can_do_without_the_folder(folder):
    request = mm.Request(model=str(folder))
    (folder / "config.json").unlink()

    assert request.config == {"model_type": "bert", "hidden_size": 64}
    assert mm.Request.from_dict(json.loads(json.dumps(request.to_dict()))) == request
    assert (request.entry.id, request.entry.name) == ("mine", "mine")


def test_a_relative_folder_is_another_one_elsewhere(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)

    assert mm.Request(model="./mine").model == str(folder)


def contents(path):
    """Files that are no config, by what is to be said of them."""
    torch.save({"weight": torch.zeros(2)}, path / "model.pt")
    with (path / "old.pkl").open("wb") as file:
        pickle.dump({"model_type": "bert"}, file)
    (path / "binary.bin").write_bytes(b"\x01\x00\x02")
    (path / "text.json").write_text("model_type: bert")
    (path / "list.json").write_text("[]")
    (path / "nan.json").write_text('{"model_type": "bert", "x": NaN}')
    (path / "deep.json").write_text("[" * 100_000)
    (path / "large.json").write_text(json.dumps({"model_type": "bert", "x": "y" * LARGEST_CONFIG_BYTES}))
    (path / "latin.json").write_bytes('{"model_type": "é"}'.encode("latin-1"))
    (path / "generation.json").write_text('{"do_sample": true}')
    (path / "timm.json").write_text('{"architecture": "resnet50", "num_classes": 10}')
    (path / "adapter.json").write_text('{"base_model_name_or_path": "x", "r": 16}')
    (path / "code.json").write_text('{"auto_map": {"AutoConfig": "c.C"}}')
    (path / "empty").mkdir()
    return path


@pytest.mark.parametrize(
    ("file", "complaint"),
    [
        ("model.pt", "is a zip archive, as torch.save writes, not a config; nothing in it was loaded"),
        ("old.pkl", "is a pickle, not a config; nothing in it was loaded"),
        ("binary.bin", "is a binary file, not a config"),
        ("text.json", r"is not JSON \(Expecting value"),
        ("list.json", "is not a JSON object"),
        ("nan.json", r"is not JSON \(NaN is not a JSON number\)"),
        ("deep.json", "is not JSON"),
        ("large.json", "is larger than 0.2 MiB, too large for a model's config"),
        ("latin.json", "is not JSON"),
        ("generation.json", "has no model_type, so it is not a model's config"),
        ("timm.json", "is the config of a timm model; name it as timm:resnet50"),
        ("adapter.json", "is the config of an adapter; give that of its base model"),
        ("code.json", "comes with its own code; use trust_remote_code=True"),
        ("empty", "has no config.json"),
        ("gone", "there is no .*/gone; give a folder with a config.json"),
    ],
)
def test_what_is_no_config_is_named_for_what_it_is(tmp_path, file, complaint):
    with pytest.raises(UsageError, match=complaint):
        mm.Request(model=str(contents(tmp_path) / file))


def test_a_file_that_may_not_be_read_is_said_to_be_so(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read_config(str(tmp_path / ("x" * 300)))


def test_a_pasted_config_needs_no_name():
    request = mm.Request(config={"model_type": "llama"})

    assert (request.model, request.entry.id) == ("llama config", "llama config")
    assert mm.Request(model="my llama", config={"model_type": "llama"}).entry.id == "my llama"
    assert mm.Request.from_dict(json.loads(json.dumps(request.to_dict()))) == request


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ([], "must be an object"),
        ("bert", "must be an object"),
        ({}, "has no model_type"),
        ({"model_type": 1}, "has no model_type"),
        ({"model_type": "x" * 101}, "model_type is not a valid name"),
        ({"model_type": "/etc/passwd"}, "model_type is not a valid name"),
        ({"model_type": "bert", "num_labels": 10**400}, "larger than in any model"),
        ({"model_type": "bert", "x": [{"y": -(10**400)}]}, "larger than in any model"),
        ({"model_type": "bert", "x": {1, 2}}, "JSON values only"),
        ({"model_type": "bert", "x": float("nan")}, "JSON values only"),
        ({"model_type": "bert", "x": "y" * LARGEST_CONFIG_BYTES}, "larger than"),
    ],
)
def test_a_pasted_config_is_checked(config, complaint):
    with pytest.raises(UsageError, match=complaint):
        mm.Request(config=config)


def test_a_name_or_a_config_is_needed():
    with pytest.raises(UsageError, match="name a model, or give the config of one"):
        mm.Request()


def test_what_is_not_about_the_architecture_is_left_out():
    """A config can name code, kernels and weights to fetch; none of it is wanted."""
    config = {
        "model_type": "llava",
        "auto_map": {"AutoModel": "evil.Model"},
        "dtype": "bfloat16",
        "text_config": {"model_type": "llama", "torch_dtype": "float16", "attn_implementation": "org/kernels"},
        "quantization_config": {"bits": 4},
    }

    assert what_to_build(config) == {"model_type": "llava", "text_config": {"model_type": "llama"}}


def test_it_is_left_out_of_lists_too():
    facts = {"parts": [{"auto_map": {"AutoModel": "evil.Model"}, "width": 8}, [{"quantization_config": {}}]]}

    assert what_to_build(facts) == {"parts": [{"width": 8}, [{}]]}


def test_a_backbone_by_name_is_refused():
    with pytest.raises(UsageError, match="names another model as its backbone"):
        what_to_build({"model_type": "detr", "backbone": "/etc"})


def test_a_stand_in_has_two_layers_and_a_short_vocabulary_and_its_special_words_in_it():
    small = stand_in(
        {
            "model_type": "llava",
            "image_token_id": 32_000,
            "pad_token_id": 1,
            "text_config": {
                "num_hidden_layers": 32,
                "vocab_size": 32_064,
                "layer_types": ["a"] * 32,
                "hidden_size": 64,
            },
            "vision_config": {"depths": [2, 2, 6, 2], "num_layers": 1},
        }
    )

    assert small["text_config"] == {
        "num_hidden_layers": 2, "vocab_size": 2048, "layer_types": ["a", "a"], "hidden_size": 64,
    }  # fmt: skip
    assert small["vision_config"] == {"depths": [1, 1, 1, 1], "num_layers": 1}
    assert small["pad_token_id"] == 1
    assert 0 <= small["image_token_id"] < 2048


def test_code_of_a_model_may_stand_in_for_its_type_where_it_is_trusted():
    check_config({"auto_map": {"AutoConfig": "c.C"}}, "mine", may_run_code=True)


def test_a_stand_in_has_a_layer_of_every_kind():
    kinds = ["linear", "linear", "linear", "full"] * 6

    small = stand_in({"num_hidden_layers": 24, "layer_types": kinds})

    assert small == {"num_hidden_layers": 2, "layer_types": ["linear", "full"]}
