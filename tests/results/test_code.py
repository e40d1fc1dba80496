"""Code that is handed over to be pasted must run, with the real libraries, and do what the recipe says."""

import itertools
from dataclasses import replace
from typing import get_args

import pytest
import torch
from torch.utils.data import DataLoader

import memorymark as mm
from memorymark.models.workloads import workload_of
from memorymark.question.recipe_choices import Optimizer
from memorymark.results.code import Plan, code_for
from memorymark.results.probe_info import ProbeInfo

BERT = mm.Request(model="bert", small=True, seq_len=8)
RESNET = mm.Request(model="resnet", small=True)
RECIPES = {
    "plain": (BERT, mm.Recipe(), 1),
    "all of it": (BERT, mm.Recipe(precision="bf16", fused=True, gradient_checkpointing=True, attention="sdpa"), 2),
    "selective": (BERT, mm.Recipe(gradient_checkpointing="selective"), 1),
    "selective lora": (BERT, mm.Recipe(precision="bf16", lora=4, gradient_checkpointing="selective"), 1),
    "sgd": (BERT, mm.Recipe(optimizer="sgd", tf32=True), 1),
    "adafactor": (BERT, mm.Recipe(optimizer="adafactor"), 3),
    "for-loop": (BERT, mm.Recipe(optimizer_variant="forloop"), 1),
    "lora": (BERT, mm.Recipe(precision="bf16", lora=4, gradient_checkpointing=True), 2),
    "attention": (BERT, mm.Recipe(precision="bf16", lora=4, lora_targets="attention", lora_variant="dora"), 1),
    "names": (BERT, mm.Recipe(precision="bf16", lora=4, lora_targets="query,value", lora_variant="rslora"), 1),
    "half weights": (BERT, mm.Recipe(weights="bf16"), 1),
    "half images": (RESNET, mm.Recipe(weights="bf16"), 1),
    "images": (RESNET, mm.Recipe(precision="bf16", channels_last=True, fused=True), 1),
}


def code_of(recipe, batch_size, accumulation_steps=1, **facts):
    return code_for(Plan(recipe=recipe, batch_size=batch_size, accumulation_steps=accumulation_steps, **facts))


class Samples(torch.utils.data.Dataset):
    """Synthetic samples, one by one, as a user's dataset gives them."""

    def __init__(self, workload, count):
        batch = workload.batch(count, torch.device("cpu"))
        self._samples = [{name: value[index] for name, value in batch.items()} for index in range(count)]

    def __len__(self):
        return len(self._samples)

    def __getitem__(self, index):
        return self._samples[index]


class CountedSteps:
    """Counts what optimizers do, whoever makes them."""

    def __init__(self):
        self.count = 0
        self.kinds = set()

    def __call__(self, optimizer, *_):
        self.count += 1
        self.kinds.add((type(optimizer), optimizer.defaults.get("fused")))


@pytest.fixture(autouse=True)
def matmul_precision_is_put_back():
    """The code sets it for its whole process, which here is that of the tests that follow."""
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


@pytest.fixture
def steps():
    from torch.optim.optimizer import register_optimizer_step_post_hook

    counted = CountedSteps()
    hook = register_optimizer_step_post_hook(counted)
    yield counted
    hook.remove()


def given(workload, batches, batch_size):
    """What the code takes as given."""
    dataset = Samples(workload, batches * batch_size)
    return {
        "model": workload.build(),
        "dataset": dataset,
        "make_loader": lambda size: DataLoader(dataset, batch_size=size),
        "LEARNING_RATE": 1e-3,
    }


def run(code, names):
    """Runs it and gives the names it leaves."""
    exec(compile(code, "pasted", "exec"), names)
    return names


@pytest.mark.parametrize(("request_", "recipe", "accumulation"), RECIPES.values(), ids=RECIPES)
def test_the_code_for_pytorch_trains(request_, recipe, accumulation, steps):
    workload = workload_of(request_)
    names = given(workload, 4, 2)
    before = {name: value.clone() for name, value in names["model"].state_dict().items()}

    names = run(code_of(recipe, 2, accumulation, task="sequence-classification", device="cpu").pytorch, names)

    assert names["BATCH_SIZE"] == 2
    assert steps.count == 4 // accumulation
    optimizers = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD, "adafactor": torch.optim.Adafactor}
    assert {kind for kind, _ in steps.kinds} == {optimizers[recipe.optimizer]}
    assert all(bool(fused) == recipe.fused for _, fused in steps.kinds)
    trained = {name for name, value in names["model"].named_parameters() if value.requires_grad}
    if recipe.lora:
        assert {"lora" in name or "modules_to_save" in name for name in trained} == {True}
        assert any("modules_to_save" in name for name in trained)  # the new head
        assert {value.dtype for value in names["model"].parameters() if value.requires_grad} == {torch.float32}
    else:
        after = names["model"].state_dict()
        assert any(not torch.equal(after[name], before[name]) for name in trained)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_code_chooses_the_attention_of_the_recipe(attention):
    recipe = mm.Recipe(attention=attention)

    names = run(
        code_of(recipe, 2, task="sequence-classification", device="cpu").pytorch, given(workload_of(BERT), 4, 2)
    )

    assert names["model"].config._attn_implementation == attention


def test_the_code_for_flash_attention_names_its_package():
    code = code_of(mm.Recipe(attention="flash", precision="bf16"), 2, task="causal-lm")

    for text in (code.pytorch, code.transformers, code.lightning):
        assert 'model.set_attn_implementation("flash_attention_2")  # pip install flash-attn' in text


def test_the_code_for_packed_rows_lets_trl_pack_for_flash_attention():
    recipe = mm.Recipe(attention="flash", precision="bf16")

    code = code_of(recipe, 4, task="sft", row_tokens=2048)

    assert "from trl import SFTConfig, SFTTrainer" in code.transformers
    assert "packing=True,\n    max_length=2048," in code.transformers
    assert "SFTTrainer(model=model" in code.transformers
    assert "DataCollatorWithFlattening" in code.pytorch
    for text in (code.pytorch, code.transformers, code.lightning):
        compile(text, "pasted", "exec")
        assert "model.config.use_cache = False" in text


def test_the_code_for_packed_rows_keeps_them_apart_for_other_attention():
    code = code_of(mm.Recipe(precision="bf16"), 4, task="sft", row_tokens=2048)

    assert "Trainer(model=model" in code.transformers
    assert "trl" not in code.transformers
    assert "rows of 2048 tokens" in code.pytorch


@pytest.mark.parametrize("name", ["all of it", "lora", "images"])
def test_the_code_for_the_trainer_trains(name, steps, tmp_path, monkeypatch):
    pytest.importorskip("accelerate")
    monkeypatch.chdir(tmp_path)
    request, recipe, accumulation = RECIPES[name]
    code = code_of(recipe, 2, accumulation, task="sequence-classification", device="cpu").transformers
    quiet = 'report_to="none", num_train_epochs=1, save_strategy="no", disable_tqdm=True,'

    names = run(code.replace('output_dir="out",', f'output_dir="out", {quiet}'), given(workload_of(request), 4, 2))

    arguments = names["args"]
    assert (arguments.per_device_train_batch_size, arguments.gradient_accumulation_steps) == (2, accumulation)
    assert arguments.bf16 == (recipe.precision == "bf16")
    assert steps.count == 4 // accumulation


@pytest.mark.filterwarnings("ignore")  # Lightning warns of few workers and small datasets
@pytest.mark.parametrize("name", ["all of it", "images"])
def test_the_code_for_lightning_trains(name, steps, tmp_path, monkeypatch):
    pytest.importorskip("lightning")
    monkeypatch.chdir(tmp_path)
    request, recipe, accumulation = RECIPES[name]
    code = code_of(recipe, 2, accumulation, task="sequence-classification", device="cpu").lightning
    quiet = "lightning.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, "

    names = run(code.replace("lightning.Trainer(", quiet), given(workload_of(request), 4, 2))

    assert names["trainer"].precision == "bf16-mixed"
    assert steps.count == 4 // accumulation


@pytest.mark.parametrize(
    ("recipe", "kinds", "each"),
    [
        (mm.Recipe(optimizer="muon"), {torch.optim.Muon, torch.optim.AdamW}, 2),
        (mm.Recipe(optimizer="muon", optimizer_in_backward=True), {torch.optim.Muon, torch.optim.AdamW}, None),
        (mm.Recipe(optimizer="sgd", optimizer_in_backward=True), {torch.optim.SGD}, None),
    ],
    ids=lambda value: value.describe() if isinstance(value, mm.Recipe) else "",
)
def test_code_with_several_optimizers_trains_each_weight(recipe, kinds, each, steps):
    names = given(workload_of(BERT), 2, 2)
    trained = list(names["model"].parameters())
    before = [value.clone() for value in trained]

    names = run(code_of(recipe, 2, task="sequence-classification", device="cpu").pytorch, names)

    assert {kind for kind, _ in steps.kinds} == kinds
    assert steps.count == 2 * (each or len(trained))
    assert not any(torch.equal(old, new) for old, new in zip(before, trained, strict=True))
    assert all(value.grad is None for value in trained)


@pytest.mark.parametrize("given", [{"optimizer": "muon"}, {"optimizer_in_backward": True}])
def test_what_only_a_loop_of_ones_own_can_do_is_said_in_the_other_code(given):
    code = code_of(mm.Recipe(**given), 2)

    assert all("use the code for PyTorch" in text for text in (code.transformers, code.lightning))


def test_every_recipe_gives_code_that_is_python():
    choices = {
        "precision": ["fp32", "bf16", "fp16"],
        "optimizer": get_args(Optimizer),
        "gradient_checkpointing": ["none", "full", "selective"],
        "compile": [False, True],
        "channels_last": [False, True],
        "lora": [0, 16],
        "weights": ["auto", "bf16", "nf4"],
    }
    for values in itertools.product(*choices.values()):
        try:
            recipe = mm.Recipe(**dict(zip(choices, values, strict=True)))
        except mm.UsageError:  # such as quantized weights without adapters
            continue
        for steps in (1, 4):
            code = code_of(recipe, 8, steps, seq_len=64)
            for text in (code.pytorch, code.transformers, code.lightning):
                compile(text, "pasted", "exec")
                assert "None" not in text


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ("nf4", {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True,
                 "bnb_4bit_compute_dtype": torch.bfloat16}),
        ("int8", {"load_in_8bit": True}),
    ],
)  # fmt: skip
def test_the_code_for_quantized_weights_loads_prepares_and_adapts_them(weights, expected, steps, monkeypatch):
    import transformers

    workload, loaded = workload_of(BERT), []
    found = given(workload, 2, 2)
    model = found.pop("model").to(torch.bfloat16)

    def load(name, **options):
        loaded.append((name, options))
        return model

    monkeypatch.setattr(transformers, "BitsAndBytesConfig", dict)  # the real one needs bitsandbytes
    monkeypatch.setattr(transformers.AutoModelForSequenceClassification, "from_pretrained", load)
    recipe = mm.Recipe(weights=weights, lora=4, precision="bf16")

    run(code_of(recipe, 2, task="sequence-classification", device="cpu").pytorch, {**found, "MODEL": "org/name"})

    assert loaded == [("org/name", {"quantization_config": expected, "dtype": torch.bfloat16})]
    assert {p.dtype for p in model.parameters()} == {torch.float32}  # prepared
    assert steps.count == 2


def test_half_weights_are_called_so_by_lightning():
    assert 'precision="bf16-true"' in code_of(mm.Recipe(weights="bf16"), 8).lightning
    assert 'precision="bf16-mixed"' in code_of(mm.Recipe(weights="bf16", precision="bf16"), 8).lightning


def test_weights_that_a_config_quantizes_are_loaded_so():
    info = replace(info_of("cuda"), weights_dtype="nf4")
    plan = Plan.of(BERT, info, recipe=mm.Recipe(lora=4), batch_size=8, accumulation_steps=1)

    assert "load_in_4bit=True" in code_for(plan).transformers


def test_a_loss_and_an_optimizer_of_ones_own_stay_ones_own():
    code = code_of(mm.Recipe(precision="bf16", compile=True), 8, own_loss=True, own_optimizer=True)

    for text in (code.pytorch, code.lightning):
        assert "loss_of(" in text
        assert "make_optimizer(" in text
        assert "AdamW" not in text
        assert "(**batch)" not in text


def test_what_the_recipe_asks_for_is_in_the_code():
    code = code_of(mm.Recipe(precision="fp16", compile=True, optimizer="adamw8bit", tf32=True), 32, 2)

    for said in ("torch.compile(model)", "GradScaler", "AdamW8bit", 'set_float32_matmul_precision("high")', "% ACCUM"):
        assert said in code.pytorch
    for said in ("fp16=True", "torch_compile=True", "adamw_bnb_8bit", "gradient_accumulation_steps=2", "tf32=True"):
        assert said in code.transformers
    for said in ('"16-mixed"', "torch.compile(model)", "accumulate_grad_batches=2", "AdamW8bit"):
        assert said in code.lightning


def test_a_compiled_classifier_is_told_its_kind_of_problem_before_it_is_compiled():
    recipe = mm.Recipe(compile=True)
    code = code_of(recipe, 8, task="image-classification")

    told = "if model.config.problem_type is None and model.config.num_labels > 1:\n    model.config.problem_type ="
    for text in (code.pytorch, code.transformers, code.lightning):
        assert told in text.partition("compile(" if "torch.compile(" in text else "torch_compile=")[0]
    assert "problem_type" not in code_of(recipe, 8, task="causal-lm").pytorch
    assert "problem_type" not in code_of(mm.Recipe(), 8, task="image-classification").pytorch


def info_of(device_kind):
    return ProbeInfo(
        device_kind=device_kind, device_name="a device", total_bytes=1, capacity_bytes=1, capped=False, parameters=1
    )


@pytest.mark.parametrize(("kind", "accelerator"), [("cuda", "gpu"), ("mps", "mps"), ("cpu", "cpu")])
def test_the_code_is_for_the_device_that_the_numbers_are_of(kind, accelerator):
    plan = Plan.of(BERT, info_of(kind), recipe=mm.Recipe(precision="fp16"), batch_size=8, accumulation_steps=1)

    code = code_for(plan)

    for said in ("model.to", "torch.amp.GradScaler", "v.to", "torch.autocast"):
        assert f'{said}("{kind}"' in code.pytorch
    assert f'accelerator="{accelerator}"' in code.lightning
    assert ("use_cpu=True" in code.transformers) == (kind == "cpu")
    assert "cuda" not in str(code) or kind == "cuda"


def test_a_model_of_timm_has_no_loss_of_its_own():
    request, info = mm.Request(model="timm:resnet18", task="image-classification"), info_of("cuda")

    plan = Plan.of(request, info, recipe=mm.Recipe(compile=True), batch_size=8, accumulation_steps=1)

    assert "loss = loss_of(forward, batch)" in code_for(plan).pytorch
    assert "model.config" not in code_for(plan).pytorch
