"""Makes pydantic models from the declarations of documents, so that OpenAPI describes what ``to_dict`` writes."""

from __future__ import annotations

from dataclasses import is_dataclass
from functools import cache
from inspect import cleandoc
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, create_model
from pydantic_core import CoreSchema

from memorymark.documents import REQUIRED, Part, kind_of, parts_of, written
from memorymark.server.model import ServiceModel


class AsDocument:
    """Describes a field, in ``Annotated``, by the document of its type: ``Annotated[Analysis, AsDocument]``."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Returns the schema of the document."""
        return handler.generate_schema(described(source))


class DocumentModel(ServiceModel):
    """A document; its fields may have names that begin with ``model_``."""

    model_config = ConfigDict(protected_namespaces=())


@cache
def schema_of(cls: Any, name: str = "") -> type[BaseModel]:
    """Returns the document of a dataclass as a pydantic model, with the same name unless another is given."""
    parts: dict[str, Any] = {part.name: _field(part) for part in parts_of(cls)}
    if (kind := kind_of(cls)) is not None:
        parts = {"kind": (Literal[kind], Field(description="What this document is.")), **parts}
    model: type[BaseModel] = create_model(
        name or cls.__name__,
        __base__=DocumentModel,
        __doc__=cleandoc(cls.__doc__ or ""),
        __module__=cls.__module__,
        **parts,
    )
    return model


def described(declared: Any) -> Any:
    """Converts a declared type to JSON types, with models in place of dataclasses."""
    origin, inner = get_origin(declared), get_args(declared)
    if origin in (Union, UnionType):
        return _one_of(inner)
    if origin is list:
        return list[described(inner[0])]  # type: ignore[misc]
    if origin is tuple:
        items = tuple(described(one) for one in inner if one is not Ellipsis)
        return list[items[0]] if Ellipsis in inner else tuple[items]  # type: ignore[valid-type]
    if origin is dict:
        return dict[str, described(inner[1])]  # type: ignore[misc]
    return schema_of(cast("Any", declared)) if is_dataclass(declared) else declared


def _one_of(declared: tuple[Any, ...]) -> Any:
    """Converts a union type; documents are told apart by their ``kind``."""
    documents = tuple(described(one) for one in declared if is_dataclass(one))
    others = tuple(described(one) for one in declared if not is_dataclass(one))
    if len(documents) > 1:
        documents = (Annotated[Union[documents], Field(discriminator="kind")],)  # noqa: UP007 - known only here
    return Union[documents + others]  # noqa: UP007 - likewise


def _field(part: Part) -> tuple[Any, Any]:
    declared = described(part.type)
    if part.absent is REQUIRED:
        return declared, Field(description=part.description or None)
    nullable = Union[declared, None] if part.absent is None else declared  # noqa: UP007 - likewise
    return nullable, Field(default=written(part.absent), description=part.description or None)
