"""The recipe's optimizers: what they keep, which parameters are whose, and when they update."""

import pytest
import torch

import memorymark as mm
from memorymark.models.workloads import workload_of
from memorymark.training.optimizers import make_optimizers
from memorymark.training.step import TrainingStep
from support.probes import predicted, probe_for
from support.tiny import PARAMETERS, tiny

CPU = torch.device("cpu")
WIDTH, LAYERS = 256, 6
LLAMA = workload_of(mm.Request(model="llama-3.2-1b", small=True, seq_len=8))


def deep(loss=None):
    """Layers whose weights are far larger than what a batch needs."""

    def build():
        return torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))

    def batch(size, device):
        return {"input": torch.rand(size, WIDTH, device=device)}

    return mm.Workload(build=build, batch=batch, loss=loss or (lambda model, batch: model(batch["input"]).mean()))


def state_bytes(recipe, workload=LLAMA):
    step = TrainingStep(workload, recipe, CPU)
    step(2)
    return sum(tensor.nbytes for tensor in step.optimizer_state() if tensor.dim())


@pytest.mark.parametrize(
    "recipe",
    [
        mm.Recipe(optimizer="muon"),
        mm.Recipe(optimizer_variant="forloop"),
        mm.Recipe(optimizer="adafactor", optimizer_variant="foreach"),
        mm.Recipe(optimizer_in_backward=True),
        mm.Recipe(optimizer="muon", optimizer_in_backward=True),
        mm.Recipe(optimizer="sgd", optimizer_in_backward=True),
    ],
    ids=lambda recipe: recipe.describe(),
)
def test_the_predicted_state_is_that_of_the_real_optimizer(recipe):
    trial = predicted(LLAMA, recipe).measure(2)

    assert trial.breakdown.optimizer_state_bytes == state_bytes(recipe)


def test_muon_updates_the_hidden_matrices_and_adamw_the_rest():
    model = LLAMA.build()
    muon, adamw = make_optimizers(model, mm.Recipe(optimizer="muon"))

    names = {id(parameter): name for name, parameter in model.named_parameters()}
    matrices, rest = (
        {names[id(parameter)] for parameter in optimizer.param_groups[0]["params"]} for optimizer in (muon, adamw)
    )
    assert (type(muon), type(adamw)) == (torch.optim.Muon, torch.optim.AdamW)
    assert all(name.endswith("proj.weight") for name in matrices)
    assert matrices | rest == set(names.values())
    assert {name for name in rest if "norm" not in name} == {"model.embed_tokens.weight"}


def test_the_head_of_a_classifier_is_adamws_too():
    model = workload_of(mm.Request(model="bert", small=True)).build()
    _, adamw = make_optimizers(model, mm.Recipe(optimizer="muon"))

    assert any(model.classifier.weight is parameter for parameter in adamw.param_groups[0]["params"])


def test_a_torch_without_muon_is_told_in_a_sentence(monkeypatch):
    monkeypatch.delattr(torch.optim, "Muon")

    with pytest.raises(mm.UsageError, match=r"Muon came with torch 2\.9, and this is torch .*; upgrade torch"):
        make_optimizers(LLAMA.build(), mm.Recipe(optimizer="muon"))


def test_updates_in_the_backward_pass_train_the_same_model():
    def after(recipe):
        torch.manual_seed(0)
        step = TrainingStep(deep(), recipe, CPU)
        for _ in range(3):
            torch.manual_seed(1)
            step(2)
        return [parameter.detach().clone() for parameter in step.model.parameters()]

    usual, early = after(mm.Recipe()), after(mm.Recipe(optimizer_in_backward=True))

    assert all(torch.allclose(a, b) for a, b in zip(usual, early, strict=True))


@pytest.mark.parametrize(
    "probe", [predicted, lambda *asked: probe_for(*asked, cap_bytes=2**30)], ids=["predicted", "run"]
)
def test_with_updates_in_the_backward_pass_gradients_are_never_all_alive(probe):
    usual, early = (probe(deep(), mm.Recipe(fused=True, optimizer_in_backward=early)) for early in (False, True))

    gradients = 4 * LAYERS * WIDTH**2
    saved = usual.measure(2).peak_allocated_bytes - early.measure(2).peak_allocated_bytes
    assert 0.6 * gradients < saved <= gradients


def test_a_model_of_the_callers_keeps_no_hooks():
    module = tiny().build()
    workload = mm.Workload(build=lambda: module, batch=tiny().batch)

    with probe_for(workload, mm.Recipe(optimizer_in_backward=True), preserve=True) as probe:
        probe.try_batch(2)

    assert not any(parameter._post_accumulate_grad_hooks for parameter in module.parameters())


def test_updating_one_by_one_holds_fewer_temporaries_than_all_at_once():
    at_once, one_by_one = (
        predicted(deep(), mm.Recipe(optimizer_variant=name)).measure(2).peak_allocated_bytes
        for name in ("foreach", "forloop")
    )

    assert one_by_one < at_once


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"optimizer_in_backward": True, "accumulation_steps": 4}, "optimizer_in_backward= needs accumulate= 1, not 4"),
        ({"optimizer_in_backward": True, "precision": "fp16"}, "needs precision= fp32 or bf16, not fp16"),
        ({"optimizer_in_backward": True, "optimizer": "none"}, "optimizer_in_backward= needs optimizer="),
        ({"optimizer_variant": "forloop", "fused": True}, "optimizer_variant= and fused= exclude each other"),
        ({"optimizer_variant": "foreach", "optimizer": "muon"}, "optimizer_variant= needs optimizer="),
    ],
)
def test_what_does_not_go_together_is_one_sentence(given, said):
    with pytest.raises(mm.UsageError) as caught:
        mm.Recipe(**given)

    assert said in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("recipe", "bytes_each"),
    [
        (mm.Recipe(), 16),
        (mm.Recipe(optimizer="lion"), 12),
        (mm.Recipe(optimizer="paged-adamw8bit"), 8),
        (mm.Recipe(optimizer_in_backward=True), 12),
    ],
)
def test_the_least_memory_counts_what_the_optimizer_keeps_on_the_gpu(recipe, bytes_each):
    assert recipe.least_bytes(PARAMETERS) == bytes_each * PARAMETERS
