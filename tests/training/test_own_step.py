"""Whole training steps of a caller's own: what they take on real CPU tensors, and what is predicted for them."""

import io
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import memorymark as mm
from memorymark.devices import open_device
from memorymark.errors import UsageError
from memorymark.probe import predicted
from memorymark.probe.measured import MeasuredProbe
from memorymark.question.recipe import Recipe
from memorymark.question.target import Target
from support.step_peaks import predicted_peaks

SIZE, WIDTH = 96, 128
TINY = {"device": "cpu", "memory_gib": 8 / 1024}


def net(outputs=10, hidden=256):
    return nn.Sequential(nn.Linear(WIDTH, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def pair(size, device):
    return torch.rand(size, WIDTH, device=device), torch.zeros(size, dtype=torch.long, device=device)


def images(size, device):
    return torch.rand(size, WIDTH, device=device)


def adam(module):
    return torch.optim.Adam(module.parameters(), foreach=True)


def gan():
    return nn.ModuleDict({"maker": net(WIDTH), "judge": net(1)})


def gan_step(nets, real, optimizers):
    """As examples write it: three backward passes, two updates, gradients dropped at the start of each part."""
    (of_maker, of_judge), maker, judge = optimizers, nets["maker"], nets["judge"]
    of_judge.zero_grad()
    (-judge(real).mean()).backward()
    fake = maker(torch.randn_like(real))
    loss = judge(fake.detach()).mean()
    loss.backward()
    assert isinstance(loss.item(), float)
    of_judge.step()
    of_maker.zero_grad()
    (-judge(fake).mean()).backward()
    of_maker.step()


def gan_workload():
    optimizers = lambda nets: [adam(nets["maker"]), adam(nets["judge"])]  # noqa: E731
    return mm.Workload(gan, images, optimizer=optimizers, step=gan_step)


def averaged_step(modules, batch, optimizer):
    """Two batches, their gradients clipped, and a moving average of the weights."""
    model, average = modules
    for part in zip(*(tensor.chunk(2) for tensor in batch), strict=True):
        (cross_entropy(model(part[0]), part[1]) / 2).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    average.update_parameters(model)
    optimizer.zero_grad()


def with_average():
    model = net()
    return nn.ModuleList([model, AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn())])  # as on a GPU: in place


def loss_of(model, batch):
    return cross_entropy(model(batch[0]), batch[1])


@torch.no_grad()
def evaluation(model, batch, optimizer):
    right = [(model(batch[0]).argmax(-1) == batch[1]).sum().item() for _ in range(2)]
    wide = model(batch[0]).repeat(1, 300)
    assert len(right) == 2 and wide.dim() == 2


WORKLOADS = {
    "gan": gan_workload(),
    "average": mm.Workload(with_average, pair, optimizer=lambda both: adam(both[0]), step=averaged_step),
    "evaluation": mm.Workload(net, pair, loss_of, optimizer=adam, between={"evaluation": evaluation}),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_prediction_takes_what_real_tensors_take(name):
    with MeasuredProbe(WORKLOADS[name], Recipe(), open_device(Target(device="cpu"))) as probe:
        trial = probe.try_from_start(SIZE)
    peaks = predicted_peaks(WORKLOADS[name], SIZE)

    assert max(peaks.values()) == pytest.approx(trial.peak_allocated_bytes, rel=0.02)
    assert peaks["backward"] == pytest.approx(trial.backward_peak_bytes, rel=0.02)
    for between, peak in trial.between_peak_bytes.items():
        assert peaks[between] == pytest.approx(peak, rel=0.02)
    assert trial.between_peak_bytes.keys() == peaks.keys() - {"forward", "backward", "optimizer"}


def modules_of_a_gan():
    nets = gan()
    return {"maker": nets["maker"], "judge": nets["judge"]}, [adam(nets["maker"]), adam(nets["judge"])]


@pytest.mark.parametrize("where", [TINY, {"gpu": "l4", "memory_gib": 0.1}], ids=["measured", "predicted"])
def test_networks_that_take_turns_are_left_as_they_were(where):
    modules, optimizers = modules_of_a_gan()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizers[0], 1, gamma=0.5)
    before = [p.clone() for module in modules.values() for p in module.parameters()]

    def step(nets, batch, given):
        gan_step(nets, batch, given)
        scheduler.step()

    found = mm.max_batch_size(modules, lambda n: torch.rand(n, WIDTH), optimizer=optimizers, step=step, **where)

    assert found > found.safe > 100
    after = [p for module in modules.values() for p in module.parameters()]
    assert all(map(torch.equal, after, before))
    assert [len(one.state) for one in optimizers] == [0, 0]
    assert (scheduler.last_epoch, optimizers[0].param_groups[0]["lr"]) == (0, 1e-3)


@pytest.mark.parametrize("where", [TINY, {"gpu": "l4", "memory_gib": 0.1}], ids=["measured", "predicted"])
def test_the_peak_of_what_runs_between_steps_is_named_and_limits_the_batch(where):
    def found(**more):
        return mm.max_batch_size(net(), lambda n: pair(n, "cpu"), loss_of, "sgd", **where, **more)

    plain, evaluated = found(), found(between={"evaluation": evaluation})

    assert evaluated < 0.5 * plain
    assert list(plain.peaks) == ["step"]
    assert evaluated.peaks["evaluation"] > 2 * evaluated.peaks["step"] > 0


def outside(nets, real, optimizers):
    adam(nets["judge"]).step()
    nets["judge"](real).mean().backward()


def without_updates(nets, real, optimizers):
    nets["judge"](real).mean().backward()


@pytest.mark.parametrize("where", [TINY, {"gpu": "l4"}], ids=["measured", "predicted"])
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"step": lambda nets, real, optimizers: None}, "step= runs no backward pass"),
        ({"step": without_updates}, r"step= never calls .step\(\) of the Adam"),
        ({"step": outside}, r"step= never calls .step\(\) of the Adam"),
        ({"step": lambda nets, real, optimizers: net(1)(real).mean().backward()}, "trains another module"),
        ({"step": gan_step, "loss": loss_of}, "leave loss= out"),
        ({"step": gan_step, "precision": "bf16"}, "step= decides about precision= itself"),
        ({"loss": lambda nets, real: gan_step(nets, real, OPTIMIZERS[0])}, r"loss= calls .step\(\) of Adam itself"),
        ({"step": gan_step, "between": {"forward": evaluation}}, "between= cannot be called 'forward'"),
        ({"step": gan_step, "between": 3}, "between= must be a function or a dict"),
    ],
)
def test_a_step_that_is_not_one_is_refused(changed, said, where):
    modules, optimizers = modules_of_a_gan()
    OPTIMIZERS[:] = [optimizers]
    with pytest.raises(mm.UsageError, match=said):
        mm.max_batch_size(modules, lambda n: torch.rand(n, WIDTH), optimizer=optimizers, **changed, **where)


OPTIMIZERS = []


class Named(nn.Module):
    """Takes its arguments by place and by name, and returns logits and loss as they come."""

    def __init__(self, returned):
        super().__init__()
        self.net, self.returned = net(), returned

    def forward(self, inputs, labels=None):
        inputs = inputs["deep"][0] if isinstance(inputs, dict) else inputs
        logits = self.net(inputs)
        return self.returned(logits, logits.mean() if labels is None else cross_entropy(logits, labels))


BATCHES = {
    "tuple": lambda n: pair(n, "cpu"),
    "list": lambda n: list(pair(n, "cpu")),
    "tensor": lambda n: pair(n, "cpu")[0],
    "names": lambda n: dict(zip(("inputs", "labels"), pair(n, "cpu"), strict=True)),
    "both": lambda n: ([pair(n, "cpu")[0]], {"labels": pair(n, "cpu")[1]}),
    "nested": lambda n: {"inputs": {"deep": [pair(n, "cpu")[0]]}},
}
RETURNED = {
    "attribute": lambda logits, loss: SimpleNamespace(logits=logits, loss=loss),
    "dict": lambda logits, loss: {"logits": logits, "loss": loss},
    "pair": lambda logits, loss: (logits, loss),
    "loss": lambda logits, loss: loss,
}


@pytest.mark.parametrize(
    ("batch", "returned"),
    [*((batch, "pair") for batch in BATCHES), *(("tuple", returned) for returned in RETURNED)],
)
def test_batches_and_losses_come_in_any_shape(batch, returned):
    module, where = Named(RETURNED[returned]), {"gpu": "l4", "memory_gib": 0.1, "optimizer": "sgd"}
    usual = mm.max_batch_size(net(), lambda n: pair(n, "cpu"), loss_of, **where)

    assert mm.max_batch_size(module, BATCHES[batch], **where) == pytest.approx(usual, rel=0.05)


def test_autocast_for_cuda_counts_in_a_prediction():
    def with_autocast(model, batch):
        with torch.autocast("cuda", torch.bfloat16):
            return loss_of(model, batch)

    def found(loss, **more):
        return mm.max_batch_size(net(), lambda n: pair(n, "cpu"), loss, gpu="l4", memory_gib=0.2, **more)

    assert found(with_autocast) == found(loss_of, precision="bf16")


def compiled_forward():
    module = net()
    module.forward = torch.compile(module.forward)
    return module, loss_of


def compiled_loss():
    compiled = torch.compile(cross_entropy)
    return net(), lambda model, batch: compiled(model(batch[0]), batch[1])


@pytest.mark.parametrize("made", [compiled_forward, compiled_loss])
def test_compiled_functions_are_refused_and_never_run_uncompiled(made):
    module, loss = made()
    with pytest.raises(mm.CannotPredictError, match=r"as they were before torch\.compile"):
        mm.max_batch_size(module, lambda n: pair(n, "cpu"), loss, gpu="l4")
    with pytest.raises(mm.UsageError, match="cannot be measured on the CPU"):
        mm.max_batch_size(module, lambda n: pair(n, "cpu"), loss, **TINY)


@torch.no_grad()
def report_and_save(model, batch, optimizer):
    """Collects right answers on the host and saves a checkpoint."""
    answers = model(batch[0]).argmax(-1).cpu()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, SAVED)
    assert answers.numpy().shape == (len(batch[1]),)
    assert len(answers.tolist()) == len(batch[1])


SAVED = io.BytesIO()


@pytest.mark.parametrize("where", [TINY, {"gpu": "l4", "memory_gib": 0.1}], ids=["measured", "predicted"])
def test_an_evaluation_may_collect_numbers_on_the_host_and_a_checkpoint_may_be_saved(where):
    model = net()
    optimizer = adam(model)

    found = mm.max_batch_size(
        model, lambda n: pair(n, "cpu"), loss_of, optimizer, between={"report": report_and_save}, **where
    )

    assert 0 < found.peaks["report"] < found.peaks["step"]


@pytest.mark.parametrize("where", [TINY, {"gpu": "l4", "memory_gib": 0.1}], ids=["measured", "predicted"])
def test_averages_of_the_weights_that_a_step_mentions_are_left_as_they_were(where):
    model = net()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn())
    shadow = {name: value.clone() for name, value in model.state_dict().items()}
    before = [value.clone() for value in (*average.state_dict().values(), *shadow.values())]

    def step(model, batch, optimizer):
        loss_of(model, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        average.update_parameters(model)
        with torch.no_grad():
            for name, value in model.state_dict().items():
                shadow[name].mul_(0.9).add_(value, alpha=0.1)

    found = mm.max_batch_size(model, lambda n: pair(n, "cpu"), optimizer=adam(model), step=step, **where)

    assert found > 100
    assert all(map(torch.equal, before, [*average.state_dict().values(), *shadow.values()]))


def test_a_step_may_stop_at_numbers_that_are_not_finite():
    def step(model, batch, optimizer):
        loss = loss_of(model, batch)
        if torch.isnan(loss) or not torch.isfinite(loss):
            raise ValueError("the loss is not finite")
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    model = net()

    assert mm.max_batch_size(model, lambda n: pair(n, "cpu"), optimizer=adam(model), step=step, gpu="l4", max_batch=64)


class WithQueue(nn.Module):
    """Contrasts each sample with those of earlier batches, as MoCo does; a buffer says where the next ones go."""

    def __init__(self):
        super().__init__()
        self.encoder = net(WIDTH)
        self.register_buffer("queue", torch.rand(WIDTH, 1024))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        keys = self.encoder(x)
        logits = keys @ self.queue.clone()
        place, size = int(self.place), len(x)
        self.queue[:, place : place + size] = keys.detach().T
        self.place[0] = (place + size) % self.queue.shape[1]
        return logits.logsumexp(-1).mean()


def test_a_module_may_read_a_pointer_that_it_keeps_in_a_buffer():
    module = WithQueue()

    found = mm.max_batch_size(
        module, lambda n: torch.rand(n, WIDTH), lambda one, batch: one(batch), gpu="l4", max_batch=64
    )

    assert found == 64
    assert module.place.item() == 0


def test_a_module_of_torch_jit_is_refused():
    with pytest.raises(UsageError, match=r"went through torch\.jit"):
        mm.max_batch_size(torch.jit.script(net()), lambda n: torch.rand(n, WIDTH), gpu="l4")


class OneByOne(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return sum(self.layer(one).mean() for one in x)


def test_a_loop_over_more_samples_than_anybody_waits_for_ends_the_search(monkeypatch):
    monkeypatch.setattr(predicted, "MOST_OPERATIONS", 2**12)

    found = mm.max_batch_size(OneByOne(), lambda n: torch.rand(n, 4), lambda one, batch: one(batch), gpu="l4")

    assert found > 100
    assert {trial.failure.kind for trial in found.trials if trial.failure} == {"limit"}
