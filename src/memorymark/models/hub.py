"""Configs of models on the Hugging Face Hub: the config alone, never the weights. Worker side."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from memorymark.errors import MemoryMarkError, UsageError
from memorymark.messages import Message
from memorymark.question.configs import LARGEST_CONFIG_BYTES, parse_config, too_large_config
from memorymark.question.request import Request
from memorymark.suggestions import without

_given: dict[tuple[str, str | None], dict[str, Any]] = {}


def hub_config(name: str, revision: str | None = None) -> dict[str, Any]:
    """Returns the config.json of a Hugging Face id: one passed to ``give``, or from this machine's cache or the Hub."""
    known = _given.get((name, revision))
    return known if known is not None else parse_config(_content(name, revision), f"the config.json of {name}")


def public_config(name: str, revision: str | None = None) -> dict[str, Any]:
    """Returns the public config.json of a Hugging Face id, without this user's login and cache.

    The cache may hold configs of private models, which others must not see.
    """
    with tempfile.TemporaryDirectory() as empty:
        return parse_config(_content(name, revision, public_cache=empty), f"the config.json of {name}")


def give(name: str, revision: str | None, config: dict[str, Any]) -> None:
    """Sets the config of a Hugging Face id, in a process that cannot fetch it."""
    _given.clear()
    _given[name, revision] = config


@lru_cache(maxsize=1)  # it is checked early and used again to build the model
def _content(name: str, revision: str | None, *, public_cache: str | None = None) -> bytes:
    try:
        file = _downloaded(name, revision, public_cache)
    except MemoryMarkError:
        raise
    except Exception as error:  # whatever the library may raise
        raise _refusal(error, name, revision) from None
    with Path(file).open("rb") as opened:
        return opened.read(LARGEST_CONFIG_BYTES + 1)


def _downloaded(name: str, revision: str | None, public_cache: str | None) -> str:
    from huggingface_hub import hf_hub_download

    token = False if public_cache is not None else None
    is_in_reach = _is_in_reach()
    if is_in_reach:
        _check_size(name, revision, token=token)
    return hf_hub_download(
        name,
        "config.json",
        revision=revision,
        cache_dir=public_cache,
        local_files_only=not is_in_reach,
        token=token,
    )


def _refusal(error: Exception, name: str, revision: str | None) -> UsageError:
    """Returns an error that says what failed and what to do instead."""
    from huggingface_hub import errors as hub

    instead = f"pass its config.json, in a folder such as ./{name.rpartition('/')[2]}, or as config over HTTP"
    at = f" at revision {revision}" if revision else ""
    if isinstance(error, hub.GatedRepoError):
        return _no_config(name, f"{name} is gated on Hugging Face; log in with `hf auth login`, or {instead}.")
    if isinstance(error, hub.RevisionNotFoundError):
        return _no_revision(name, revision)
    if isinstance(error, hub.RepositoryNotFoundError):
        sentence = (
            f"Hugging Face has no model {name}, or it is private; check the name, or write ./{name} for a local folder."
        )
        return UsageError(sentence, code="unknown_model", field="model", given=name)
    if isinstance(error, hub.LocalEntryNotFoundError):
        return _out_of_reach(name, at, instead)
    if isinstance(error, hub.EntryNotFoundError):
        return _no_config(name, f"{name}{at} has no config.json on Hugging Face; is it a transformers model?")
    if isinstance(error, hub.HFValidationError):
        sentence = f"{name} is not a model name on Hugging Face; write it as org/name."
        return UsageError(sentence, code="malformed", field="model", given=name)
    is_known = isinstance(error, (OSError, hub.HfHubHTTPError, hub.OfflineModeIsEnabled))
    return _out_of_reach(name, at, instead, None if is_known else error)


def _no_revision(name: str, revision: str | None) -> UsageError:
    return UsageError(
        Message("{name} has no revision {asked} on Hugging Face; check {revision}.", name=name, asked=revision),
        code="not_readable",
        field="revision",
        given=revision,
        proposals=[without("revision")],
    )


def _check_size(name: str, revision: str | None, *, token: bool | None) -> None:
    """Refuses a file that could fill the disk, before it is fetched."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    size_bytes = None
    with suppress(Exception):  # the download will say what is wrong, or find it in the cache
        size_bytes = get_hf_file_metadata(hf_hub_url(name, "config.json", revision=revision), token=token).size
    if size_bytes is not None and size_bytes > LARGEST_CONFIG_BYTES:
        raise too_large_config(f"the config.json of {name}")


def _is_in_reach() -> bool:
    """Tells whether the Hub's name resolves; if not, the library would retry again and again."""
    import socket
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    from huggingface_hub.constants import ENDPOINT

    try:
        return bool(getproxies().get("https")) or bool(socket.getaddrinfo(urlsplit(ENDPOINT).hostname, 443))
    except OSError:
        return False


def _out_of_reach(name: str, at: str, instead: str, error: Exception | None = None) -> UsageError:
    said = [type(error).__name__, *str(error).splitlines()[:1]] if error is not None else []
    sentence = f"the config of {name}{at} is not on this machine and Hugging Face cannot be reached; {instead}."
    return _no_config(name, sentence, detail=": ".join(said))


def _no_config(name: str, sentence: str, detail: str = "") -> UsageError:
    return UsageError(sentence, code="not_readable", field="model", given=name, detail=detail)


def remote_code_config(request: Request, facts: dict[str, Any]) -> Any:
    """Returns the config of a model that brings its own code, which runs here: the caller trusts it."""
    from transformers import AutoConfig

    if request.name.kind not in ("hub", "path"):
        raise UsageError(
            "a pasted config brings no code; pass the model's Hugging Face id or its folder.",
            code="conflict",
            field="trust_remote_code",
            given=True,
            proposals=[without("trust_remote_code", usual=False)],
        )
    try:
        config = AutoConfig.from_pretrained(request.model, revision=request.revision, trust_remote_code=True)
    except MemoryError:
        raise
    except Exception as error:  # the model's code may raise anything
        said = " ".join(str(error).split())[:200]
        raise UsageError(
            f"the code of {request.entry.id} does not run.",
            code="bad_workload",
            field="model",
            given=request.model,
            detail=f"{type(error).__name__}: {said}",
        ) from None
    for key, value in facts.items():
        if hasattr(config, key) and key not in ("auto_map", "model_type"):
            setattr(config, key, value)
    return config
