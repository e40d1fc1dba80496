"""Text that is no text, deep nesting, wrong types and huge numbers, in every field and every address."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from drilling.calls import GONE, Caller
from drilling.judge import Outcome, Promise
from drilling.questions import TINY, new_name, tiny
from drilling.server import Server, running

TEXTS = [
    "\ud800",
    "a\udfffb",
    "\ud83d",
    "\x00",
    "\x1b[31mred",
    "\u202e",
    "\ufffe",
    "\r\nSet-Cookie: a=b",
    "../../x",
    "",
]
WRONG: list[Any] = [None, True, -1, 0, 1.5, 10**30, 1e308, "16", [], [1], {}, {"a": {}}]
DEPTHS = (50, 100, 200, 400, 500, 700, 950, 1000, 1500, 2000)
FIELDS = """model_name task revision gpu device precision optimizer lora attention loss accumulate seq_len image_size
    audio_seconds small batch_size max_batch memory_gib margin price_per_hour hours_per_run runs_per_year people fresh
    time_limit fused gradient_checkpointing compile channels_last tf32 eval_mode""".split()
CONFIG_FIELDS = ["layer_type", "hidden_act", "model_type", "architectures", "torch_dtype", "name_or_path", "\ud800"]
CONFIG_NUMBERS = ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "hidden_dropout_prob"]
RAW_BODIES = [
    b'{"model_name": "\xff\xfe"}',
    b'\xef\xbb\xbf{"model_name": "bert"}',
    b'{"model_name": "bert", "margin": NaN}',
    b'{"model_name": "bert", "margin": Infinity}',
    b'{"model_name": "bert", "batch_size": 1e400}',
    b'{"model_name": "bert", "batch_size": ' + b"9" * 5000 + b"}",
    b'{"model_name": "bert", "model_name": 1}',
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"null",
    b"",
    b"\x00",
]
# What became a job is given this long; what has not begun by then is cancelled.
JOBS_SECONDS, JOB_SECONDS = 120.0, 20.0


def questions() -> Iterator[Any]:
    """Bodies of which a service takes few and survives all."""
    for text in TEXTS:
        for name in FIELDS:
            yield tiny(new_name(), **{name: text})
        for name in CONFIG_FIELDS:
            yield {**tiny(new_name()), "config": {**TINY, name: text}}
        yield {"config": {"model_type": "resnet", "layer_type": text, "hidden_act": text}, "gpu": "a10"}
        yield {**tiny(new_name()), "config": {**TINY, "id2label": {"0": text, text: "x"}, "deep": [{"er": text}]}}
        yield {text: 1, **tiny(new_name())}
    for wrong in WRONG:
        for name in [*FIELDS, "config"]:
            yield tiny(new_name(), **{name: wrong})
        for name in CONFIG_NUMBERS:
            yield {**tiny(new_name()), "config": {**TINY, name: wrong}}
    for depth in DEPTHS:
        for opening, closing in (("[", "]"), ('{"a":', "}")):
            nested = opening * depth + ("1" if closing == "}" else "") + closing * depth
            body = json.dumps(tiny(new_name()))
            yield body.replace('"model_type"', f'"x": {nested}, "model_type"', 1).encode()
            yield f'{{"x": {nested}, {body[1:]}'.encode()
    yield from RAW_BODIES


def addresses() -> Iterator[tuple[str, str, dict[str, str]]]:
    """Calls whose address or headers hold nonsense."""
    for text in [*TEXTS, "%", "%ff", "a" * 5000, "9" * 5000]:
        sent = quote(text.encode("utf-8", "surrogatepass"), safe="")
        for path in (
            f"/jobs/{sent}",
            f"/jobs/{sent}/events",
            f"/jobs?model={sent}",
            f"/jobs?before={sent}",
            f"/{sent}",
        ):
            yield "GET", path, {}
        yield "GET", f"/jobs?limit={sent}", {}
        yield "GET", "/jobs", {"Accept": sent, "Last-Event-ID": sent, "Origin": sent}


def nonsense() -> Outcome:
    """The drill."""
    statuses, unanswered, accepted = [], [], []
    with running() as server:
        call = server.call
        for number, body in enumerate(questions()):
            try:
                sent = {**body, "time_limit": JOB_SECONDS} if is_ours(body) else body
                answer = call("POST", "/jobs", sent)
            except GONE:
                unanswered.append(number)
                continue
            statuses.append(answer.status)
            if answer.status == 202:
                accepted.append(answer.document["job"]["id"])
        for method, path, headers in addresses():
            try:
                statuses.append(call(method, path, headers=headers).status)
            except GONE:
                unanswered.append(len(statuses))
        ended = settled(call, accepted)
        return judged(server, ended, len(statuses), unanswered)


def settled(call: Caller, job_ids: list[str]) -> dict[str, dict[str, Any]]:
    """The jobs once they have ended; those that still wait after a while are cancelled."""
    deadline = time.monotonic() + JOBS_SECONDS
    for job_id in job_ids:
        if call.finished(job_id, max(0.0, deadline - time.monotonic()))["state"] == "queued":
            call("DELETE", f"/jobs/{job_id}")
    return {job_id: call.finished(job_id, JOB_SECONDS) for job_id in job_ids}


def is_ours(body: object) -> bool:
    """Whether a body is an object that may be given a time limit, which it is not about."""
    return isinstance(body, dict) and "time_limit" not in body


def judged(server: Server, ended: dict[str, dict[str, Any]], count: int, unanswered: list[int]) -> Outcome:
    """What became of it, and whether the next job is as good as ever."""
    inside = [job["id"] for job in ended.values() if job["error_kind"] in ("internal", "worker")]
    done = sum(job["state"] == "done" for job in ended.values())
    stuck = [job["id"] for job in ended.values() if job["state"] in ("queued", "running")]
    is_well = server.call.is_well()
    after = server.call("POST", "/analyze", tiny(new_name()))
    sentences = sorted({ended[job_id]["error"] for job_id in inside})
    return Outcome(
        "nonsense",
        f"surrogates, {DEPTHS[0]} to {DEPTHS[-1]} levels, wrong types, huge numbers; {len(ended)} jobs, {done} done",
        count=count,
        statuses=server.call.statuses,
        promises=[
            Promise(f"{len(unanswered)} calls without an answer", not unanswered),
            Promise(f"stuck {len(stuck)}", not stuck),
            Promise(f"{len(inside)} jobs that broke the worker or the service", not inside),
            Promise("not healthy afterwards", is_well),
            Promise(f"the next job: {after.status}", after.status == 200),
        ],
        notes=[f"A job broke with: {sentence}" for sentence in sentences[:5]],
    )
