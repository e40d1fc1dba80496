import pytest
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from memorymark.catalog import all_models
from memorymark.errors import UsageError
from memorymark.models.config_fields import known_fields, only_known
from memorymark.models.heads import make_config


def test_every_field_of_the_catalogs_configs_is_known():
    for entry in all_models():
        unknown = entry.config.keys() - known_fields(CONFIG_MAPPING[entry.family])
        assert unknown <= {"hidden_activation", "layer_norm_eps"}, entry.id  # which Gemma and ModernBERT do not read


def test_what_no_class_reads_is_left_out_and_takes_no_methods_place():
    facts = {"hidden_size": 64, "tokenizer_file": "/etc/passwd", "to_dict": 1, "get_text_config": 2}

    assert only_known(facts, transformers.BertConfig) == {"hidden_size": 64}


@pytest.mark.parametrize("family", ["colpali", "colqwen2", "bert"])
def test_what_the_base_class_is_made_of_is_no_field(family):
    inner = {
        "attribute_map",
        "sub_configs",
        "_auto_class",
        "_commit_hash",
        "pretrained_model_name_or_path",
        "gguf_file",
    }

    assert not inner & known_fields(CONFIG_MAPPING[family])


def test_labels_may_say_anything_and_only_their_number_counts():
    config = make_config({"model_type": "bert", "id2label": {"0": "a/b", "1": "c: d", "2": "~"}}, "it")

    assert config.num_labels == 3
    assert "a/b" not in str(config.to_dict())


@pytest.mark.parametrize(
    "facts",
    [
        {"model_type": "bert", "hidden_act": "/etc/passwd"},
        {"model_type": "bert", "hidden_act": "org/kernel"},
        {"model_type": "bert", "hidden_act": "https:example.org"},
        {"model_type": "bert", "hidden_act": "../secret"},
        {"model_type": "bert", "hidden_act": "~root"},
        {"model_type": "bert", "hidden_act": "x" * 101},
        {"model_type": "llama", "rope_scaling": {"rope_type": "a/b"}},
        {"model_type": "clip", "vision_config": {"hidden_act": "a/b"}},
        {"model_type": "llava", "vision_config": {"model_type": "clip_vision_model", "hidden_act": "a/b"}},
        {"model_type": "timm_wrapper", "architecture": "local-dir:/tmp"},
        {"model_type": "timm_wrapper", "architecture": "hf-hub:a/b"},
        {"model_type": "timm_wrapper", "architecture": ["resnet18"]},
        {"model_type": "timm_wrapper", "architecture": "resnet18", "model_args": {"pretrained": True}},
        {"model_type": "detr", "backbone": "resnet50"},
    ],
)
def test_a_string_that_leads_elsewhere_is_refused(facts):
    with pytest.raises(UsageError, match="the config"):
        make_config(facts, "it")
