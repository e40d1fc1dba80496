"""Configs of models on the Hugging Face Hub: the config alone, never the weights. Worker side."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from memorymark.errors import UsageError
from memorymark.models.configs import parse_config
from memorymark.request import Request


def hub_config(name: str, revision: str | None = None) -> dict[str, Any]:
    """The config.json of a Hugging Face id, from this machine's cache or from the Hub."""
    return parse_config(_content(name, revision), f"the config.json of {name}")


@lru_cache(maxsize=1)  # it is looked at early, and then built from
def _content(name: str, revision: str | None) -> bytes:
    from huggingface_hub import errors as hub
    from huggingface_hub import hf_hub_download

    instead = f"give its config.json, in a folder as ./{name.rpartition('/')[2]}, or as config over HTTP"
    at = f" at revision {revision}" if revision else ""
    try:
        file = hf_hub_download(name, "config.json", revision=revision, local_files_only=not _is_in_reach())
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
    return Path(file).read_bytes()


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


def _out_of_reach(name: str, at: str, instead: str) -> UsageError:
    return UsageError(f"the config of {name}{at} is not on this machine and Hugging Face cannot be reached; {instead}.")


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
        raise UsageError(f"the code of {request.entry.id} does not run ({type(error).__name__}: {said}).") from None
    for key, value in facts.items():
        if hasattr(config, key) and key not in ("auto_map", "model_type"):
            setattr(config, key, value)
    return config
