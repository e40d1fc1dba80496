"""What the service tells of itself: health, catalogs, front page, documentation, metrics."""

import re
from datetime import datetime, timezone

from memorymark.catalog import all_gpus, all_models
from memorymark.devices.machine import gpus_here
from memorymark.version import __version__
from support.calls import QUICK


def test_the_front_page_tells_programs_what_there_is(call):
    page = call.get("/").json

    assert (page["name"], page["version"]) == ("MemoryMark", __version__)
    assert {"POST /analyze", "POST /jobs", "GET /jobs/{job_id}/events", "GET /health"} <= set(page["endpoints"])
    assert call.get(page["openapi"]).json["info"]["title"] == "MemoryMark"
    assert call.get("/", Accept="application/json").json == page


def test_the_front_page_shows_a_browser_something_to_look_at(call):
    answer = call.get("/", Accept="text/html,application/xhtml+xml,*/*;q=0.8")

    if answer.status == 302:
        answer = call.get(answer.headers["Location"], Accept="text/html")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/html")


def test_the_documentation_works_without_the_internet(call):
    page = call.get("/openapi/swagger").body.decode()

    loaded = re.findall(r"""(?:src|href)=["']([^"']+)["']""", page)
    assert any(name.endswith(".js") for name in loaded)
    assert any(name.endswith(".css") for name in loaded)
    for name in loaded:
        assert not re.match(r"(https?:)?//", name)
        assert call.get(f"/openapi/{name}" if not name.startswith("/") else name).status == 200
    assert "http" not in "".join(re.findall(r"url:\s*[\"']([^\"']+)", page))


def test_the_metrics_count_calls_and_jobs(call, answered):
    name = "memorymark_request_seconds_count"
    before = [
        call.metric(name, endpoint="health", status="200"),
        call.metric(name, endpoint="show", status="404"),
        call.metric("memorymark_jobs_total", state="done"),
    ]

    for _ in range(3):
        call.get("/health")
    call.get("/jobs/000000000000")
    assert call.post("/analyze", {**QUICK, "fresh": True}).status == 200

    assert call.metric(name, endpoint="health", status="200") == before[0] + 3
    assert call.metric(name, endpoint="show", status="404") == before[1] + 1
    assert call.metric("memorymark_jobs_total", state="done") == before[2] + 1
    assert call.metric("memorymark_jobs_waiting") == call.metric("memorymark_jobs_running") == 0


def test_health_says_how_the_service_is(call):
    answer = call.get("/health")

    health = answer.json
    age = datetime.now(timezone.utc) - datetime.fromisoformat(health["timestamp"])
    assert (answer.status, health["status"], health["problem"]) == (200, "healthy", None)
    assert health["version"] == __version__
    assert health["gpu_available"] == (health["device"] != "cpu")
    assert (health["gpu_name"] is None) == (health["gpu_memory_total_gb"] is None) == (health["device"] != "cuda")
    assert 0 <= age.total_seconds() < 60
    assert health["queue"] == {"waiting": 0, "running": 0, "limit": 1000}
    assert {"prediction-0", "cpu"} <= {worker["name"] for worker in health["workers"]}


def test_the_catalogs_are_listed(call):
    listed, gpus = call.get("/models").json, call.get("/gpus").json["gpus"]
    models, tasks = listed["models"], {task["id"]: task for task in listed["tasks"]}

    assert models == [entry.to_dict() for entry in all_models()]
    assert all(tasks[model["task"]]["sample_unit"] == model["sample_unit"] for model in models)
    assert tasks["ctc"] == {"id": "ctc", "title": "speech to text, CTC", "sample_unit": "seconds", "sample_size": 5}
    assert [gpu["id"] for gpu in gpus] == [entry.id for entry in all_gpus()]
    assert {gpu["id"] for gpu in gpus if gpu["here"]} == gpus_here()
    assert [gpu["id"] for gpu in gpus if gpu["default"]] == ["a10"]
