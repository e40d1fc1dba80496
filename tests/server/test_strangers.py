"""What a stranger can do to a service that does not allow code: asked over HTTP, against real workers."""

import os
import sys
from pathlib import Path

import pytest

from memorymark.errors import WorkerError
from memorymark.worker import landlock
from memorymark.worker.supervisor import WorkerProcess
from support.calls import QUICK, Caller, is_error
from support.forked_workers import fresh_workers
from support.service import quick_service

SECRET = "what only the operator may read"


@pytest.fixture(scope="module")
def secret(tmp_path_factory):
    file = tmp_path_factory.mktemp("operator") / "secret"
    file.write_text(SECRET)
    return file


@pytest.mark.parametrize(
    "revision",
    [
        "/proc/self/cmdline",
        "/etc/passwd",
        "../../../../etc/passwd",
        "refs/../../../etc/passwd",
        "main/../../..",
        "-main",
        "a//b",
        "main/",
        "a b",
        "main\n",
        "main.lock",
        ".hidden",
        "%2e%2e/x",
        "a" * 200 + "/b",
    ],
)
@pytest.mark.parametrize("path", ["/analyze", "/jobs"])
def test_a_revision_that_is_none_is_refused_at_once(call, path, revision):
    answer = call.post(path, {"model_name": "a/b", "revision": revision, "gpu": "a10"})

    assert is_error(answer, 400)
    assert "revision" in answer.json["error"]


def test_a_file_is_never_read_for_a_revision(call, secret):
    answer = call.post("/analyze", {"model_name": "a/b", "revision": str(secret), "gpu": "a10"})

    assert is_error(answer, 400)
    assert SECRET not in answer.body.decode()
    assert str(secret.parent) not in answer.body.decode()


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "timm_wrapper", "architecture": "local-dir:{folder}"},
        {"model_type": "timm_wrapper", "architecture": "hf-hub:timm/resnet18"},
        {"model_type": "timm_wrapper", "architecture": "resnet18", "model_args": {"checkpoint_path": "{file}"}},
        {"model_type": "timm_wrapper", "architecture": "resnet18", "model_args": {"pretrained": True}},
        {"model_type": "detr", "backbone": "{folder}", "use_timm_backbone": True},
        {"model_type": "bert", "hidden_act": "{file}"},
        {"model_type": "llava", "vision_config": {"model_type": "timm_wrapper", "architecture": "{file}"}},
        {"model_type": "encoder-decoder", "encoder": {"model_type": "bert", "hidden_act": "{file}"}, "decoder": {}},
    ],
    ids=lambda config: config["model_type"] + " " + list(config)[-1],
)
def test_no_field_of_a_config_makes_a_library_open_anything(call, secret, config):
    def filled(value):
        if isinstance(value, dict):
            return {key: filled(part) for key, part in value.items()}
        return value.format(file=secret, folder=secret.parent) if isinstance(value, str) else value

    answer = call.post("/analyze", {"config": filled(config), "gpu": "a10"})

    assert is_error(answer, 400)
    assert SECRET not in answer.body.decode()
    assert "Error:" not in answer.body.decode()


@pytest.mark.parametrize(
    "body",
    [
        {"config": {"model_type": "bert", "num_labels": 10**9}},
        {"config": {"model_type": "bert", "num_hidden_layers": 10**9}},
        {"config": {"model_type": "clip", "text_config": {"num_hidden_layers": 10**6}}},
        {"config": {"model_type": "swin", "depths": [2, 10**7]}},
        {"config": {"model_type": "bert", "hidden_size": 10**30}},
        {"config": {"model_type": "wav2vec2"}, "audio_seconds": 20_000_000},
        {"model_name": "some/model", "image_size": 10**6},
        {"model_name": "some/model", "seq_len": 10**9},
    ],
)
def test_numbers_beyond_any_model_are_refused_before_they_cost_anything(call, body):
    answer = call.post("/jobs", {**body, "gpu": "a10"})

    assert is_error(answer, 400)
    assert " at most " in answer.json["error"] or " must be 1 to " in answer.json["error"]


def test_what_a_library_says_of_a_config_stays_in_the_log(call, caplog):
    answer = call.post("/analyze", {"config": {"model_type": "bert", "hidden_size": "wide"}, "gpu": "a10"})

    assert is_error(answer, 400)
    assert answer.json["error"] == (
        "the config of bert config does not describe a model; compare it with a config.json that works."
    )
    logged = [record for record in caplog.records if record.getMessage().startswith("job failed: ")]
    assert "hidden_size" in logged[-1].getMessage()
    assert logged[-1].job in [job["id"] for job in call.get("/jobs").json["jobs"]]


def test_what_a_crash_says_stays_in_the_log(call, caplog, monkeypatch):
    def crash(self, name, arguments, time_limit_seconds):
        raise WorkerError("the training step crashed.", detail="OSError: /home/operator/secret (nets.py, line 12)")

    monkeypatch.setattr(WorkerProcess, "call", crash)
    answer = call.post("/analyze", {**QUICK, "fresh": True})

    assert is_error(answer, 500)
    assert answer.json["error"] == "the training step crashed; the service's log says why."
    assert "job failed: OSError: /home/operator/secret" in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_a_worker_of_the_service_is_sealed(tmp_path):
    with fresh_workers(), quick_service(tmp_path / "history.db") as started:
        assert_sealed(Path(f"/proc/{Caller(started.port).warm_pid('prediction-0')}"))


def assert_sealed(process):
    """What the kernel says about a process that waits."""
    environment = dict(one.split("=", 1) for one in (process / "environ").read_text().split("\0") if "=" in one)

    assert not {"MEMORYMARK_DATABASE", "MEMORYMARK_TOKEN", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} & environment.keys()
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["HOME"] != os.environ.get("HOME")
    assert Path(environment["HOME"]).is_dir()
    status = (process / "status").read_text()
    assert "NoNewPrivs:\t1" in status
    if landlock.version():
        assert (process / "ns/net").readlink() != Path("/proc/self/ns/net").readlink()
        assert "CapEff:\t0000000000000000" in status


def test_the_config_of_a_hugging_face_id_comes_from_outside_the_worker(call):
    """There is no network here or no such model; either way the sealed worker was not what looked for it."""
    answer = call.post("/analyze", {"model_name": "no-such-org-here/no-such-model", "gpu": "a10"})

    assert is_error(answer, 400)
    assert "Hugging Face" in answer.json["error"]
