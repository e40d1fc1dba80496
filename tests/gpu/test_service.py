"""The service on a real GPU: what is measured over HTTP, and that nothing keeps the GPU's memory."""

import os
import signal

import pytest

from memorymark.devices import nvml
from memorymark.errors import WorkerError
from memorymark.question.question import Question
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.units import GIB, MIB
from support.processes import wait_until

pytestmark = pytest.mark.gpu


for package in ("flask_openapi3", "uvicorn", "prometheus_client"):
    pytest.importorskip(package)


def question(model="bert", cap_gib=4.0, **recipe):
    target = Target(memory_cap_bytes=int(cap_gib * GIB) if cap_gib else None)
    return Question(request=Request(model=model, recipe=Recipe(**recipe), target=target))


def in_the_middle_of_its_trials(client, asked):
    job = client.submit(asked, fresh=True)
    for event in client.events(job.id):
        if event["event"] == "trial":
            return job
    raise AssertionError("it ended without a trial")


def worker_of(client, job):
    return next(worker["pid"] for worker in client.health()["workers"] if worker["job"] == job.id)


def test_health_names_the_gpu_that_is_here(client):
    health, here = client.health(), nvml.gpus()[0]

    assert (health["device"], health["gpu_available"], health["gpu_name"]) == ("cuda", True, here.name)
    assert health["gpu_memory_total_gb"] == pytest.approx(here.total_bytes / GIB)


def test_an_idle_service_holds_no_memory_of_the_gpu(client):
    before = nvml.used_bytes(0)
    client.answer(question(cap_gib=2.5))

    wait_until(lambda: nvml.used_bytes(0) <= before + 64 * MIB)


@pytest.mark.parametrize("model", ["bert", "gpt2", "resnet"])
def test_what_no_gpu_is_named_for_is_measured_on_the_one_here(client, model):
    result = client.answer(question(model))

    assert (result.source, result.info.device_kind, result.info.device_name) == (
        "measured",
        "cuda",
        nvml.gpus()[0].name,
    )
    assert result.max_is_exact
    assert result.at(result.max_batch_size).fits
    assert not result.at(result.max_batch_size + 1).fits


def test_cancelling_gives_the_gpu_its_memory_back(client):
    before = nvml.used_bytes(0)
    job = in_the_middle_of_its_trials(client, question(cap_gib=None))

    assert client.cancel(job.id).state == "cancelled"
    wait_until(lambda: nvml.used_bytes(0) <= before + 64 * MIB)


def test_a_killed_worker_gives_the_gpu_its_memory_back_and_the_next_job_is_fine(client):
    before = nvml.used_bytes(0)
    job = in_the_middle_of_its_trials(client, question(cap_gib=None))
    os.kill(worker_of(client, job), signal.SIGKILL)
    wait_until(lambda: client.job(job.id).is_finished)

    with pytest.raises(WorkerError, match="killed"):
        client.job(job.id).result()
    wait_until(lambda: nvml.used_bytes(0) <= before + 64 * MIB)
    assert client.answer(question(cap_gib=2.6)).source == "measured"


def test_predictions_do_not_wait_for_the_gpu(client):
    busy = in_the_middle_of_its_trials(client, question(cap_gib=None))
    predicted = Question(request=Request(model="bert", small=True, seq_len=16, target=Target(gpu="a10")))

    assert client.answer(predicted, fresh=True).source == "predicted"
    assert client.cancel(busy.id).state == "cancelled"
