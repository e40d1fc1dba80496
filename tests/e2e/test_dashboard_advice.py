"""What to change, asked and read in the dashboard."""

import json
import re

from playwright.sync_api import expect

from memorymark.question.question import Question
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.units import MIB
from support.advices import advice, option
from support.dashboard import PHONE, TINY_LLAMA, press, require_accessible, require_no_sideways_scrolling

ASK = "What should I change?"
expect.set_options(timeout=60_000)


def answered(client, memory_cap_bytes=None, **question):
    """A job about a small stand-in that has its answer; asked again, it is the same one."""
    recipe = question.pop("recipe", Recipe())
    target = Target(gpu="a10", memory_cap_bytes=memory_cap_bytes)
    job = client.submit(Question(request=Request(model="bert", small=True, recipe=recipe, target=target), **question))
    for _ in client.events(job.id):
        pass
    return client.job(job.id)


def test_from_the_form_to_the_code_of_another_option(open_page, client, tmp_path):
    page = open_page()
    page.get_by_role("button", name="Paste a config.json").click()
    page.get_by_role("textbox", name="config.json").fill(json.dumps(TINY_LLAMA))
    page.get_by_role("textbox", name="Sequence length").fill("32, 64")
    press(page, ASK)
    expect(page.get_by_text("Enter one size here.")).to_be_visible()
    page.get_by_role("textbox", name="Sequence length").fill("64")
    press(page, ASK)
    page.wait_for_url(re.compile(r"#/job/[0-9a-f]{12}"))
    verdict = page.get_by_role("heading", name=re.compile("faster than today"))
    expect(page.get_by_role("progressbar").or_(verdict)).to_be_visible()
    page.reload()

    expect(verdict).to_be_visible()
    found = client.job(page.url.rpartition("/")[2]).document["result"]
    options = page.get_by_role("radio")
    expect(options).to_have_count(len(found["options"]))
    expect(options.first).to_be_checked()
    expect(page.get_by_text("1.00x", exact=True)).to_be_visible()
    expect(page.get_by_text(found["options"][0]["learning_rate"])).to_be_visible()
    require_accessible(page)

    options.first.focus()
    page.keyboard.press("ArrowDown")
    second = found["options"][1]
    expect(page.get_by_text(second["costs"][0]["cost"])).to_be_visible()
    page.get_by_role("tab", name="Transformers").click()
    expect(page.get_by_role("tabpanel")).to_have_text(second["code"]["transformers"])
    with page.expect_download() as download:
        press(page, "JSON")
    download.value.save_as(tmp_path / "advice.json")
    assert json.loads((tmp_path / "advice.json").read_text()) == found


def test_what_does_not_fit_gets_the_least_change_first(open_page, client):
    job = answered(client, 40 * MIB, advise=True)
    page = open_page(f"/job/{job.id}", PHONE)

    expect(page.get_by_role("heading", name="The least change that makes it fit")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="least change")).to_have_count(1)
    expect(page.get_by_text(re.compile(r"^[\d.]+x$"))).to_have_count(0)
    expect(page.get_by_role("heading", name="Also considered")).to_be_visible()
    require_no_sideways_scrolling(page)
    require_accessible(page)


def test_a_tuned_training_is_told_that_nothing_is_worth_changing(open_page, client):
    tuned = answered(client, recipe=Recipe(precision="bf16", fused=True), current_batch_size=3072)
    page = open_page(f"/job/{tuned.id}")
    press(page, ASK)

    expect(page.get_by_role("heading", name="Nothing is worth changing")).to_be_visible()
    expect(page.get_by_role("heading", name="Code to paste")).to_have_count(0)
    require_accessible(page)
    page.get_by_role("link", name="History", exact=True).click()
    entry = page.get_by_role("listitem").filter(has_text="advice").first
    expect(entry).to_contain_text("Nothing is worth changing")
    expect(entry.get_by_role("checkbox")).to_be_disabled()


def test_what_ran_is_marked_with_what_was_predicted(open_page, client):
    ran = option(("bf16",), 500.0, measured=330.0)
    found = advice(ran, option(("tf32",), 200.0), measured=110.0).to_dict()
    job = answered(client, 40 * MIB, advise=True)
    document = {"status": "success", "reused": False, "job": {**job.document, "result": found}}
    page = open_page()
    page.route(f"**/jobs/{job.id}", lambda route: route.fulfill(json=document))
    page.goto(page.url.partition("#")[0] + f"#/job/{job.id}")

    expect(page.get_by_role("radio", name=re.compile("3.00x.*measured.*5.00x predicted"))).to_be_checked()
    expect(page.get_by_role("radio", name=re.compile("2.00x.*predicted"))).to_be_visible()
    expect(page.get_by_text("1 of 2 ways ran on the NVIDIA H200").first).to_be_visible()
    require_accessible(page)
