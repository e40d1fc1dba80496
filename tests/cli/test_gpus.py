"""``memorymark gpus``."""

from memorymark.catalog import all_gpus
from support.command_line import document, run_here


def test_the_listing_as_json():
    gpus = document(run_here("gpus", "--json"))["gpus"]

    assert [gpu["id"] for gpu in gpus] == [entry.id for entry in all_gpus()]
    assert {"memory_bytes", "price", "prices", "here"} <= gpus[0].keys()


def test_the_listing_for_people():
    shown = run_here("gpus", COLUMNS="80").stdout

    assert all(f"  {entry.id} " in shown for entry in all_gpus())
