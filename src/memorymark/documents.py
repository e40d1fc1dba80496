"""Dataclasses as JSON documents: a class declares its document once; writing, reading and the schema follow from it.

    @dataclass(frozen=True)
    class Parcel(Record):
        kind: ClassVar[Literal["parcel"]] = "parcel"

        weight_bytes: int
        \"\"\"What it weighs with its wrapping.\"\"\"
        note: str = field(default="", metadata=ADDED_LATER)
        \"\"\"What the sender wrote on it.\"\"\"

        @property
        @in_document
        def weight_gb(self) -> float:
            \"\"\"Its weight in GiB.\"\"\"
            return gib(self.weight_bytes)

A document holds the class's ``kind``, if it has one, then the properties marked with ``in_document``, then the fields.
A marked property replaces a field of the same name. Docstrings describe the parts in the schema. Values that have
``to_dict`` and ``from_dict`` are written and read with them.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints, overload

Function = TypeVar("Function", bound=Callable[..., Any])
Made = TypeVar("Made")
Read = TypeVar("Read", bound="Record")

RULE, MARK = "document", "__in_document__"
HELP = "help"  # metadata that describes a field without a docstring
REQUIRED: Any = object()  # the default of a part that every document has
# Metadata of fields that need special treatment.
LEFT_OUT = {RULE: "left out"}  # never written
INLINE = {RULE: "inline"}  # its parts are written beside the other fields, not nested
ADDED_LATER = {RULE: "added later"}  # missing from older documents, which then mean its default
IF_KNOWN = {RULE: "if known"}  # not written if it is None


@dataclass(frozen=True)
class Part:
    """One key of a document.

    ``path`` leads from the object to the value, which is of the declared ``type``; ``is_written`` says that the value
    already consists of JSON types. ``absent`` is the value if a document lacks the key, or ``REQUIRED``. ``owner`` is
    the class that has the last attribute of the path, ``help`` its description if it has no docstring.
    """

    name: str
    path: tuple[str, ...]
    type: Any
    owner: Any
    help: str = ""
    absent: Any = REQUIRED
    if_known: bool = False
    is_written: bool = False

    @property
    def description(self) -> str:
        """What it means, from its docstring or its help; only schemas need it, so it is found when it is asked for."""
        return _docstrings(self.owner).get(self.path[-1], self.help)

    def of(self, thing: Any) -> Any:
        """The value of this part."""
        for attribute in self.path:
            thing = getattr(thing, attribute)
        return thing


@dataclass(frozen=True)
class DocumentOf:
    """Names the class that wrote a value that is already a document: ``Annotated[dict, DocumentOf(Trial)]``."""

    declared: Any


class Document:
    """A dataclass that can be written as JSON; its documents have all of its parts, except those added later.

    For dataclasses that do not derive from ``Document``, fields with a default may be missing.
    """

    def to_dict(self) -> dict[str, Any]:
        """Returns the document in JSON types."""
        return to_document(self)


class Record(Document):
    """A document that can be read back."""

    @classmethod
    def from_dict(cls: type[Read], data: dict[str, Any]) -> Read:
        """Reads what ``to_dict`` wrote, in this version or an earlier one."""
        return from_document(cls, data)


@dataclass(frozen=True)
class _Mark:
    name: str
    older: Any


@overload
def in_document(function: Function, /) -> Function: ...
@overload
def in_document(*, name: str = "", older: Any = REQUIRED) -> Callable[[Function], Function]: ...
def in_document(function: Any = None, /, *, name: str = "", older: Any = REQUIRED) -> Any:
    """Marks a property as a part of the document, described by its docstring; goes below ``@property``.

    ``name`` is its key in the document, if it differs. ``older`` is its value in older documents, which lack the key.
    """

    def mark(function: Any) -> Any:
        setattr(function, MARK, _Mark(name or function.__name__, older))
        return function

    return mark if function is None else mark(function)


def to_document(thing: Any) -> dict[str, Any]:
    """Writes a dataclass as its document."""
    cls: Any = type(thing)
    kind = kind_of(cls)
    document = {} if kind is None else {"kind": kind}
    for part in parts_of(cls):
        value = part.of(thing)
        if value is not None or not part.if_known:
            document[part.name] = value if part.is_written else written(value)
    return document


def written(value: Any) -> Any:
    """Converts a value to JSON types."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        return [written(one) for one in value]
    if isinstance(value, dict):
        return {str(key): written(one) for key, one in value.items()}
    return to_document(value) if is_dataclass(value) else value


def from_document(cls: type[Made], data: Mapping[str, Any]) -> Made:
    """Reads a document back into its dataclass; computed parts are recomputed, missing ones take their defaults.

    A class with computed parts ignores unknown keys, since another version may compute more. Any other class raises
    ``TypeError``, since an unknown field may change what the others mean.
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"a document is an object, not {type(data).__name__}")
    if (kind := kind_of(cls)) is not None and data.get("kind", kind) != kind:
        raise ValueError(f"expected a document of kind {kind}, not {data['kind']!r}")
    types = _types(cast("Any", cls))
    given = {field.name: _read(types[field.name], data[field.name]) for field in _fields(cls) if field.name in data}
    unknown = data.keys() - given.keys() - {"kind"}
    if unknown and not _marked(cast("Any", cls)):
        raise TypeError(f"{cls.__name__} has no {', '.join(sorted(unknown))}")
    return cls(**given)


def kind_of(cls: type[Any]) -> str | None:
    """Returns the ``kind`` that documents of a class carry, or ``None``."""
    kind = getattr(cls, "kind", None)
    return kind if isinstance(kind, str) and "kind" not in {field.name for field in _fields(cls)} else None


@cache
def parts_of(cls: Any) -> tuple[Part, ...]:
    """Returns the parts of a class's documents besides the kind, in order."""
    computed = [_computed_part(cls, attribute, function) for attribute, function in _marked(cls).items()]
    taken = {part.name for part in computed}
    return (*computed, *(part for part in _field_parts(cls) if part.name not in taken))


def _field_parts(cls: Any) -> Iterator[Part]:
    types, promises_all = _types(cls), issubclass(cls, Document)
    for field in _fields(cls):
        rule, declared = field.metadata.get(RULE), types[field.name]
        if rule == LEFT_OUT[RULE]:
            continue
        if rule == INLINE[RULE]:
            yield from (replace(part, path=(field.name, *part.path)) for part in parts_of(declared))
            continue
        if_known = rule == IF_KNOWN[RULE]
        may_lack = rule == ADDED_LATER[RULE] or if_known or not promises_all
        wrote = next((note for note in getattr(declared, "__metadata__", ()) if isinstance(note, DocumentOf)), None)
        yield Part(
            field.name,
            (field.name,),
            declared if wrote is None else wrote.declared,
            cls,
            field.metadata.get(HELP, ""),
            absent=_default(field) if may_lack else REQUIRED,
            if_known=if_known,
            is_written=wrote is not None,
        )


def _computed_part(cls: Any, attribute: str, function: Any) -> Part:
    mark: _Mark = getattr(function, MARK)
    returned = get_type_hints(function, include_extras=True)["return"]
    return Part(mark.name, (attribute,), returned, cls, inspect.cleandoc(function.__doc__ or ""), mark.older)


@cache
def _marked(cls: Any) -> dict[str, Any]:
    """Returns the getters of marked properties by attribute, those of base classes first."""
    functions: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for attribute, member in vars(base).items():
            function = member.fget if isinstance(member, property) else None
            if hasattr(function, MARK):
                functions[attribute] = function
    return functions


@cache
def _docstrings(cls: Any) -> dict[str, str]:
    """Returns the docstrings below the fields of a class and of its bases, by field."""
    return {name: doc for base in reversed(cls.__mro__) for name, doc in _docstrings_in(base).items()}


def _docstrings_in(cls: Any) -> dict[str, str]:
    body = _classes_in(cls.__module__).get(cls.__qualname__, ())
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    }


@cache
def _classes_in(module: str) -> dict[str, list[ast.stmt]]:
    """Returns the statements of every class of a module, by the class's name; none if there is no source."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError):
        return {}
    return {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return REQUIRED if field.default is MISSING else field.default


def _fields(cls: type[Any]) -> tuple[Field[Any], ...]:
    return fields(cast("Any", cls))


@cache
def _types(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def _read(declared: Any, value: Any) -> Any:
    origin, inner = get_origin(declared), get_args(declared)
    if origin in (Union, UnionType):
        return _read_one_of([one for one in inner if one is not NoneType], value)
    if origin is list:
        return [_read(inner[0], one) for one in value]
    if origin is tuple:
        each = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(_read(one, item) for one, item in zip(each, value, strict=True))
    if origin is dict:
        return {int(key) if inner[0] is int else key: _read(inner[1], one) for key, one in value.items()}
    if is_dataclass(declared):
        reader = getattr(declared, "from_dict", None)
        return from_document(cast("type[Any]", declared), value) if reader is None else reader(value)
    return value


def _read_one_of(declared: list[Any], value: Any) -> Any:
    """Reads a value of a union type; the ``kind`` of a document says which class it is."""
    if value is None or len(declared) == 1:
        return None if value is None else _read(declared[0], value)
    by_kind = {kind_of(cast("Any", one)): one for one in declared if is_dataclass(one)}
    return _read(by_kind[value["kind"]], value) if by_kind else value
