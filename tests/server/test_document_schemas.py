"""The OpenAPI document describes what ``to_dict`` writes, because both are made from one declaration."""

import json
import subprocess
import sys
from dataclasses import dataclass, field, is_dataclass
from typing import Annotated, Any, ClassVar, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import BaseModel, ValidationError

from memorymark.catalog.listings import gpu_catalog, model_catalog
from memorymark.documents import ADDED_LATER, Document, DocumentOf, Record, in_document, kind_of, parts_of
from memorymark.engine.validate import BackwardCheck, CompileCheck, PredictionCheck
from memorymark.events import StageStarted, TrialFinished
from memorymark.question.options import option as declared_option
from memorymark.results.option import Refused
from memorymark.results.result import BY_KIND, Result
from memorymark.server.app import create_app
from memorymark.server.document_schemas import AsDocument, described, schema_of
from memorymark.server.settings import Settings
from memorymark.suggestions import Suggestion
from support.advices import INFO, advice, option, trial
from support.comparisons import REQUEST, comparison
from support.generated import advices, analyses, comparisons, sweeps
from support.lengths import SWEEP
from support.recorded_analyses import recorded

DOCUMENTS = [
    recorded("bert_fp32")[1],
    comparison(t4=50, h200=1000),
    SWEEP,
    advice(option(("bf16",), 500.0, measured=330.0), measured=110.0, refused=(Refused(("lora",), "no."),)),
    trial(100.0),
    Suggestion(change={"lora": 16}, max_batch_size=3, device_bytes=4, total_bytes=5),
    model_catalog(),
    gpu_catalog({"a10"}),
    BackwardCheck(1, 2, 3, 4),
    CompileCheck(trial(1.0), trial(2.0), 3.0),
    PredictionCheck(REQUEST, INFO, [(trial(1.0), trial(2.0))], 10, 9),
    TrialFinished("search", trial(1.0)),
    StageStarted("search", "searching", 1, 2, False),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: type(one).__name__)
def test_a_schema_describes_every_name_that_is_written_and_no_other(document):
    written = document.to_dict()

    assert schema_of(type(document)).model_fields.keys() == written.keys()
    schema_of(type(document)).model_validate_json(json.dumps(written), strict=True)


@settings(max_examples=25, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(analyses() | comparisons() | sweeps() | advices())
def test_whatever_is_found_is_as_its_schema_says(result):
    schema_of(type(result)).model_validate_json(json.dumps(result.to_dict()), strict=True)


def classes_in(declared, seen):
    """The dataclasses that a document is made of."""
    if is_dataclass(declared) and declared not in seen:
        seen.add(declared)
        for part in parts_of(declared):
            classes_in(part.type, seen)
    for inner in getattr(declared, "__args__", ()):
        classes_in(inner, seen)
    return seen


@pytest.fixture
def components(idle_jobs):
    return create_app(idle_jobs(), Settings()).api_doc["components"]["schemas"]


def test_the_openapi_document_has_every_part_of_every_result(components):
    classes = classes_in(Result, set())

    assert {*BY_KIND.values()} < classes
    for cls in classes:
        names = {part.name for part in parts_of(cls)} | ({"kind"} if kind_of(cls) else set())
        assert components[cls.__name__]["properties"].keys() == names


def test_every_property_and_every_call_is_described(idle_jobs):
    document = create_app(idle_jobs(), Settings()).api_doc
    objects = document["components"]["schemas"].items()
    properties = {f"{name}.{key}": one for name, schema in objects for key, one in schema.get("properties", {}).items()}
    calls = {f"{method} {path}": one for path, item in document["paths"].items() for method, one in item.items()}

    assert len(properties) > 500
    assert [name for name, one in {**properties, **calls}.items() if not one.get("description")] == []


def test_the_result_of_a_job_is_told_by_its_kind(components):
    result = components["JobView"]["properties"]["result"]["anyOf"][0]

    assert result["discriminator"]["propertyName"] == "kind"
    assert result["discriminator"]["mapping"] == {
        kind: f"#/components/schemas/{cls.__name__}" for kind, cls in BY_KIND.items()
    }
    assert all("kind" in components[cls.__name__]["required"] for cls in BY_KIND.values())


NEW_PROPERTY = """
import json
from memorymark.documents import in_document
from memorymark.results.analysis import Analysis

@in_document(older=None)
def tokens_wasted(self) -> int | None:
    "Tokens that nobody trained on."
    return 7

Analysis.tokens_wasted = property(tokens_wasted)  # as if it were written in the class

from dump_openapi import current_document
from support.recorded_analyses import recorded

document = recorded("bert_fp32")[1].to_dict()
schema = json.loads(current_document())["components"]["schemas"]["Analysis"]
print(json.dumps([document["tokens_wasted"], schema["properties"]["tokens_wasted"]]))
"""


def test_a_new_marked_property_is_in_the_json_and_in_the_openapi_document_without_another_edit(request):
    root = request.config.rootpath
    paths = f"import sys; sys.path[:0] = [{str(root / 'tests')!r}, {str(root / 'web' / 'scripts')!r}]\n"
    script = paths + NEW_PROPERTY

    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    written, schema = json.loads(said)
    assert written == 7
    assert schema["description"] == "Tokens that nobody trained on."
    assert (schema["anyOf"], schema["default"]) == ([{"type": "integer"}, {"type": "null"}], None)


@dataclass(frozen=True)
class Leaf(Record):
    """One end."""

    kind: ClassVar[Literal["leaf"]] = "leaf"

    grams: float
    """What it weighs
    when it is dry.
    """
    colour: str = field(default="green", metadata=ADDED_LATER)


@dataclass(frozen=True)
class Twig(Record):
    """What holds leaves."""

    kind: ClassVar[Literal["twig"]] = "twig"

    leaves: tuple[Leaf, ...]
    by_year: dict[int, Leaf] = field(default_factory=dict)
    length: tuple[float, float] | None = None

    @property
    @in_document(older=())
    def colours(self) -> list[str]:
        """Those of its leaves."""
        return [leaf.colour for leaf in self.leaves]


class Tree(BaseModel):
    """An answer with a document in it."""

    top: Annotated[Leaf | Twig | None, AsDocument]


def test_types_are_those_of_json():
    schema = schema_of(Twig).model_json_schema()

    assert schema["description"] == "What holds leaves."
    assert schema["required"] == ["kind", "leaves", "by_year", "length"]
    assert (schema["properties"]["colours"]["type"], schema["properties"]["colours"]["default"]) == ("array", [])
    assert schema["properties"]["by_year"]["additionalProperties"] == {"$ref": "#/$defs/Leaf"}
    assert described(tuple[int, ...] | None) == list[int] | None
    assert schema_of(Twig) is schema_of(Twig)


@dataclass(frozen=True)
class RedLeaf(Leaf):
    """A leaf with a default of its own and a field that is an option."""

    grams: float = 1.0
    shade: str = declared_option("dark", "How red it is.")


def test_fields_are_described_by_their_docstrings_those_of_bases_included_or_by_their_help():
    described_by = {name: one.description for name, one in schema_of(RedLeaf).model_fields.items()}

    assert described_by == {
        "kind": "What this document is.",
        "grams": "What it weighs\nwhen it is dry.",
        "colour": None,
        "shade": "How red it is.",
    }


def test_a_field_of_an_answer_can_be_a_document():
    twig = Twig((Leaf(1.5),), {2020: Leaf(2.5)})

    Tree.model_validate_json(json.dumps({"top": twig.to_dict()}), strict=True)
    Tree.model_validate_json('{"top": {"kind": "leaf", "grams": 1.0}}', strict=True)
    with pytest.raises(ValidationError, match="kind"):
        Tree.model_validate({"top": {"grams": 1.0}})


@dataclass(frozen=True)
class Herbarium(Document):
    """What is kept in JSON types."""

    page: Annotated[dict[str, Any] | None, DocumentOf(Leaf | None)]


def test_a_document_that_is_written_already_is_described_by_what_wrote_it():
    page = schema_of(Herbarium).model_json_schema()["properties"]["page"]

    assert page["anyOf"] == [{"$ref": "#/$defs/Leaf"}, {"type": "null"}]
