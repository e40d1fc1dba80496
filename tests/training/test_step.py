import pytest
import torch

import memorymark as mm
from memorymark.devices.tracked import CpuDevice
from memorymark.models.workloads import workload_of
from memorymark.training.step import TrainingStep
from support.tiny import CLASSES, TinyNet, tiny, tiny_batch
from support.torch_versions import needs_torch

CPU = torch.device("cpu")
GENEROUS = 2**30


def step_for(recipe=None, workload=None):
    return TrainingStep(workload or tiny(), recipe or mm.Recipe(), CPU)


def values(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def changed(model, before):
    return {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}


def gradients_at_the_end_of_backward(step, batch_size):
    """Copies of the gradients when the last backward pass of a step had ended."""
    copies = {}

    def on_phase(phase):
        if phase == "backward":
            copies.update({n: p.grad.clone() for n, p in step.model.named_parameters()})

    step(batch_size, on_phase)
    return copies


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "adamw"},
        {"optimizer": "adam"},
        {"optimizer": "sgd"},
        {"optimizer": "adafactor"},
        {"optimizer": "adamw", "fused": True},
        {"optimizer": "adam", "fused": True},
        {"optimizer": "sgd", "fused": True},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_every_optimizer_changes_every_weight_and_drops_the_gradients(options):
    step = step_for(mm.Recipe(**options))
    before = values(step.model)

    step(32)
    step(32)

    assert changed(step.model, before) == set(before)
    assert list(step.gradients()) == []


def test_without_an_optimizer_weights_stay_gradients_are_made_and_dropped():
    step = step_for(mm.Recipe(optimizer="none"))
    before = values(step.model)

    gradients = gradients_at_the_end_of_backward(step, 32)

    assert all(gradient.abs().sum() > 0 for gradient in gradients.values())
    assert changed(step.model, before) == set()
    assert list(step.gradients()) == list(step.optimizer_state()) == []


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)]
)
def test_precision_is_that_of_the_activations_and_the_weights_stay_fp32(precision, dtype):
    seen = []

    def loss(model, batch):
        output = model(**batch)
        seen.append(output.logits.dtype)
        return output.loss

    step = step_for(mm.Recipe(precision=precision), tiny(loss=loss))
    before = values(step.model)

    step(32)
    step(32)

    assert seen == [dtype, dtype]
    assert changed(step.model, before) == set(before)
    assert {parameter.dtype for parameter in step.model.parameters()} == {torch.float32}


@pytest.mark.parametrize(("checkpointing", "passes"), [(False, 1), (True, 2)])
def test_checkpointing_runs_the_layers_again_in_the_backward_pass(checkpointing, passes):
    workload = workload_of(mm.Request(model="bert", small=True, seq_len=8))
    step = step_for(mm.Recipe(gradient_checkpointing=checkpointing), workload)
    calls = []
    step.model.bert.encoder.layer[0].attention.register_forward_hook(lambda *_: calls.append(1))
    before = values(step.model)

    step(2)

    assert len(calls) == passes
    # Not all of them: in a short batch most words and positions of the embeddings have no gradient to speak of.
    assert len(changed(step.model, before)) > 0.8 * len(before)


def test_a_model_without_checkpointing_is_a_usage_error():
    with pytest.raises(mm.UsageError, match=r"TinyNet has no gradient checkpointing; drop gradient_checkpointing=\."):
        step_for(mm.Recipe(gradient_checkpointing=True))


def test_channels_last_reaches_weights_and_images():
    seen = []

    def loss(model, batch):
        seen.append(batch["pixel_values"].is_contiguous(memory_format=torch.channels_last))
        return model(**batch).loss

    images = workload_of(mm.Request(model="resnet", small=True, image_size=32))
    workload = mm.Workload(build=images.build, batch=images.batch, loss=loss)
    step = step_for(mm.Recipe(channels_last=True), workload)

    step(2)

    kernels = [p for p in step.model.parameters() if p.dim() == 4]
    assert seen == [True]
    assert kernels
    assert all(p.is_contiguous(memory_format=torch.channels_last) for p in kernels)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_step_is_forward_and_backward_for_each_accumulated_batch_and_one_update(steps):
    step = step_for(mm.Recipe(accumulation_steps=steps))
    phases = []

    step(4, phases.append)

    assert phases == ["forward", "backward"] * steps + ["optimizer"]


def test_accumulated_gradients_are_the_mean_over_the_batches():
    fixed = tiny_batch(8, CPU)
    recipes = [mm.Recipe(accumulation_steps=n, train_mode=False) for n in (1, 4)]
    once, four_times = (step_for(recipe, tiny(batch=lambda size, device: fixed)) for recipe in recipes)
    four_times.model.load_state_dict(once.model.state_dict())

    expected = gradients_at_the_end_of_backward(once, 8)
    accumulated = gradients_at_the_end_of_backward(four_times, 8)

    for name, gradient in expected.items():
        torch.testing.assert_close(accumulated[name], gradient)


@pytest.mark.parametrize("train_mode", [True, False])
def test_dropout_is_on_in_train_mode_only(train_mode):
    step = step_for(mm.Recipe(train_mode=train_mode))
    zeros = []
    step.model.dropout.register_forward_hook(lambda _, inputs, output: zeros.append((output == 0) & (inputs[0] != 0)))

    step(64)

    assert bool(zeros[0].any()) == train_mode


def test_the_mean_loss_is_the_mean_of_the_logits_and_needs_no_labels():
    step = step_for(mm.Recipe(loss="mean", optimizer="none"))
    labels = []
    step.model.register_forward_pre_hook(lambda _, args, kwargs: labels.append(kwargs.get("labels")), with_kwargs=True)

    gradients = gradients_at_the_end_of_backward(step, 32)

    assert labels == [None]
    torch.testing.assert_close(gradients["outer.bias"], torch.full((CLASSES,), 1 / CLASSES))


def test_the_model_loss_is_that_of_the_labels():
    fixed = tiny_batch(8, CPU)
    step = step_for(mm.Recipe(train_mode=False, optimizer="none"), tiny(batch=lambda size, device: fixed))

    gradients = gradients_at_the_end_of_backward(step, 8)

    step.model(**fixed).loss.backward()
    for name, parameter in step.model.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad)


@pytest.mark.parametrize("run", ["__call__", "forward_only", "forward_and_backward"])
@pytest.mark.parametrize("fails", [False, True])
def test_tf32_is_on_within_the_step_and_put_back_whatever_happens(run, fails):
    seen = []

    def loss(model, batch):
        seen.append(torch.get_float32_matmul_precision())
        if fails:
            raise ZeroDivisionError
        return model(**batch).loss

    step = step_for(mm.Recipe(tf32=True), tiny(loss=loss))
    before = torch.get_float32_matmul_precision()
    try:
        getattr(step, run)(4)
    except ZeroDivisionError:
        assert fails

    assert seen == ["high"]
    assert before == "highest" == torch.get_float32_matmul_precision()


def test_forward_only_keeps_no_graph_and_forward_and_backward_no_gradients():
    needs_gradient = []

    def loss(model, batch):
        result = model(**batch).loss
        needs_gradient.append(result.requires_grad)
        return result

    step = step_for(workload=tiny(loss=loss))
    before = values(step.model)

    step.forward_only(4)
    step.forward_and_backward(4)

    assert needs_gradient == [False, True]
    assert list(step.gradients()) == list(step.optimizer_state()) == []
    assert changed(step.model, before) == set()


def state_bytes(step):
    return sum(tensor.nbytes for tensor in step.optimizer_state())


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("part", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9])
def test_after_a_failure_while_the_optimizer_makes_its_state_the_next_step_succeeds(part, precision):
    whole_state = step_for()
    whole_state(4)
    device = CpuDevice()
    with device.counting():
        step = step_for(mm.Recipe(precision=precision))

        def leave_room_for_a_part_of_the_state(phase):
            if phase == "backward":
                device.cap(device.reading().allocated_bytes + int(part * state_bytes(whole_state)))

        with pytest.raises(torch.OutOfMemoryError):
            step(4, leave_room_for_a_part_of_the_state)
        assert state_bytes(step) < state_bytes(whole_state)
        device.cap(GENEROUS)
        before = values(step.model)

        step.recover()
        step(4)

    assert changed(step.model, before) == set(before)
    assert state_bytes(step) == state_bytes(whole_state)


def test_recovering_keeps_the_state_of_an_optimizer_that_had_stepped():
    def loss(model, batch):
        if len(batch["x"]) == 5:
            raise torch.OutOfMemoryError
        return model(**batch).loss

    step = step_for(workload=tiny(loss=loss))
    step(4)
    state = [tensor.clone() for tensor in step.optimizer_state()]
    with pytest.raises(torch.OutOfMemoryError):
        step(5)

    step.recover()

    kept = list(step.optimizer_state())
    assert len(kept) == len(state) > 0
    assert all(torch.equal(a, b) for a, b in zip(kept, state, strict=True))


def test_recovering_drops_the_gradients_of_accumulated_batches():
    def loss(model, batch):
        model.passes += 1
        if model.passes == 2:
            raise torch.OutOfMemoryError
        return model(**batch).loss

    class Counting(TinyNet):
        passes = 0

    step = step_for(mm.Recipe(accumulation_steps=3), tiny(build=Counting, loss=loss))
    with pytest.raises(torch.OutOfMemoryError):
        step(4)
    assert list(step.gradients())

    step.recover()

    assert list(step.gradients()) == []


def test_weights_are_parameters_and_buffers():
    step = step_for()

    assert sum(t.numel() for t in step.weights()) == sum(p.numel() for p in step.model.parameters()) + 1


def test_attention_is_the_one_that_the_recipe_names():
    workload = workload_of(mm.Request(model="bert", small=True, seq_len=8))

    for attention in ("eager", "sdpa"):
        step = TrainingStep(workload, mm.Recipe(attention=attention), torch.device("cpu"))
        assert step.model.config._attn_implementation == attention
        step(2)


def own_config(**config):
    return workload_of(mm.Request(config=config, model="own"))


def test_attention_reaches_parts_with_a_config_of_their_own():
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "vocab_size": 64}
    workload = own_config(model_type="t5", architectures=["T5ForConditionalGeneration"], **sizes)

    model = TrainingStep(workload, mm.Recipe(attention="eager"), CPU).model

    assert {part.config._attn_implementation for part in (model, model.encoder, model.decoder)} == {"eager"}


def test_an_attention_that_a_model_does_not_know_is_refused():
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 8], "depths": [1, 1], "layer_type": "basic"}
    workload = own_config(model_type="resnet", **sizes)

    with pytest.raises(mm.UsageError, match="has no sdpa attention; drop attention="):
        TrainingStep(workload, mm.Recipe(attention="sdpa"), CPU)


def test_a_model_without_a_choice_of_attention_says_so():
    with pytest.raises(mm.UsageError, match="TinyNet has no choice of attention; drop attention="):
        TrainingStep(tiny(), mm.Recipe(attention="sdpa"), torch.device("cpu"))


def test_each_step_is_compiled_for_its_own_batch_as_in_a_fresh_process(monkeypatch):
    compile_with, varying = torch.compile, []

    def look(graph, inputs):
        varying.append(any(isinstance(value, torch.SymInt) for value in inputs))
        return graph.forward

    monkeypatch.setattr(torch, "compile", lambda model: compile_with(model, backend=look))
    for batch_size in (4, 6, 10):
        step_for(mm.Recipe(compile=True))(batch_size)
    torch.compiler.reset()

    assert varying
    assert not any(varying)


BERT_COMPILED = pytest.param("bert", marks=needs_torch("2.11", "2.6 cannot compile BERT of transformers 5.17"))


@pytest.mark.parametrize("model", [BERT_COMPILED, "resnet"])
def test_a_model_is_compiled_once_however_many_steps_it_runs(model, monkeypatch):
    compile_with, graphs = torch.compile, []

    def look(graph, _):
        graphs.append(graph)
        return graph

    monkeypatch.setattr(torch, "compile", lambda model: compile_with(model, backend=look))
    torch.compiler.reset()
    step = step_for(mm.Recipe(compile=True), workload_of(mm.Request(model=model, small=True)))
    for _ in range(3):
        step(2)
    torch.compiler.reset()

    assert len(graphs) == 1


WITH_SGD = mm.Workload(TinyNet, tiny_batch, name="tiny", optimizer=lambda model: torch.optim.SGD(model.parameters()))


def test_a_step_without_an_optimizer_has_no_name_for_one():
    assert step_for(mm.Recipe(), WITH_SGD).own_optimizer == "SGD"
    assert step_for(mm.Recipe(optimizer="none"), WITH_SGD).own_optimizer == ""


def test_batches_that_stop_growing_are_refused():
    x, y = torch.rand(100, 8), torch.zeros(100)
    workload = mm.Workload(lambda: torch.nn.Linear(8, 1), lambda n, _: (x[:n], y[:n]), mean_error, name="few")
    step = step_for(mm.Recipe(), workload)

    for size in (2, 50, 100, 60):
        step(size)

    with pytest.raises(
        mm.UsageError, match=r"batch\(101\) of few holds no more than batch\(100\); make batches of any"
    ):
        step(101)


def mean_error(model, batch):
    return (model(batch[0])[:, 0] - batch[1]).square().mean()


def test_a_model_of_which_nothing_is_trained_is_refused_in_one_sentence():
    frozen = mm.Workload(lambda: TinyNet().requires_grad_(False), tiny_batch, name="tiny")

    with pytest.raises(mm.UsageError, match="TinyNet has no trainable parameters; pass a module that has some"):
        step_for(mm.Recipe(), frozen)


@pytest.mark.parametrize("recipe", [mm.Recipe(optimizer="adafactor"), mm.Recipe(fused=True)])
def test_another_optimizer_than_the_workload_s_own_is_refused(recipe):
    with pytest.raises(mm.UsageError, match="tiny has its own optimizer; leave optimizer=, fused="):
        step_for(recipe, WITH_SGD)


def pairs(size, device):
    return torch.rand(size, 3, 8, 8, device=device), torch.zeros(size, device=device)


def test_channels_last_reaches_images_however_a_batch_holds_them():
    seen = []

    def loss(model, batch):
        seen.append(batch[0].is_contiguous(memory_format=torch.channels_last))
        return model(batch[0]).mean()

    conv = mm.Workload(lambda: torch.nn.Conv2d(3, 4, 3), pairs, loss, name="conv")
    step_for(mm.Recipe(channels_last=True), conv)(4)

    assert seen == [True]


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (pairs, "batch\\(\\) of conv returned a tuple"),
        (lambda *_: {"input": pairs(2, CPU)[0]}, "returns a Tensor without"),
    ],
)
def test_the_mean_of_logits_that_are_not_there_is_refused_in_a_sentence(batch, said):
    conv = mm.Workload(
        lambda: torch.nn.Conv2d(3, 4, 3), batch, lambda model, batch: model(batch[0]).mean(), name="conv"
    )

    with pytest.raises(mm.UsageError, match=said):
        step_for(mm.Recipe(loss="mean"), conv)(2)


def test_a_sparse_gradient_is_what_it_is_made_of():
    rows, width = 10, 16
    workload = mm.Workload(
        build=lambda: torch.nn.Embedding(1000, width, sparse=True),
        batch=lambda size, device: torch.arange(size, device=device),
        loss=lambda model, ids: model(ids).square().mean(),
        optimizer=lambda model: torch.optim.SGD(model.parameters()),
    )
    step, parts = step_for(mm.Recipe(), workload), []

    step(rows, lambda phase: parts.extend(part.numel() for part in step.gradients()) if phase == "backward" else None)

    assert sorted(parts) == [rows, rows * width]
