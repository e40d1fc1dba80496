"""The base of the service's pydantic models."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

from pydantic import BaseModel


class ServiceModel(BaseModel):
    """A model whose JSON schema is worked out once, though every route asks for those of its errors again."""

    @classmethod
    def model_json_schema(cls, *arguments: Any, **named: Any) -> dict[str, Any]:
        """Returns the JSON schema, for the caller to change."""
        return deepcopy(_schema(cls, arguments, tuple(named.items())))


@cache
def _schema(model: type[ServiceModel], arguments: tuple[Any, ...], named: tuple[tuple[str, Any], ...]) -> Any:
    return super(ServiceModel, model).model_json_schema(*arguments, **dict(named))
