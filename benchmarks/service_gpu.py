"""The service on a GPU, through the real HTTP path: what an analysis takes, and how soon a cancelled one is gone.

python benchmarks/service_gpu.py [--out=FOLDER]

Starts the service as an operator does, asks it for each built-in model with the allocator capped, asks again, and then
cancels one that is in the middle of its trials.
"""

from __future__ import annotations

import sys
import tempfile
import time

from cases import CAP_GIB, FIVE_CASES, machine, request, save, table
from memorymark.client import Client
from memorymark.devices import nvml
from memorymark.question.question import Question
from memorymark.server.serve import running
from memorymark.server.settings import Settings
from memorymark.units import MIB


def main() -> None:
    baseline = nvml.used_bytes(0) or 0
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(port=0, database=f"sqlite:///{folder}/history.db", prediction_workers=1)
        start = time.perf_counter()
        with running(settings) as service:
            print(f"started in {time.perf_counter() - start:.1f} s", flush=True)
            client = Client(f"http://127.0.0.1:{service.port}")
            rows = [measured(client, model, recipe) for model, recipe in FIVE_CASES]
            freed = cancelled(client, baseline)
    header = ["model", "recipe", "maximum", "recommended", "speedup", "trials", "POST to answer s", "asked again ms"]
    text = f"{machine()}, allocator capped at {CAP_GIB} GiB\n\n{table(header, rows)}\n\n{freed}"
    save("service_gpu", text)


def measured(client: Client, model: str, recipe: str) -> list[object]:
    question = Question(request=request(model, recipe))
    start = time.perf_counter()
    result = client.answer(question)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    client.answer(question)
    again = 1e3 * (time.perf_counter() - start)
    facts = result.to_dict()
    row: list[object] = [model, recipe, facts["max_batch_size"], facts["recommended_batch_size"]]
    row += [f"{facts['speedup']:.2f}x", len(facts["trials"]), f"{seconds:.1f}", f"{again:.0f}"]
    print(row, flush=True)
    return row


def cancelled(client: Client, baseline: int) -> str:
    """Cancels a job as soon as it has run a trial, and waits until the GPU has its memory back."""
    job = client.submit(Question(request=request("bert", "fp32", None)))
    for event in client.events(job.id):
        if event["event"] == "trial":
            break
    held = (nvml.used_bytes(0) or 0) - baseline
    start = time.perf_counter()
    state = client.cancel(job.id).state
    while (nvml.used_bytes(0) or 0) - baseline > 64 * MIB and time.perf_counter() - start < 60:
        time.sleep(0.02)
    left = (nvml.used_bytes(0) or 0) - baseline
    return (
        f"{state}: {held / MIB:,.0f} MiB were in use, {left / MIB:,.0f} MiB after {time.perf_counter() - start:.2f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
