"""Configs of models on the Hugging Face Hub: the config alone, never the weights. Worker side."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from memorymark.errors import MemoryMarkError, UsageError
from memorymark.models.configs import LARGEST_CONFIG_BYTES, parse_config, too_large_config
from memorymark.request import Request

_given: dict[tuple[str, str | None], dict[str, Any]] = {}


def hub_config(name: str, revision: str | None = None) -> dict[str, Any]:
    """The config.json of a Hugging Face id: the one that was given, or from this machine's cache or from the Hub."""
    known = _given.get((name, revision))
    return known if known is not None else parse_config(_content(name, revision), f"the config.json of {name}")


def public_config(name: str, revision: str | None = None) -> dict[str, Any]:
    """The same as anybody may read it: without the login of whoever runs this, and not from their cache.

    Whoever may read a private model has its config in the cache, where the Hub's refusal would not keep it from others.
    """
    with tempfile.TemporaryDirectory() as empty:
        return parse_config(_content(name, revision, public_cache=empty), f"the config.json of {name}")


def give(name: str, revision: str | None, config: dict[str, Any]) -> None:
    """Says what the config of a Hugging Face id is, in a process that cannot ask."""
    _given.clear()
    _given[name, revision] = config


@lru_cache(maxsize=1)  # it is looked at early, and then built from
def _content(name: str, revision: str | None, *, public_cache: str | None = None) -> bytes:
    from huggingface_hub import errors as hub
    from huggingface_hub import hf_hub_download

    token = False if public_cache is not None else None
    instead = f"give its config.json, in a folder as ./{name.rpartition('/')[2]}, or as config over HTTP"
    at = f" at revision {revision}" if revision else ""
    try:
        is_in_reach = _is_in_reach()
        if is_in_reach:
            _check_size(name, revision, token=token)
        file = hf_hub_download(
            name,
            "config.json",
            revision=revision,
            cache_dir=public_cache,
            local_files_only=not is_in_reach,
            token=token,
        )
    except hub.GatedRepoError:
        raise UsageError(f"{name} is gated on Hugging Face; log in with `hf auth login`, or {instead}.") from None
    except hub.RevisionNotFoundError:
        raise UsageError(f"{name} has no revision {revision} on Hugging Face; check --revision.") from None
    except hub.RepositoryNotFoundError:
        raise UsageError(
            f"Hugging Face has no model {name}, or it is private; check the name, or for a folder here write ./{name}."
        ) from None
    except hub.EntryNotFoundError as error:
        if isinstance(error, hub.LocalEntryNotFoundError):
            raise _out_of_reach(name, at, instead) from None
        raise UsageError(f"{name}{at} has no config.json on Hugging Face; is it a model of transformers?") from None
    except hub.HFValidationError:
        raise UsageError(f"{name} is no name of a model on Hugging Face; write it as org/name.") from None
    except (OSError, hub.HfHubHTTPError, hub.OfflineModeIsEnabled):
        raise _out_of_reach(name, at, instead) from None
    except MemoryMarkError:
        raise
    except Exception as error:  # whatever else the library may raise
        raise _out_of_reach(name, at, instead, error) from None
    with Path(file).open("rb") as opened:
        return opened.read(LARGEST_CONFIG_BYTES + 1)


def _check_size(name: str, revision: str | None, *, token: bool | None) -> None:
    """Refuses, before it is fetched, a file with which a whole disk could be filled."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    size_bytes = None
    with suppress(Exception):  # the download will say what is wrong, or find it in the cache
        size_bytes = get_hf_file_metadata(hf_hub_url(name, "config.json", revision=revision), token=token).size
    if size_bytes is not None and size_bytes > LARGEST_CONFIG_BYTES:
        raise too_large_config(f"the config.json of {name}")


def _is_in_reach() -> bool:
    """Whether asking the Hub makes sense; where its name leads nowhere, it would be asked again and again."""
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
    return UsageError(
        f"the config of {name}{at} is not on this machine and Hugging Face cannot be reached; {instead}.",
        detail=": ".join(said),
    )


def remote_code_config(request: Request, facts: dict[str, Any]) -> Any:
    """The config of a model that brings its own code, which runs here: the caller has said that they trust it."""
    from transformers import AutoConfig

    if request.name.kind not in ("hub", "path"):
        raise UsageError(
            "a config that is pasted has no code beside it; give the model's Hugging Face id or its folder."
        )
    try:
        config = AutoConfig.from_pretrained(request.model, revision=request.revision, trust_remote_code=True)
    except MemoryError:
        raise
    except Exception as error:  # it is anybody's code
        said = " ".join(str(error).split())[:200]
        raise UsageError(
            f"the code of {request.entry.id} does not run.", detail=f"{type(error).__name__}: {said}"
        ) from None
    for key, value in facts.items():
        if hasattr(config, key) and key not in ("auto_map", "model_type"):
            setattr(config, key, value)
    return config
