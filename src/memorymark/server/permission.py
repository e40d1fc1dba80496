"""Rejects questions that open files or run code on the server, unless the operator allows it."""

from __future__ import annotations

from memorymark.errors import NotAllowedError
from memorymark.profiles.stored import is_file_name
from memorymark.question.model_names import read_name
from memorymark.question.request import Request
from memorymark.suggestions import without


def refuse_code(model: str | None, *, trust_remote_code: bool, has_config: bool) -> None:
    """Raises on a question that would open a file or run code on the server; looks only at the name."""
    if trust_remote_code:
        raise NotAllowedError(
            "this service does not run code that comes with a model, unless its operator allows code.",
            field="trust_remote_code",
            given=True,
            proposals=[without("trust_remote_code", usual=False)],
        )
    if model and not has_config and read_name(model).needs_files:  # with a config, the name is only a label
        raise NotAllowedError(
            "this service does not open files or run functions for callers; send the config.json as config, or ask "
            "its operator to allow code.",
            field="model",
            given=model,
        )


def refuse_profile_file(profile: str | None) -> None:
    """Raises on a question that would open a file of the server as a profile."""
    if profile is not None and is_file_name(profile):
        raise NotAllowedError(
            "this service does not open files for callers; give the name of a profile that it has, or ask its operator "
            "to allow code.",
            field="profile",
            given=profile,
            proposals=[without("profile")],
        )


def refuse_code_of(request: Request) -> None:
    """Raises on a request that runs code; a request already holds the config of its folder, so no file is opened."""
    has_config = request.config is not None
    refuse_profile_file(request.target.profile)
    refuse_code(request.model, trust_remote_code=request.trust_remote_code, has_config=has_config)
