import subprocess
import sys

import pytest
import torch
from torch import nn

import memorymark as mm
from memorymark.catalog import find_gpu
from memorymark.devices import open_device
from memorymark.models.workloads import workload_of
from memorymark.probe.measured import MeasuredProbe
from memorymark.training.building import build_model
from memorymark.training.step import TrainingStep
from memorymark.units import GIB
from support.decoders import llama
from support.probes import predicted
from support.tiny import CLASSES, HIDDEN, PARAMETERS, WIDTH, TinyNet, tiny

CPU = torch.device("cpu")
A10 = find_gpu("a10")
RANK = 4
# Both layers of TinyNet are linear: A is rank by inputs, B is outputs by rank.
ADAPTERS = RANK * (WIDTH + HIDDEN) + RANK * (HIDDEN + CLASSES)
BUFFER_BYTES = 4


def measured(workload, recipe):
    device = open_device(mm.Target(device="cpu", memory_cap_bytes=GIB))
    return MeasuredProbe(workload, recipe, device)


def trained(model):
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def frozen(model):
    return {name: p for name, p in model.named_parameters() if not p.requires_grad}


def test_only_the_adapters_of_a_plain_module_are_trained():
    model = build_model(tiny(), mm.Recipe(lora=RANK))

    assert sum(p.numel() for p in trained(model).values()) == ADAPTERS
    assert sum(p.numel() for p in frozen(model).values()) == PARAMETERS
    assert all("lora_" in name for name in trained(model))


def test_an_eight_billion_decoder_of_rank_16_trains_as_many_parameters_as_is_known():
    eight_billion = llama(
        hidden_size=4096, intermediate_size=14_336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=128_256,
    )  # fmt: skip

    with torch.device("meta"):
        model = build_model(eight_billion, mm.Recipe(lora=16, precision="bf16"))

    queries_and_outputs, keys_and_values, feed_forward = 2 * (4096 + 4096), 2 * (4096 + 1024), 3 * (4096 + 14_336)
    known = 32 * 16 * (queries_and_outputs + keys_and_values + feed_forward)
    assert sum(p.numel() for p in trained(model).values()) == known == 41_943_040
    assert sum(p.numel() for p in frozen(model).values()) == 8_030_261_248
    assert {p.dtype for p in frozen(model).values()} == {torch.bfloat16}
    assert {p.dtype for p in trained(model).values()} == {torch.float32}


@pytest.mark.parametrize(
    ("model", "head"), [("bert", "classifier"), ("gpt2", "score")], ids=["linear layers", "transposed layers"]
)
def test_the_head_of_a_classifier_is_new_and_so_is_trained_in_whole(model, head):
    built = build_model(workload_of(mm.Request(model=model, small=True)), mm.Recipe(lora=RANK))

    names = {name for name in trained(built) if "lora_" not in name}
    assert names
    assert all(name.startswith(head) for name in names)
    assert not any("lora_" in name for name in trained(built) if name.startswith(head))
    assert any("lora_A" in name for name in trained(built))


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)]
)
def test_frozen_weights_are_loaded_in_the_precision_and_trained_ones_in_fp32(precision, dtype):
    model = build_model(tiny(), mm.Recipe(lora=RANK, precision=precision))

    assert {p.dtype for p in frozen(model).values()} == {dtype}
    assert {p.dtype for p in trained(model).values()} == {torch.float32}
    assert torch.get_default_dtype() == torch.float32


def test_a_module_that_makes_its_weights_in_fp32_by_name_is_cast_too():
    class Stubborn(TinyNet):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(WIDTH, HIDDEN, dtype=torch.float32)

    model = build_model(tiny(build=Stubborn), mm.Recipe(lora=RANK, precision="bf16"))

    assert {p.dtype for p in frozen(model).values()} == {torch.bfloat16}


def test_without_lora_weights_are_trained_and_stay_in_fp32():
    model = build_model(tiny(), mm.Recipe(precision="bf16"))

    assert frozen(model) == {}
    assert {p.dtype for p in trained(model).values()} == {torch.float32}


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("checkpointing", [False, True], ids=["", "checkpointing"])
def test_a_step_changes_the_adapters_and_nothing_else(precision, checkpointing):
    step = TrainingStep(llama(), mm.Recipe(lora=RANK, precision=precision, gradient_checkpointing=checkpointing), CPU)
    before = {name: p.detach().clone() for name, p in step.model.named_parameters()}

    step(2)
    step(2)

    changed = {name for name, p in step.model.named_parameters() if not torch.equal(p, before[name])}
    assert changed == trained(step.model).keys()


def test_frozen_weights_get_no_gradients_and_no_optimizer_state():
    step = TrainingStep(tiny(), mm.Recipe(lora=RANK, optimizer="sgd"), CPU)
    made = []

    step(8, lambda phase: made.extend(g.numel() for g in step.gradients()) if phase == "backward" else None)

    assert sum(made) == ADAPTERS
    assert sum(state.numel() for state in step.optimizer_state()) == ADAPTERS


@pytest.mark.parametrize("probe_of", [measured, predicted])
@pytest.mark.parametrize(("precision", "frozen_bytes"), [("fp32", 4), ("bf16", 2)])
def test_the_breakdown_names_adapters_and_frozen_weights_to_the_byte(probe_of, precision, frozen_bytes):
    probe = probe_of(tiny(), mm.Recipe(lora=RANK, precision=precision, optimizer="sgd"))

    parts = probe.measure(1).breakdown

    assert probe.info.parameters == PARAMETERS + ADAPTERS
    assert probe.info.trainable_parameters == ADAPTERS
    assert parts.weights_bytes == frozen_bytes * PARAMETERS + 4 * ADAPTERS + buffer_bytes(precision)
    assert parts.optimizer_state_bytes == 4 * ADAPTERS
    assert parts.gradients_bytes <= 4 * ADAPTERS


def buffer_bytes(precision):
    """TinyNet counts its calls in a buffer that has no type of its own, so it is built in that of the weights."""
    return {"fp32": 4, "bf16": 2}[precision]


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("bert", {}),
        ("bert", {"precision": "bf16"}),
        ("gpt2", {"precision": "bf16", "gradient_checkpointing": True}),
    ],
    ids=str,
)
def test_what_lasts_is_predicted_as_it_is_measured(model, options):
    recipe = mm.Recipe(lora=RANK, optimizer="sgd", **options)
    workload = workload_of(mm.Request(model=model, small=True))

    real, expected = (probe(workload, recipe) for probe in (measured, predicted))

    assert expected.info.parameters == real.info.parameters
    assert expected.info.trainable_parameters == real.info.trainable_parameters
    lasting = [(p.weights_bytes, p.optimizer_state_bytes) for p in (x.measure(2).breakdown for x in (real, expected))]
    assert lasting[0] == lasting[1]


def test_lora_needs_less_than_training_the_model_itself():
    full, adapters = (predicted(llama(), mm.Recipe(lora=rank)).measure(2) for rank in (0, RANK))

    assert adapters.breakdown.optimizer_state_bytes < 0.3 * full.breakdown.optimizer_state_bytes
    assert adapters.breakdown.gradients_bytes < full.breakdown.gradients_bytes
    assert adapters.peak_allocated_bytes < full.peak_allocated_bytes


def test_checkpointing_saves_memory_also_where_the_base_is_frozen():
    plain, saving = (
        predicted(llama(seq_len=64), mm.Recipe(lora=RANK, precision="bf16", gradient_checkpointing=on)).measure(256)
        for on in (False, True)
    )

    assert saving.breakdown.activations_bytes < 0.7 * plain.breakdown.activations_bytes


def test_weights_that_a_caller_froze_get_no_gradients_and_no_state_either():
    def build():
        model = TinyNet()
        model.inner.requires_grad_(False)
        return model

    for probe in (of(tiny(build=build), mm.Recipe(optimizer="sgd")) for of in (measured, predicted)):
        parts = probe.measure(1).breakdown
        assert probe.info.trainable_parameters == HIDDEN * CLASSES + CLASSES
        assert parts.optimizer_state_bytes == 4 * probe.info.trainable_parameters
        assert parts.weights_bytes == 4 * PARAMETERS + BUFFER_BYTES


def test_a_model_without_linear_layers_is_refused():
    with pytest.raises(mm.UsageError, match=r"ResNetForImageClassification has no linear layers .*; drop lora="):
        build_model(workload_of(mm.Request(model="resnet", small=True)), mm.Recipe(lora=RANK))


@pytest.mark.parametrize("variant", ["lora", "dora", "rslora"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_same_parameters_are_trained_as_with_peft_itself(variant, precision):
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=RANK,
        target_modules="all-linear",
        use_dora=variant == "dora",
        use_rslora=variant == "rslora",
        task_type="CAUSAL_LM",
    )
    base = llama().build().to({"fp32": torch.float32, "bf16": torch.bfloat16}[precision])
    expected = trained(get_peft_model(base, config))

    ours = trained(build_model(llama(), mm.Recipe(lora=RANK, lora_variant=variant, precision=precision)))

    facts = {name.removeprefix("base_model.model."): (p.shape, p.dtype) for name, p in expected.items()}
    assert {name: (p.shape, p.dtype) for name, p in ours.items()} == facts


@pytest.mark.parametrize(
    ("model", "layers"),
    [
        ("llama-3.2-1b", {"q_proj", "k_proj", "v_proj", "o_proj"}),
        ("bert", {"query", "key", "value", "dense"}),
        ("gpt2", {"c_attn", "c_proj"}),
        ("t5-small", {"q", "k", "v", "o"}),
    ],
)
def test_attention_is_adapted_whatever_its_layers_are_called(model, layers):
    recipe = mm.Recipe(lora=RANK, lora_targets="attention")

    names = trained(build_model(workload_of(mm.Request(model=model, small=True)), recipe))

    adapted = [name.partition(".lora_")[0] for name in names if "lora_A" in name]
    assert {name.rpartition(".")[2] for name in adapted} == layers
    assert not any("mlp" in name or "intermediate" in name or "DenseRelu" in name for name in adapted)


def test_only_the_named_layers_are_adapted():
    model = build_model(llama(), mm.Recipe(lora=RANK, lora_targets="q_proj, v_proj"))

    adapted = {name.partition(".lora_")[0].rpartition(".")[2] for name in trained(model)}
    assert adapted == {"q_proj", "v_proj"}


def test_a_layer_that_does_not_exist_is_answered_with_the_nearest():
    with pytest.raises(
        mm.UsageError, match=r"has no linear layer 'qproj': did you mean q_proj\? Its layers are "
    ) as no:
        build_model(llama(), mm.Recipe(lora=RANK, lora_targets="qproj"))

    assert no.value.suggestions[0].change == {"lora_targets": "q_proj"}


def test_a_model_without_attention_has_none_to_adapt():
    with pytest.raises(mm.UsageError, match="TinyNet has no attention for LoRA to adapt; drop lora_targets="):
        build_model(tiny(), mm.Recipe(lora=RANK, lora_targets="attention"))


def test_dora_takes_more_than_lora_for_the_norms_of_its_weights():
    plain, dora = (
        predicted(llama(), mm.Recipe(lora=RANK, precision="bf16", lora_variant=variant)).measure(4)
        for variant in ("lora", "dora")
    )

    assert dora.breakdown.optimizer_state_bytes > plain.breakdown.optimizer_state_bytes
    assert dora.peak_allocated_bytes > plain.peak_allocated_bytes


WITHOUT_PEFT = """
import sys
sys.modules["peft"] = None
import memorymark as mm
from memorymark.training.adapters import add_adapters
from torch import nn
try:
    add_adapters(nn.Sequential(nn.Linear(2, 2)), mm.Recipe(lora=4))
except mm.UsageError as error:
    print(error)
"""


def test_without_peft_a_sentence_says_how_to_get_it():
    said = subprocess.run([sys.executable, "-c", WITHOUT_PEFT], capture_output=True, text=True).stdout

    assert said == "LoRA needs peft, which is not installed; run `pip install memorymark[lora]`.\n"
