"""Values of a wrong type, and what is told of them."""

from dataclasses import dataclass

import pytest

from memorymark.checks.types import require_types, settle_types
from memorymark.errors import UsageError


@dataclass(frozen=True)
class Declared:
    """A few options."""

    steps: int = 1
    margin: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        settle_types(self)


@pytest.mark.parametrize(
    ("given", "allowed"),
    [({"steps": "2"}, ["a whole number"]), ({"margin": True}, ["a number"]), ({"name": 3}, ["a string"])],
)
def test_a_wrong_type_is_told_with_the_field_and_what_it_may_be(given, allowed):
    ((field, value),) = given.items()

    for refuse in (lambda: require_types(given, Declared), lambda: Declared(**given)):
        with pytest.raises(UsageError, match=f"^{field}= must be {allowed[0]}, not {value!r}") as caught:
            refuse()
        error = caught.value
        assert (error.code, error.field, error.given, error.allowed) == ("wrong_type", field, value, allowed)


def test_what_is_no_text_is_told_with_the_field():
    with pytest.raises(UsageError, match="name contains a lone surrogate or a NUL") as caught:
        Declared(name="\ud800")

    assert (caught.value.code, caught.value.field) == ("malformed", "name")
