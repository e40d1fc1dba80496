import random
from collections import UserDict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import memorymark as mm
from memorymark.keyword_types import ModuleOptions
from memorymark.own_module import largest_within
from memorymark.training.guard import unharmed
from memorymark.units import GIB
from support.own_modules import SMALL, Lived, differences, whole
from support.tiny import CLASSES, HIDDEN, WIDTH, TinyNet, tiny_batch

CPU = torch.device("cpu")
HERE = Path(__file__).name


def inputs(size):
    return {"input": torch.rand(size, 4)}


def trained(module, optimizer, steps=3):
    """A module and an optimizer in the middle of a training."""
    for _ in range(steps):
        module(**tiny_batch(4, CPU)).loss.backward()
        optimizer.step()
    return module


def noisy_batch(size):
    """Uses every source of randomness that a loader might."""
    random.random()
    np.random.rand()
    return tiny_batch(size, CPU)


@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.SGD, torch.optim.Adafactor], ids=lambda o: o.__name__)
@pytest.mark.parametrize("steps", [0, 3], ids=["before the training", "in the middle of it"])
@pytest.mark.parametrize("where", [SMALL, {"gpu": "a10", "memory_gib": 0.05}], ids=["measured", "predicted"])
def test_nothing_of_the_callers_is_changed(make, steps, where):
    module = Lived()
    optimizer = make(module.parameters(), lr=0.01)
    trained(module, optimizer, steps)
    module.norm.eval()
    before, parameters = whole(module, optimizer), list(module.parameters())

    found = mm.max_batch_size(module, noisy_batch, optimizer=optimizer, **where)

    assert found > found.safe > 0 or found == found.safe
    assert differences(whole(module, optimizer), before) == []
    assert all(now is then for now, then in zip(module.parameters(), parameters, strict=True))


@pytest.mark.parametrize("where", [SMALL, {"gpu": "a10"}], ids=["measured", "predicted"])
def test_nothing_is_changed_either_if_it_fails(where):
    module = Lived()
    optimizer = torch.optim.Adam(module.parameters())
    trained(module, optimizer)
    before = whole(module, optimizer)

    def crash(model, batch):
        model(**batch).loss.backward()
        raise ZeroDivisionError

    with pytest.raises(mm.UsageError, match=rf"loss= raised ZeroDivisionError \({HERE}, line \d+\)") as caught:
        mm.max_batch_size(module, noisy_batch, crash, optimizer, **where)

    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert differences(whole(module, optimizer), before) == []


def test_training_goes_on_as_if_nothing_had_been():
    def losses(ask):
        torch.manual_seed(0)
        module = TinyNet()
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
        seen = []
        for step in range(4):
            if ask and step == 2:
                mm.max_batch_size(module, tiny_batch, optimizer=optimizer, **SMALL)
            optimizer.zero_grad()
            loss = module(**tiny_batch(8, CPU)).loss
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
        return seen

    assert losses(ask=True) == losses(ask=False)


def test_the_largest_batch_is_a_number_that_ran_and_the_next_one_failed():
    found = mm.max_batch_size(TinyNet(), tiny_batch, **SMALL)

    fits = {trial.batch_size: trial.fits for trial in found.trials}
    assert isinstance(found, int)
    assert (fits[found], fits[found + 1], fits[found.safe]) == (True, False, True)
    safe = next(trial for trial in found.trials if trial.batch_size == found.safe)
    assert safe.peak_reserved_bytes <= 0.95 * GIB / 1024
    assert found.source == "measured"
    assert repr(found) == f"BatchSize({int(found)}, safe={found.safe}, measured)"
    assert f"{found}" == str(int(found))


def test_a_wider_margin_leaves_more_free():
    narrow, wide = (mm.max_batch_size(TinyNet(), tiny_batch, **SMALL, margin=margin) for margin in (0.02, 0.4))

    assert narrow == wide
    assert narrow.safe > wide.safe > 0.4 * wide


def test_a_predicted_one_keeps_to_what_is_sure_to_fit():
    found = mm.max_batch_size(TinyNet(), tiny_batch, gpu="a10", margin=0)

    assert found.source == "predicted"
    assert found.safe < found


def test_the_search_goes_no_further_than_the_caller_wants():
    assert mm.max_batch_size(TinyNet(), tiny_batch, **SMALL, max_batch=5) == 5


def test_batches_may_be_anything_that_the_loss_takes():
    module = nn.Sequential(nn.Linear(WIDTH, CLASSES))

    found = mm.max_batch_size(
        module,
        lambda size: (torch.rand(size, WIDTH), torch.zeros(size, dtype=torch.long)),
        lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]),
        "sgd",
        **SMALL,
    )

    assert found > 1000


class Encoding(UserDict):
    """What a tokenizer gives: a mapping that is no dict and moves by itself."""

    def to(self, device):
        return Encoding({name: value.to(device) for name, value in self.items()})


@pytest.mark.parametrize("where", [SMALL, {"gpu": "a10", "max_batch": 64}], ids=["run", "predicted"])
def test_batches_may_be_what_a_tokenizer_gives(where):
    plain = mm.max_batch_size(TinyNet(), tiny_batch, **where)

    assert mm.max_batch_size(TinyNet(), lambda size: Encoding(tiny_batch(size, CPU)), **where) == plain
    with pytest.raises(mm.UsageError, match="as much for 2 samples as for 1"):
        mm.max_batch_size(TinyNet(), lambda size: Encoding(tiny_batch(4, CPU)), **where)


class Normed(nn.Module):
    """Batch norm over single values, which refuses one sample."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.Linear(HIDDEN, CLASSES))

    def forward(self, x):
        return self.layers(x).square().mean()


def normed(**options):
    batch = {"batch": lambda size: {"x": torch.rand(size, WIDTH)}, "loss": lambda model, batch: model(**batch)}
    return mm.max_batch_size(Normed(), **batch, optimizer="sgd", device="cpu", **options)


@pytest.mark.parametrize("where", [SMALL, {"gpu": "a10"}], ids=["measured", "predicted"])
def test_a_builtin_may_make_the_batches(where):
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = nn.Parameter(torch.ones(()))

        def forward(self, x):
            return self.factor * x

    found = mm.max_batch_size(
        Scale(), torch.rand, lambda model, batch: model(batch).mean(), "sgd", max_batch=64, **where
    )

    assert found == 64


def test_a_batch_too_small_for_batch_norm_is_no_crash():
    with pytest.raises(mm.DoesNotFitError, match="even at batch 2: out of memory") as caught:
        normed(memory_gib=12 / 2**20)

    assert [(t.batch_size, t.failure.kind) for t in caught.value.trials] == [(2, "memory"), (1, "limit")]


@pytest.fixture
def newer_tf32():
    """TF32 by torch's newer setting, after which the older one cannot even be read."""
    matmul = torch.backends.cuda.matmul
    if not hasattr(matmul, "fp32_precision"):
        pytest.skip("this torch has one setting only")
    before, matmul.fp32_precision = matmul.fp32_precision, "tf32"
    yield
    matmul.fp32_precision = before


@pytest.mark.usefixtures("newer_tf32")
def test_the_newer_setting_of_tf32_is_left_alone():
    assert mm.max_batch_size(TinyNet(), tiny_batch, **SMALL) > 0
    assert mm.max_batch_size(TinyNet(), tiny_batch, tf32=True, **SMALL) > 0
    assert torch.backends.cuda.matmul.fp32_precision == "tf32"


def test_the_optimizer_may_be_made_by_a_function():
    lean, heavy = (
        mm.max_batch_size(TinyNet(), tiny_batch, optimizer=lambda m, make=make: make(m.parameters(), lr=0.1), **SMALL)
        for make in (torch.optim.SGD, torch.optim.Adam)
    )

    assert lean >= heavy > 0


def test_it_is_the_same_under_no_grad():
    with torch.no_grad():
        found = mm.max_batch_size(TinyNet(), tiny_batch, **SMALL)
        assert not torch.is_grad_enabled()

    assert found == mm.max_batch_size(TinyNet(), tiny_batch, **SMALL)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: mm.max_batch_size("bert", tiny_batch), "takes a torch module, .* not 'bert'; for names, see analyze"),
        (lambda: mm.max_batch_size(nn.ReLU(), tiny_batch), "ReLU has no trainable parameters"),
        (lambda: mm.max_batch_size(TinyNet().requires_grad_(False), tiny_batch), "no trainable parameters"),
        (
            lambda: mm.max_batch_size(TinyNet(), 16),
            r"batch= must be a function that .*, called as batch\(size\), not 16",
        ),
        (lambda: mm.max_batch_size(TinyNet(), lambda n: tiny_batch(4, CPU), **SMALL), "as much for 2 samples as for 1"),
        (
            lambda: mm.max_batch_size(TinyNet(), tiny_batch, seq_len=4),
            "'seq_len' is not an option here: see docs/python.md for those of max_batch_size",
        ),
        (lambda: mm.max_batch_size(nn.Linear(4, 4), inputs, **SMALL), "a Tensor without .loss; pass loss="),
        (lambda: mm.max_batch_size(nn.Linear(4, 4), inputs, gpu="a10"), "a Tensor without .loss; pass loss="),
        (
            lambda: mm.max_batch_size(nn.Linear(4, 4), lambda n: torch.rand(n, 4), **SMALL),
            "a Tensor without .loss; pass loss=",
        ),
        (lambda: mm.max_batch_size(TinyNet(), tiny_batch, lora=4, **SMALL), "add them yourself and drop lora"),
        (
            lambda: mm.max_batch_size(TinyNet(), tiny_batch, attention="eager"),
            "call the module's set_attn_implementation first",
        ),
        (lambda: mm.max_batch_size(TinyNet(), tiny_batch, accumulate=2.5, **SMALL), "accumulate= must be a whole"),
        (lambda: mm.max_batch_size(TinyNet(), tiny_batch, margin=2), "^margin= must be from 0"),
        (lambda: mm.max_batch_size(TinyNet(), tiny_batch, max_batch=0), "^max_batch= must be 1 or more"),
        (lambda: mm.max_batch_size(TinyNet(), tiny_batch, optimizer="lamb"), "unknown optimizer 'lamb'"),
    ],
)
def test_misuse_is_refused_in_a_sentence(call, said):
    with pytest.raises(mm.UsageError, match=said):
        call()


@pytest.mark.parametrize("option", [*ModuleOptions.__annotations__, "max_batch", "margin", "on_event"])
def test_an_option_of_a_wrong_type_is_refused_by_its_name(option):
    with pytest.raises(mm.UsageError, match=rf"\b{option}=? .*<object object"):
        mm.max_batch_size(TinyNet(), tiny_batch, **{option: object()})


def collate(samples):
    return torch.stack([sample["x"] for sample in samples])


@pytest.mark.parametrize("where", [SMALL, {"gpu": "a10"}], ids=["run", "predicted"])
@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ("DataLoader", r"batch= must be a function that makes as many .*, not 'DataLoader'"),
        (lambda size: DataLoader([0, 1], batch_size=size), "returned a DataLoader; it must return one batch"),
        (lambda size: None, "returned nothing; it must return one batch"),
        (
            collate,
            rf"batch= raised TypeError: 'int' object is not iterable \({HERE}, line \d+\); "
            "it is called with a number .* unlike a data loader or a collate function",
        ),
        (lambda: tiny_batch(4, CPU), r"batch= is called as batch\(size\), but <lambda> does not accept that"),
    ],
    ids=["a word", "makes loaders", "nothing", "collate", "no size"],
)
def test_what_makes_no_batches_is_found_out_before_the_module_is_blamed(batch, said, where):
    with pytest.raises(mm.UsageError, match=said):
        mm.max_batch_size(TinyNet(), batch, lambda module, batch: module(batch[0]).logits.mean(), **where)


def test_a_batch_function_that_says_itself_what_is_wrong_is_left_to_say_it():
    def batch(size):
        raise mm.MemoryMarkError("the data is gone.")

    with pytest.raises(mm.MemoryMarkError, match=r"^the data is gone\.$"):
        mm.max_batch_size(TinyNet(), batch, **SMALL)


def test_a_module_that_does_not_fit_keeps_what_was_tried():
    with pytest.raises(mm.DoesNotFitError, match=r"TinyNet does not train within 10\.0 KiB even at batch 1") as caught:
        mm.max_batch_size(TinyNet(), tiny_batch, device="cpu", memory_gib=10 / 2**20)

    assert caught.value.trials[-1].batch_size == 1


def test_a_module_that_cannot_be_copied_can_be_measured_but_not_predicted():
    module = TinyNet()
    module.stream = (piece for piece in ())

    with pytest.raises(mm.CannotPredictError, match=r"TinyNet cannot be copied .* measure it"):
        mm.max_batch_size(module, tiny_batch, gpu="a10")
    assert mm.max_batch_size(module, tiny_batch, **SMALL) > 1


@pytest.mark.parametrize("moved", [{"dtype": torch.float64}, {"device": "meta"}], ids=["type", "device"])
def test_a_module_that_was_moved_is_back_in_the_same_memory(moved):
    module = Lived()
    module(**tiny_batch(4, CPU)).loss.backward()
    before = {name: (t.data_ptr(), t.device, t.dtype, t.clone()) for name, t in module.state_dict().items()}
    gradient = module.inner.weight.grad.clone()

    with unharmed(module):
        module.to(**moved)

    for name, tensor in module.state_dict().items():
        place, device, dtype, value = before[name]
        assert (tensor.data_ptr(), tensor.device, tensor.dtype) == (place, device, dtype)
        assert torch.equal(tensor, value)
    assert torch.equal(module.inner.weight.grad, gradient)


def test_hooks_that_a_step_adds_are_gone_afterwards():
    module = TinyNet()
    kept = module.register_forward_hook(lambda *_: None)

    with unharmed(module):
        module.inner.register_forward_hook(lambda *_: SimpleNamespace())

    assert len(module.inner._forward_hooks) == 0
    assert list(module._forward_hooks) == [kept.id]


def test_a_limit_of_the_callers_is_safe_where_there_is_room():
    found = mm.max_batch_size(TinyNet(), lambda n: tiny_batch(n, CPU), gpu="a10", max_batch=64)

    assert (found, found.safe) == (64, 64)


def test_an_optimizer_of_another_module_is_refused():
    other = torch.optim.AdamW(TinyNet().parameters())

    with pytest.raises(mm.UsageError, match="updates no parameter of the TinyNet"):
        mm.max_batch_size(TinyNet(), lambda n: tiny_batch(n, CPU), optimizer=other)


def test_the_device_may_be_torchs_own():
    assert mm.max_batch_size(TinyNet(), lambda n: tiny_batch(n, CPU), device=torch.device("cpu"), max_batch=4) == 4


@pytest.mark.parametrize("largest", [1, 40, 60, 96, 97, 100])
def test_nearly_the_largest_size_within_the_memory_is_found_though_the_guess_is_off(largest):
    def tried(size):
        return mm.Trial(batch_size=size, fits=True, peak_reserved_bytes=size)

    found = largest_within(tried, 100, largest)

    assert found <= largest
    assert found >= 0.9 * largest
