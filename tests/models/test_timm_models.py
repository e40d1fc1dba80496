"""Models of timm, built, traced, predicted and trained by timm itself, in a worker of their own."""

import os
import sys
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

import memorymark as mm
from memorymark.errors import UsageError
from memorymark.models.workloads import workload_of
from memorymark.question.timm_names import timm_names
from memorymark.worker import remote
from memorymark.worker.remote import RemoteProbe
from memorymark.worker.supervisor import KeptWorkers
from support.forked_workers import fresh_workers

STAND_IN = Path(__file__).parents[1] / "support" / "torchvision_stand_in"
A10, CPU = mm.Target(gpu="a10"), mm.Target(device="cpu")

pytestmark = pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed; `make` installs it")


@pytest.fixture(scope="module", autouse=True)
def workers_are_shared():
    """One worker that can import timm; no other process may see the stand-in, transformers least of all."""
    is_installed = any(distributions(name="torchvision"))
    needed = [] if is_installed else [str(STAND_IN)]
    kept = KeptWorkers()
    with fresh_workers(), pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", os.pathsep.join([*needed, *filter(None, [os.environ.get("PYTHONPATH")])]))
        patched.setattr(remote, "FreshWorkers", lambda: kept)
        yield
        kept.close()


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("resnet18.a1_in1k", 11_689_512), ("test_mambaout", 447_560)],
)
def test_a_model_is_predicted_as_timm_builds_it(name, parameters):
    with RemoteProbe(mm.Request(model=f"timm:{name}", image_size=64, target=A10)) as probe:
        trial = probe.measure(8)

    assert (probe.info.parameters, probe.info.sample, probe.info.source) == (parameters, "64 pixels", "predicted")
    assert trial.fits
    assert trial.samples_per_second > 0
    # Weights, gradients and the two states of AdamW, in fp32.
    assert trial.peak_allocated_bytes > 16 * parameters


def test_a_prediction_grows_with_the_images_and_the_batch():
    def peak(batch_size, image_size):
        return mm.predict("timm:test_resnet", batch_size, image_size=image_size, gpu="a10").peak_allocated_bytes

    small, wide, many = peak(8, 64), peak(8, 128), peak(32, 64)

    assert small < wide
    assert small < many


def test_a_model_is_trained_on_images_of_the_size_that_was_asked_for():
    with RemoteProbe(mm.Request(model="timm:test_resnet", image_size=32, target=CPU)) as probe:
        trial = probe.measure(2)

    assert (probe.info.parameters, probe.info.sample, probe.info.source) == (469_688, "32 pixels", "measured")
    assert trial.fits


def test_a_model_made_for_one_size_is_built_for_another():
    """Without a size it is the model's own. A ViT has a position for each patch of 16 x 16 pixels, each 64 wide."""
    seen = {}
    for size in (None, 64):
        with RemoteProbe(mm.Request(model="timm:test_vit", image_size=size, target=A10)) as probe:
            assert probe.try_batch(4).fits
            seen[probe.info.sample] = probe.info.parameters

    assert seen.keys() == {"160 pixels", "64 pixels"}
    assert seen["160 pixels"] - seen["64 pixels"] == (10 * 10 - 4 * 4) * 64


def test_the_names_read_from_the_source_of_timm_need_no_prefix():
    assert {"resnet18", "vit_tiny_patch16_224", "convnext_tiny"} <= timm_names()
    assert mm.predict("test_byobnet", 2, image_size=64, gpu="a10").fits


@pytest.mark.parametrize(
    ("request_of", "said"),
    [
        ({"model": "timm:no_such_net"}, r"timm 1\.\S+ has no model 'no_such_net'; timm.list_models\(\) lists them all"),
        ({"model": "timm:vit_tiny"}, r"has no model 'vit_tiny'; did you mean \w*vit_tiny"),
        ({"model": "timm:resnet18", "task": "causal-lm"}, "are trained for image-classification here"),
        ({"model": "timm:resnet18", "seq_len": 16}, "resnet18"),
    ],
    ids=lambda given: given["model"] if isinstance(given, dict) else "",
)
def test_what_timm_does_not_have_is_refused(request_of, said):
    with pytest.raises(UsageError, match=said), RemoteProbe(mm.Request(**request_of, target=A10)):
        pass


def test_a_timm_that_cannot_be_imported_is_told_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)

    with pytest.raises(
        UsageError, match=r"needs timm, which cannot be imported here; `pip install 'memorymark\[timm\]"
    ):
        workload_of(mm.Request(model="timm:resnet18"))
