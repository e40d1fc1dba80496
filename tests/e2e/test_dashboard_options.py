"""The form comes from the service's declarations, and says at its fields what the service refuses."""

import json
import re

import pytest
from playwright.sync_api import expect

from support.dashboard import press, require_accessible

BUTTON = "Analyze Memory Usage"
expect.set_options(timeout=60_000)


def refusing(page, **fault):
    """Has every question refused; gives what was asked."""
    asked = []

    def answer(route):
        if route.request.method != "POST":
            return route.continue_()
        asked.append(route.request.post_data_json)
        return route.fulfill(status=400, json={"status": "error", "kind": "usage", **fault})

    page.route("**/jobs", answer)
    return asked


@pytest.fixture
def opened(open_page):
    page = open_page()
    expect(page.get_by_role("combobox", name="GPU", exact=True)).to_have_value("NVIDIA A10")
    return page


def test_an_option_that_the_service_declares_is_in_the_form_the_address_and_the_question(open_page):
    page = open_page("/history")
    new = {"name": "brand_new", "title": "Brand new", "choices": ["usual", "unusual"], "labels": {}, "default": "usual"}

    def declare(route):
        options = route.fetch().json()["options"]
        attention = next(one for one in options if one["name"] == "attention")
        route.fulfill(json={"options": [*options, {**attention, **new}]})

    page.route("**/options", declare)
    asked = refusing(page, error="no.")
    page.get_by_role("link", name="Analyze", exact=True).click()
    press(page, "More options")
    page.get_by_role("combobox", name="Brand new").click()
    page.get_by_role("option", name="Unusual").click()

    expect(page).to_have_url(re.compile("[?&]brand_new=unusual"))
    require_accessible(page)
    press(page, BUTTON)
    expect(page.get_by_role("alert")).to_be_visible()
    assert asked == [{"model_name": "bert", "gpu": "a10", "brand_new": "unusual"}]


def test_what_the_service_refuses_is_said_at_its_field_and_a_button_mends_it(opened):
    suggestion = {"label": "5 percent", "change": {"margin": 0.05}}
    asked = refusing(
        opened, error="margin leaves no room.", code="out_of_range", field="margin", suggestions=[suggestion]
    )
    press(opened, "More options")
    opened.get_by_role("textbox", name="Margin").fill("99")
    press(opened, "More options")
    press(opened, BUTTON)

    margin = opened.get_by_role("textbox", name="Margin")
    expect(margin).to_be_focused()
    expect(margin).to_have_accessible_description(re.compile("^Margin leaves no room. Try: 5 percent"))
    expect(opened.get_by_role("alert")).to_have_count(0)
    require_accessible(opened)
    assert json.dumps(asked[0]["margin"]) == "0.99"
    press(opened, "5 percent")
    expect(margin).to_have_value("5")
    expect(margin).to_be_focused()
    expect(margin).not_to_have_attribute("aria-invalid", "true")


def test_a_refusal_of_no_field_comes_with_buttons_that_change_the_form(opened):
    suggestion = {"label": "on the H100", "change": {"gpu": "h100", "precision": "bf16", "memory_gib": None}}
    refusing(opened, error="it cannot be.", code="conflict", field=None, suggestions=[suggestion])
    press(opened, BUTTON)
    expect(opened.get_by_role("alert")).to_contain_text("It cannot be.")
    require_accessible(opened)
    press(opened, "on the H100")

    expect(opened.get_by_role("combobox", name="GPU", exact=True)).to_have_value("NVIDIA H100 80 GB")
    expect(opened.get_by_role("radio", name="bf16")).to_be_checked()
    expect(opened.get_by_role("alert")).to_have_count(0)
