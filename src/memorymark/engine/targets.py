"""Guards commands that only a real run can answer."""

from __future__ import annotations

from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.question.request import Request
from memorymark.suggestions import without


def require_run(command: str, request: Request) -> None:
    """Raises ``UsageError`` if the request names a GPU to predict for: ``command`` needs a real run."""
    if request.target.gpu is not None:
        raise UsageError(
            Message(
                "{command} runs on a device of this machine; drop {gpu}, or use predict or analyze with it.",
                command=command,
            ),
            code="not_applicable",
            field="gpu",
            given=request.target.gpu,
            proposals=[without("gpu")],
        )
