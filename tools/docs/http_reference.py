"""The HTTP reference: every call of the OpenAPI document with what it takes and answers, as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from http_schemas import described, fields_table, link_to, type_of

SERVICE = "http://127.0.0.1:5001"
JOB = "6224896441e2"
SWEEP = "9b8632e56eb9"
# What an example sends, by path.
BODIES: dict[str, dict[str, Any]] = {
    "/analyze": {"model_name": "bert", "gpu": "a10"},
    "/advise": {"model_name": "bert", "gpu": "a10"},
    "/jobs": {"model_name": "gpt2", "gpu": "l4", "precision": "bf16"},
}
GROUPS = {"facts": "Facts", "work": "Questions that wait for the answer", "jobs": "Jobs", "sweeps": "Sweeps"}
MEANINGS = {
    "200": "answered",
    "202": "a new job; the header `Location` has its address",
    "204": "as a stream: the job has ended and you have all its events",
    "400": "the body or the query is wrong",
    "401": "the token is missing or wrong",
    "403": "the service does not accept this host name, or does not allow what was asked",
    "404": "there is no such job or sweep",
    "409": "somebody cancelled the job",
    "413": "the body is larger than 320 KiB",
    "415": "the body is not `application/json`",
    "422": "it does not fit, or it cannot be predicted",
    "429": "too many jobs, callers or streams wait; `Retry-After` says how long to wait",
    "500": "the worker was killed, crashed or hung",
    "503": "the service is shutting down, or the history cannot be used",
    "504": "the job, or the call, took longer than its limit",
}


def http_reference(document: dict[str, Any]) -> str:
    """Returns the page's Markdown: the calls by group, then the objects that they send and answer."""
    calls = [(m, p, call) for p, item in document["paths"].items() for m, call in item.items()]
    parts: list[str] = []
    for tag, title in GROUPS.items():
        parts.append(f"## {title}")
        parts += [_call(method, path, call) for method, path, call in calls if call["tags"] == [tag]]
    parts.append("## Objects")
    parts += [_object(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    return "\n\n".join(parts)


def _call(method: str, path: str, call: dict[str, Any]) -> str:
    return "\n\n".join(_parts_of(method, path, call))


def _parts_of(method: str, path: str, call: dict[str, Any]) -> Iterator[str]:
    yield f"### {method.upper()} {path}"
    yield f"{call['summary']}. {call['description']}" + ("" if call.get("security") else " Open: it needs no token.")
    yield f"```bash\n{_example(method, path)}\n```"
    if parameters := call.get("parameters"):
        yield "\n".join(_parameters(parameters))
    if body := call.get("requestBody"):
        schema = body["content"]["application/json"]["schema"]
        yield f"The body is {link_to(schema['$ref'])}."
    yield "\n".join(_answers(call["responses"]))


def _example(method: str, path: str) -> str:
    words = ["curl -s", f"{SERVICE}{path.format(job_id=JOB, sweep_id=SWEEP)}"]
    if method == "delete":
        words.insert(1, "-X DELETE")
    elif method == "post":
        words += ["-H 'Content-Type: application/json' \\\n ", f"-d '{json.dumps(BODIES[path])}'"]
    elif path.endswith("/events"):
        words.insert(1, "-N")
    return " ".join(words)


def _parameters(parameters: list[dict[str, Any]]) -> Iterator[str]:
    yield "| parameter | in | type | default | meaning |"
    yield "|---|---|---|---|---|"
    for one in parameters:
        default = "required" if one["required"] else f"`{json.dumps(one['schema'].get('default'))}`"
        yield f"| `{one['name']}` | {one['in']} | {type_of(one['schema'])} | {default} | {described(one)} |"


def _answers(responses: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield "| status | when | answer |"
    yield "|---|---|---|"
    for status, answer in sorted(responses.items()):
        kinds = [_content(media, one["schema"]) for media, one in answer.get("content", {}).items()]
        yield f"| {status} | {MEANINGS[status]} | {' or '.join(kinds) or 'nothing'} |"


def _content(media: str, schema: dict[str, Any]) -> str:
    return type_of(schema) if media == "application/json" else f"`{media}`"


def _object(name: str, schema: dict[str, Any]) -> str:
    about = re.sub(r"\s+", " ", schema.get("description", "")).strip()
    return "\n\n".join(part for part in (f"### {name}", about, fields_table(name, schema)) if part)
