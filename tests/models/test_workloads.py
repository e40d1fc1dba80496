"""Configs of transformers become models with the head that one would train, and batches that they take."""

import json
import os
import subprocess
import sys

import pytest
import torch
import transformers

import memorymark as mm
from memorymark.catalog import find_gpu
from memorymark.errors import CannotPredictError, UsageError
from memorymark.models.heads import choose_task, make_config
from memorymark.models.maker import ordinary_words
from memorymark.models.workloads import workload_of
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.training.step import TrainingStep
from support.command_line import run_here
from support.probes import predicted

CPU = torch.device("cpu")
TINY = {
    "vocab_size": 128,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
TINY_VIT = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip


def workload(config, **options):
    return workload_of(mm.Request(config=config, **options))


def step(made):
    run = TrainingStep(made, mm.Recipe(), CPU)
    run(2)
    return run


@pytest.mark.parametrize(
    ("family", "facts", "task"),
    [
        ("bert", {}, "sequence-classification"),
        ("roberta", {}, "sequence-classification"),
        ("modernbert", {}, "sequence-classification"),
        ("electra", {}, "sequence-classification"),
        ("bert", {"architectures": ["BertForMaskedLM"]}, "sequence-classification"),
        ("bert", {"architectures": ["BertForTokenClassification"]}, "token-classification"),
        ("bert", {"architectures": ["BertForQuestionAnswering"]}, "question-answering"),
        ("bert", {"is_decoder": True}, "causal-lm"),
        ("gpt2", {}, "causal-lm"),
        ("gpt2", {"architectures": ["GPT2ForSequenceClassification"]}, "sequence-classification"),
        ("llama", {}, "causal-lm"),
        ("qwen3", {}, "causal-lm"),
        ("mamba", {}, "causal-lm"),
        ("t5", {}, "seq2seq-lm"),
        ("bart", {}, "seq2seq-lm"),
        ("whisper", {}, "speech-seq2seq"),
        ("resnet", {}, "image-classification"),
        ("vit", {}, "image-classification"),
        ("swin", {}, "image-classification"),
        ("wav2vec2", {}, "audio-classification"),
        ("wav2vec2", {"architectures": ["Wav2Vec2ForCTC"]}, "ctc"),
        ("hubert", {}, "audio-classification"),
        ("clip", {}, "contrastive"),
        ("siglip", {}, "contrastive"),
        ("llava", {}, "image-text-to-text"),
        ("blip", {}, "image-text-to-text"),
        ("qwen2_vl", {}, "image-text-to-text"),
    ],
)
def test_the_head_is_the_one_most_people_would_train(family, facts, task):
    assert choose_task(make_config({"model_type": family, **facts}, "mine"), None, "mine").id == task


@pytest.mark.parametrize(
    ("task", "head", "inputs"),
    [
        ("masked-lm", "BertForMaskedLM", {"labels": (2, 16)}),
        ("sequence-classification", "BertForSequenceClassification", {"labels": (2,)}),
        ("token-classification", "BertForTokenClassification", {"labels": (2, 16)}),
        ("question-answering", "BertForQuestionAnswering", {"start_positions": (2,), "end_positions": (2,)}),
        ("causal-lm", "BertLMHeadModel", {"labels": (2, 16)}),
    ],
)
def test_another_head_can_be_asked_for(task, head, inputs):
    made = workload({"model_type": "bert", **TINY}, task=task, seq_len=16)
    batch = made.batch(2, CPU)

    assert type(step(made).model).__name__ == head
    assert {name: tuple(batch[name].shape) for name in inputs} == inputs
    assert all(batch[name].shape == (2, 16) for name in ("input_ids", "attention_mask", "token_type_ids"))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            {"config": {"model_type": "bert", **TINY}, "task": "ctc"},
            r"bert config \(bert\) has no head for ctc; it has ca",
        ),
        ({"model": "resnet", "task": "causal-lm"}, r"resnet \(resnet\) has no head for causal-lm; it has image-class"),
        ({"config": {"model_type": "bert", **TINY}, "seq_len": 65}, "bert config takes 1 to 64 tokens; seq_len=65"),
        ({"config": {"model_type": "roberta", **TINY}, "seq_len": 63}, "roberta config takes 1 to 62 tokens"),
        ({"config": {"model_type": "bert", **TINY}, "image_size": 8}, "image_size= does not apply to bert config"),
        ({"config": {"model_type": "vit", **TINY_VIT}, "seq_len": 8}, "seq_len= does not apply to vit config"),
        (
            {"config": {"model_type": "no-such-thing"}},
            "does not know model_type 'no-such-thing' of no-such-thing config",
        ),
        ({"config": {"model_type": "bert", **TINY, "hidden_size": "wide"}}, "bert config does not describe a model"),
        ({"config": {"model_type": "vits"}}, r"vits config \(vits\) has no head that can be trained here"),
        (
            {"config": {"model_type": "bert", **TINY}, "recipe": mm.Recipe(channels_last=True)},
            "channels_last= is for im",
        ),
    ],
)
def test_what_a_config_cannot_do_is_refused_where_it_is_known(options, complaint):
    with pytest.raises(UsageError, match=complaint):
        workload_of(mm.Request(**options))


def test_a_config_that_does_not_fit_together_is_said_to_be_no_model():
    made = workload({"model_type": "bert", **TINY, "num_attention_heads": 5})

    with pytest.raises(UsageError, match=r"the config of bert config does not describe a model; .*: ValueError: "):
        made.build()


def test_a_host_without_memory_is_not_taken_for_a_config_that_is_no_model(monkeypatch):
    def no_memory(*_args, **_kwargs):
        raise MemoryError

    monkeypatch.setattr(transformers.BertConfig, "from_dict", no_memory)

    with pytest.raises(MemoryError):
        make_config({"model_type": "bert", **TINY}, "mine")


def test_an_unknown_task_is_answered_with_all():
    with pytest.raises(UsageError, match="unknown task 'summing'; use one of causal-lm, sequence-classification, "):
        mm.Request(model="bert", task="summing")


@pytest.mark.parametrize(
    ("family", "facts"),
    [
        ("bert", {"pad_token_id": 0}),
        ("gpt2", {"pad_token_id": 127, "eos_token_id": 127, "bos_token_id": 127}),
        ("llama", {"pad_token_id": 64, "eos_token_id": 2}),
        ("llama", {"pad_token_id": -1}),
        ("llama", {"eos_token_id": 500}),
    ],
)
def test_batches_have_no_padding_and_no_word_that_means_something(family, facts):
    config = make_config({"model_type": family, **TINY, **facts}, "mine")
    first, end = ordinary_words(config)

    assert 0 <= first < end <= 128
    assert end - first >= 60
    assert not set(range(first, end)) & set(facts.values())


def test_weights_are_fp32_and_code_is_not_asked_for_whatever_the_config_says():
    config = {"model_type": "llama", **TINY, "dtype": "bfloat16", "auto_map": {"AutoModelForCausalLM": "evil.Model"}}
    model = workload(config).build()

    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert type(model).__name__ == "LlamaForCausalLM"


def test_an_image_model_is_made_for_the_size_that_is_asked_for():
    made = workload({"model_type": "vit", **TINY_VIT}, image_size=64)

    assert made.batch(2, CPU)["pixel_values"].shape == (2, 3, 64, 64)
    assert made.sample == "64 pixels"
    assert step(made).model.vit.embeddings.position_embeddings.shape[1] == (64 // 8) ** 2 + 1


def test_a_config_in_four_bits_is_trained_in_four_bits():
    quantized = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True}
    config = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
              "num_hidden_layers": 1, "vocab_size": 200, "quantization_config": quantized}  # fmt: skip

    request = mm.Request(config=config, recipe=mm.Recipe(lora=4, precision="bf16"), seq_len=8)

    assert predicted(workload_of(request), request.recipe).info.weights_dtype == "nf4"


def test_without_a_size_images_are_those_of_the_config():
    assert workload({"model_type": "vit", **TINY_VIT}).sample == "32 pixels"


def test_sounds_have_as_many_seconds_as_are_asked_for():
    made = workload_of(mm.Request(model="wav2vec2-base", audio_seconds=2))

    assert made.batch(3, CPU)["input_values"].shape == (3, 32_000)
    assert made.sample == "2 seconds"


@pytest.mark.parametrize(
    ("asked", "values", "shape", "sample"),
    [
        ({"model": "ast"}, "input_values", (2, 1024, 128), "10 seconds"),
        ({"model": "ast", "audio_seconds": 5}, "input_values", (2, 500, 128), "5 seconds"),
        ({"model": "whisper-tiny", "task": "audio-classification"}, "input_features", (2, 80, 3000), "30 seconds"),
        (
            {"model": "whisper-tiny", "task": "audio-classification", "audio_seconds": 8},
            "input_features",
            (2, 80, 800),
            "8 seconds",
        ),
    ],
)
def test_a_model_of_spectrograms_is_made_for_the_seconds_that_are_asked_for(asked, values, shape, sample):
    made = workload_of(mm.Request(**asked))

    assert made.batch(2, CPU)[values].shape == shape
    assert made.sample == sample


@pytest.mark.parametrize(("model", "task"), [("ast", None), ("whisper-tiny", "audio-classification")])
def test_a_model_of_spectrograms_trains_on_as_many_seconds_as_are_asked_for(model, task):
    step(workload_of(mm.Request(model=model, task=task, audio_seconds=3, small=True)))


def test_an_image_in_a_text_takes_its_places():
    made = workload_of(mm.Request(model="llava-1.5-7b", small=True))
    batch = made.batch(2, CPU)

    assert ((batch["input_ids"] == 2000).sum(1) == 16).all()
    assert ((batch["labels"] == -100).sum(1) == 16).all()
    with pytest.raises(
        UsageError, match=r"an image of 336 pixels takes 576 tokens of llava-1\.5-7b; use a larger seq_len="
    ):
        workload_of(mm.Request(model="llava-1.5-7b", seq_len=576))


def test_the_head_of_the_newer_t5_is_its_own_as_in_its_weights():
    """transformers ties it whatever the config says, until it reads the weights."""
    facts = {
        "model_type": "t5",
        "vocab_size": 64,
        "d_model": 16,
        "d_kv": 4,
        "d_ff": 16,
        "num_layers": 1,
        "num_heads": 2,
    }
    tied, own = (workload({**facts, "tie_word_embeddings": value}).build() for value in (True, False))

    assert sum(p.numel() for p in own.parameters()) - sum(p.numel() for p in tied.parameters()) == 64 * 16


def test_a_regression_has_numbers_for_labels():
    batch = workload({"model_type": "bert", **TINY, "num_labels": 1}).batch(2, CPU)

    assert batch["labels"].dtype == torch.float32


@pytest.mark.parametrize(
    "model", ["bert", "distilbert", "llama-3.2-1b", "t5-small", "whisper-tiny", "vit-base", "clip-base", "llava-1.5-7b"]
)
def test_one_model_of_each_kind_is_predicted(model):
    request = mm.Request(model=model, small=True)
    made = workload_of(request)
    traced = trace_training(made, request.recipe, find_gpu("a10").capability)

    assert traced.facts.parameters == sum(p.numel() for p in made.build().parameters())


def test_a_model_that_can_only_be_measured_says_so():
    request = mm.Request(config={"model_type": "ibert"}, small=True)

    with pytest.raises(CannotPredictError, match="measure it on a GPU"):
        trace_training(workload_of(request), request.recipe, find_gpu("a10").capability)


@pytest.fixture
def folder(tmp_path):
    transformers.BertConfig(**TINY, architectures=["BertForMaskedLM"]).save_pretrained(tmp_path / "tiny-bert")
    return tmp_path / "tiny-bert"


def run(*arguments, **environment):
    if not environment:
        return run_here(*arguments)
    command = [sys.executable, "-m", "memorymark", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_a_folder_with_nothing_but_a_config_is_predicted_and_measured(folder):
    predicted = run("predict", str(folder), "-b", "4", "--gpu", "a10", "--json", "-q")
    measured = run("measure", str(folder / "config.json"), "-b", "4", "--device", "cpu", "--full", "--json", "-q")

    assert json.loads(predicted.stdout)["fits"], predicted.stderr
    assert json.loads(measured.stdout)["fits"], measured.stderr


def test_a_folder_is_the_same_as_its_config_pasted(folder):
    from_folder = workload_of(mm.Request(model=str(folder)))
    pasted = workload({"model_type": "bert", **TINY})

    assert from_folder.build().num_parameters() == pasted.build().num_parameters()
    assert (from_folder.name, from_folder.sample) == ("tiny-bert", "64 tokens")


def test_a_folder_has_a_stand_in_too(folder):
    config = json.loads((folder / "config.json").read_text()) | {"num_hidden_layers": 6, "vocab_size": 5000}
    (folder / "config.json").write_text(json.dumps(config))
    full, small = (workload_of(mm.Request(model=str(folder), small=small)).build() for small in (False, True))

    assert len(full.bert.encoder.layer) == 6
    assert len(small.bert.encoder.layer) == 2
    assert small.config.vocab_size == 2048


def hub(tmp_path):
    """A cache of Hugging Face with one model in it, as a download leaves it."""
    model = tmp_path / "hub" / "models--some--model"
    for revision, layers in (("aaaa", 1), ("bbbb", 2)):
        transformers.BertConfig(**{**TINY, "num_hidden_layers": layers}).save_pretrained(model / "snapshots" / revision)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("aaaa")
    (model / "refs" / "two-layers").write_text("bbbb")
    return {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "MEMORYMARK_DATABASE": f"sqlite:///{tmp_path}/h.db"}


@pytest.mark.parametrize(("options", "layers"), [((), 1), (("--revision", "two-layers"), 2)])
def test_a_hugging_face_id_that_is_known_here_is_built_from_its_config(tmp_path, options, layers):
    environment = {**os.environ, **hub(tmp_path)}
    result = run("analyze", "some/model", "--gpu", "a10", "--max-batch", "2", "--json", "-q", *options, **environment)

    document = json.loads(result.stdout)
    assert document["model_name"] == "some/model", result.stderr
    one_layer = workload({"model_type": "bert", **TINY, "num_hidden_layers": layers}).build()
    assert document["info"]["parameters"] == one_layer.num_parameters()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            ("other/model",),
            "the config of other/model is not on this machine and Hugging Face cannot be reached; pass ",
        ),
        (("some/model", "--revision", "gone"), "the config of some/model at revision gone is not on this machine"),
    ],
)
def test_a_hugging_face_id_that_cannot_be_found_is_one_sentence_that_says_what_to_do(tmp_path, options, complaint):
    result = run("predict", *options, "--gpu", "a10", "-q", **{**os.environ, **hub(tmp_path)})

    assert result.returncode == 2
    assert result.stderr.startswith(f"Error: {complaint}")
    assert result.stderr.count("\n") == 1


CONFIG_CODE = """
from transformers import BertConfig


class MyConfig(BertConfig):
    model_type = "mine"
"""
MODEL_CODE = """
from transformers import BertForSequenceClassification

from .configuration_mine import MyConfig


class MyModel(BertForSequenceClassification):
    config_class = MyConfig
"""


def test_code_of_a_model_runs_only_where_it_is_trusted(tmp_path):
    auto_map = {
        "AutoConfig": "configuration_mine.MyConfig",
        "AutoModelForSequenceClassification": "modeling_mine.MyModel",
    }
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mine", **TINY, "auto_map": auto_map}))
    (tmp_path / "configuration_mine.py").write_text(CONFIG_CODE)
    (tmp_path / "modeling_mine.py").write_text(MODEL_CODE)
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home")}
    asked = ("predict", str(tmp_path), "-b", "2", "--gpu", "a10", "--json", "-q")

    refused, trusted = run(*asked, **environment), run(*asked, "--trust-remote-code", **environment)

    assert "--trust-remote-code if the model brings its own code" in refused.stdout
    assert json.loads(trusted.stdout)["fits"], trusted.stdout + trusted.stderr


def test_supervised_fine_tuning_learns_the_answer_alone():
    made = workload({"model_type": "llama", **TINY}, task="sft", seq_len=16)

    batch = made.batch(2, CPU)

    assert (batch["labels"][:, :8] == -100).all()
    assert torch.equal(batch["labels"][:, 8:], batch["input_ids"][:, 8:])
    chunked = workload({"model_type": "llama", **TINY}, task="sft", seq_len=16, recipe=mm.Recipe(loss="chunked"))
    model = made.build().eval()
    torch.testing.assert_close(chunked.loss(model, batch), model(**batch).loss)


def test_a_text_encoder_is_not_tuned_to_answer():
    with pytest.raises(UsageError, match="has no head for sft"):
        workload({"model_type": "bert", **TINY}, task="sft")


@pytest.mark.parametrize(
    "facts",
    [
        {"model_type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 2, "vocab_size": 64},
        {"model_type": "bart", "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 64,
         "encoder_attention_heads": 2, "decoder_attention_heads": 2},
        {"model_type": "canine", "hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
         "intermediate_size": 32, "num_hash_buckets": 64, "num_hash_functions": 2},
        {"model_type": "llama", **TINY, "eos_token_id": [2, 3]},
    ],
    ids=lambda facts: facts["model_type"],
)  # fmt: skip
def test_a_classifier_trains_without_a_padding_token_a_vocabulary_or_a_single_end(facts):
    made = workload(facts, task="sequence-classification", seq_len=16)

    assert type(step(made).model).__name__.endswith("ForSequenceClassification")
    assert predicted(made, mm.Recipe()).measure(2).fits
