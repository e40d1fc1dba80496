"""Dataclasses as documents, by a few that stand for nothing."""

import json
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import pytest

from memorymark.documents import (
    ADDED_LATER,
    IF_KNOWN,
    INLINE,
    LEFT_OUT,
    REQUIRED,
    Document,
    DocumentOf,
    Record,
    from_document,
    in_document,
    parts_of,
    to_document,
)


@dataclass(frozen=True)
class Stamp:
    """Plain facts."""

    country: str
    cents: int = 100


@dataclass(frozen=True)
class Letter(Record):
    """A kind of post."""

    kind: ClassVar[Literal["letter"]] = "letter"

    pages: int

    @property
    @in_document
    def weight_grams(self) -> float:
        """What it weighs."""
        return 4.5 * self.pages


@dataclass(frozen=True)
class Parcel(Record):
    """Another kind of post."""

    kind: ClassVar[Literal["parcel"]] = "parcel"

    stamps: tuple[Stamp, ...]
    size: tuple[int, float] | None = None
    letters: list[Letter] = field(default_factory=list)
    shelves: dict[int, Stamp] = field(default_factory=dict)
    inside: Letter | Stamp | None = None
    note: str = field(default="", metadata=ADDED_LATER)
    scale: Any = field(default=None, metadata=LEFT_OUT)
    insured_usd: float | None = field(default=None, metadata=IF_KNOWN)

    @property
    @in_document(name="postage", older=0)
    def postage_cents(self) -> int:
        """What the stamps are worth."""
        return sum(stamp.cents for stamp in self.stamps)


@dataclass(frozen=True)
class Bag(Record):
    """Post of every kind."""

    post: list[Letter | Parcel]


@dataclass(frozen=True)
class Delivery(Document):
    """A letter, and where it goes."""

    letter: Letter = field(metadata=INLINE)
    street: str
    sent_at: float = 0.0
    proof: Annotated[dict[str, Any] | None, DocumentOf(Stamp)] = None

    @property
    @in_document(name="sent_at")
    def sent(self) -> str:
        """When it was sent, in words."""
        return f"{self.sent_at:g} o'clock"


PARCEL = Parcel(
    stamps=(Stamp("fr"), Stamp("de", 80)),
    size=(3, 0.5),
    letters=[Letter(2)],
    shelves={7: Stamp("it")},
    inside=Letter(1),
    scale=object(),
)


def test_a_document_has_the_kind_what_is_marked_and_the_fields_in_this_order():
    assert list(to_document(PARCEL).items()) == [
        ("kind", "parcel"),
        ("postage", 180),
        ("stamps", [{"country": "fr", "cents": 100}, {"country": "de", "cents": 80}]),
        ("size", [3, 0.5]),
        ("letters", [{"kind": "letter", "weight_grams": 9.0, "pages": 2}]),
        ("shelves", {"7": {"country": "it", "cents": 100}}),
        ("inside", {"kind": "letter", "weight_grams": 4.5, "pages": 1}),
        ("note", ""),
    ]


def test_what_is_written_is_read_back_after_its_way_through_json():
    read = Parcel.from_dict(json.loads(json.dumps(PARCEL.to_dict())))

    assert read == Parcel(PARCEL.stamps, PARCEL.size, PARCEL.letters, PARCEL.shelves, PARCEL.inside)


def test_documents_of_several_kinds_are_told_apart_by_what_they_say():
    bag = Bag([Letter(3), PARCEL, Letter(1)])

    assert [type(one) for one in Bag.from_dict(bag.to_dict()).post] == [Letter, Parcel, Letter]
    with pytest.raises(KeyError, match="kind"):
        Bag.from_dict({"post": [{"pages": 3}]})


def test_a_document_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="expected a document of kind letter, not 'parcel'"):
        Letter.from_dict({"kind": "parcel", "pages": 3})


def test_older_documents_lack_what_has_a_default_and_what_is_computed():
    assert Parcel.from_dict({"stamps": []}) == Parcel(())
    with pytest.raises(TypeError, match="stamps"):
        Parcel.from_dict({"kind": "parcel"})


def test_a_name_that_means_nothing_is_ignored_beside_what_is_computed_and_refused_among_plain_facts():
    assert from_document(Letter, {"pages": 1, "weight_ounces": 0.1}) == Letter(1)
    with pytest.raises(TypeError, match="Stamp has no colour"):
        from_document(Stamp, {"country": "fr", "colour": "red"})


@pytest.mark.parametrize("damaged", [None, 7, "pages", [["pages", 1]]])
def test_what_is_no_object_is_no_document(damaged):
    with pytest.raises(TypeError, match="a document is an object"):
        Letter.from_dict(damaged)


def test_what_is_not_known_is_left_out_where_that_is_declared():
    assert "insured_usd" not in PARCEL.to_dict()
    assert Parcel((), insured_usd=5.0).to_dict()["insured_usd"] == 5.0


def test_parts_stand_beside_the_fields_and_a_marked_property_in_place_of_one():
    proof = {"country": "fr", "of another version": 1}

    assert Delivery(Letter(2), "here", 9.0, proof).to_dict() == {
        "sent_at": "9 o'clock",
        "weight_grams": 9.0,
        "pages": 2,
        "street": "here",
        "proof": proof,
    }


def test_a_document_has_all_its_parts_but_those_added_later_and_a_plain_dataclass_what_has_no_default():
    absent = {part.name: part.absent for part in parts_of(Parcel)}

    assert (absent["postage"], absent["note"], absent["size"]) == (0, "", REQUIRED)
    assert {part.name: part.absent for part in parts_of(Stamp)} == {"country": REQUIRED, "cents": 100}


def test_the_docstring_of_a_property_describes_it():
    described = {part.name: part.description for part in parts_of(Delivery)}

    assert (described["sent_at"], described["weight_grams"]) == ("When it was sent, in words.", "What it weighs.")


@dataclass(frozen=True)
class Handwritten:
    """A class with a document of its own making."""

    text: str

    def to_dict(self):
        return {"ink": self.text}

    @classmethod
    def from_dict(cls, data):
        return cls(data["ink"])


@dataclass(frozen=True)
class Envelope(Record):
    """Holds one."""

    sheet: Handwritten | None


def test_a_class_may_write_and_read_itself():
    assert Envelope(Handwritten("hi")).to_dict() == {"sheet": {"ink": "hi"}}
    assert Envelope.from_dict({"sheet": {"ink": "hi"}}) == Envelope(Handwritten("hi"))
    assert Envelope.from_dict({"sheet": None}) == Envelope(None)
