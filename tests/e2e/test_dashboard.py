"""The dashboard as people use it."""

import json
import re

import pytest
from playwright.sync_api import expect

from memorymark.question.question import Question
from memorymark.question.request import Request
from memorymark.question.target import Target
from support.dashboard import PHONE, TINY_LLAMA, press, require_accessible, require_no_sideways_scrolling

BUTTON = "Analyze Memory Usage"
expect.set_options(timeout=60_000)


def choose(page, label, text):
    field = page.get_by_role("combobox", name=label, exact=True)
    field.click()
    field.fill(text)
    page.get_by_role("option").first.click()


def answered(client, model="bert", **target):
    """A job that has its answer; asked again, it is the same one."""
    question = Question(request=Request(model=model, target=Target(gpu="a10", **target)))
    job = client.submit(question)
    for _ in client.events(job.id):
        pass
    return client.job(job.id)


@pytest.mark.parametrize("model", ["bert", "gpt2", "resnet"])
def test_from_the_front_page_to_the_answer(open_page, client, model):
    page = open_page()
    expect(page.get_by_text("GPU Memory Waste Detector")).to_be_visible()
    choose(page, "Model", model)
    press(page, BUTTON)
    page.wait_for_url(re.compile(r"#/job/[0-9a-f]{12}"))
    expect(page.get_by_text("Analyze Another Model").first).to_be_visible()

    answer = client.job(page.url.rpartition("/")[2]).document["result"]
    shown = page.inner_text("body")
    assert answer["request"]["model"] == model
    assert f"Batch {answer['recommended_batch_size']:,}" in shown
    assert f"{answer['current_waste_percent']:.1f} % wasted" in shown
    assert f"{answer['speedup']:.2f}x" in shown
    assert "predicted" in shown
    require_accessible(page)


def test_a_pasted_config_is_analyzed_at_several_lengths(open_page, client):
    page = open_page()
    page.get_by_role("button", name="Paste a config.json").click()
    config = page.get_by_role("textbox", name="config.json")
    press(page, BUTTON)
    expect(page.get_by_text("Paste the content of a config.json.")).to_be_visible()
    config.fill("bert-base-uncased")
    expect(page.get_by_text("This is not JSON")).to_be_visible()
    config.fill('{"hidden_size": 64}')
    expect(page.get_by_text("no model_type")).to_be_visible()
    require_accessible(page)
    config.fill(json.dumps(TINY_LLAMA))
    expect(page.get_by_text("A llama model, 2 layers")).to_be_visible()
    page.get_by_role("textbox", name="Sequence length").fill("32, 64")
    press(page, BUTTON)

    page.wait_for_url(re.compile(r"#/job/[0-9a-f]{12}"))
    expect(page.get_by_role("heading", name="Plan for 64 tokens")).to_be_visible()
    require_accessible(page)
    question = client.job(page.url.rpartition("/")[2]).document["question"]
    assert question["request"]["config"] == TINY_LLAMA
    assert question["seq_lens"] == [32, 64]
    page.get_by_role("link", name="32", exact=True).click()
    expect(page.get_by_text("built from the config that was given")).to_be_visible()


def test_task_and_revision_are_asked_for(open_page):
    page = open_page()
    asked = []
    page.route(
        "**/jobs",
        lambda route: (
            (asked.append(route.request.post_data_json), route.abort())
            if route.request.method == "POST"
            else route.continue_()
        ),
    )
    choose(page, "Model", "some-org/some-name")
    press(page, "More options")
    page.get_by_role("combobox", name="Task").click()
    page.get_by_role("option", name="Image classifiers").click()
    page.get_by_role("textbox", name="Image size").fill("192")
    page.get_by_role("textbox", name="Revision").fill("v2")
    require_accessible(page)
    press(page, BUTTON)

    expect(page.get_by_role("alert").first).to_be_visible()
    wanted = {"model_name": "some-org/some-name", "task": "image-classification", "revision": "v2", "image_size": 192}
    assert wanted.items() <= asked[0].items()


def test_a_result_has_a_link_of_its_own_that_survives_a_reload(open_page, client):
    job = answered(client)
    page = open_page(f"/job/{job.id}")
    headline = f"Batch {job.document['result']['recommended_batch_size']}"
    expect(page.get_by_role("heading", name=headline).first).to_be_visible()
    page.reload()

    expect(page.get_by_role("heading", name=headline).first).to_be_visible()


def test_a_reload_in_the_middle_goes_on_listening(open_page, client):
    question = Question(request=Request(model="bert"), compare_gpus=("t4", "a10", "l4", "rtx4090", "h100"))
    job = client.submit(question, fresh=True)
    page = open_page(f"/job/{job.id}")
    expect(page.get_by_text("up to batch").first).to_be_visible()
    page.reload()

    expect(page.get_by_text("up to batch").first).to_be_visible()
    for _ in client.events(job.id):
        pass
    expect(page.get_by_text("RTX 4090").first).to_be_visible()
    require_accessible(page)


def test_a_job_can_be_cancelled_where_it_is_watched(open_page, client):
    slow = client.submit(Question(request=Request(model="gpt2"), all_gpus=True), fresh=True)
    page = open_page(f"/job/{slow.id}")
    press(page, "Cancel")

    expect(page.get_by_role("button", name="Run again").first).to_be_visible()
    assert client.job(slow.id).state == "cancelled"
    require_accessible(page)


def test_an_error_is_worded_and_can_be_dismissed(open_page):
    page = open_page()
    full = '{"status": "error", "error": "1000 jobs are waiting and no more are taken; ask again later."}'
    page.route(
        "**/jobs",
        lambda route: (
            route.fulfill(status=429, content_type="application/json", body=full)
            if route.request.method == "POST"
            else route.continue_()
        ),
    )
    press(page, BUTTON)
    expect(page.get_by_role("alert").first).to_contain_text("queue is full")
    require_accessible(page)
    page.get_by_role("button", name=re.compile("dismiss|close", re.IGNORECASE)).first.click()

    expect(page.get_by_text("queue is full")).to_have_count(0)


def test_a_server_that_is_away_is_said_to_be_and_comes_back_by_itself(open_page):
    page = open_page()
    expect(page.get_by_role("button", name=BUTTON)).to_be_visible()
    page.route("**/health", lambda route: route.abort())
    page.route("**/jobs", lambda route: route.abort())
    press(page, BUTTON)
    expect(page.get_by_text("cannot be reached").first).to_be_visible()
    expect(page.get_by_role("status", name="No GPU: predictions only")).to_have_count(0)
    page.unroute("**/health")
    page.unroute("**/jobs")

    expect(page.get_by_role("status", name="No GPU: predictions only")).to_be_visible()


def test_a_link_to_no_job_says_so(open_page):
    page = open_page("/job/000000000000")

    expect(page.get_by_text(re.compile("no (such )?job|does not know|unknown", re.IGNORECASE)).first).to_be_visible()
    require_accessible(page)


def test_results_are_compared_side_by_side(open_page, client):
    jobs = [answered(client), answered(client, "gpt2")]
    page = open_page(f"/compare?ids={','.join(job.id for job in jobs)}")
    for job in jobs:
        expect(page.get_by_text(str(job.document["result"]["max_batch_size"])).first).to_be_visible()

    require_accessible(page)


def test_the_history_is_searched_and_leads_to_results(open_page, client):
    job = answered(client, "resnet")
    page = open_page("/history")
    page.get_by_role("searchbox").fill("resnet")
    page.locator(f'a[href*="{job.id}"]').first.click()

    expect(page.get_by_text("Analyze Another Model").first).to_be_visible()


@pytest.mark.parametrize(("button", "kind"), [("JSON", "json"), ("CSV", "csv"), ("HTML report", "html")])
def test_a_result_is_exported(open_page, client, tmp_path, button, kind):
    job = answered(client)
    page = open_page(f"/job/{job.id}")
    with page.expect_download() as download:
        press(page, button)
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    text = path.read_text()

    assert path.suffix == f".{kind}"
    if kind == "json":
        assert json.loads(text)["max_batch_size"] == job.document["result"]["max_batch_size"]
    elif kind == "csv":
        assert len(text.splitlines()) == 1 + len(job.document["result"]["trials"])
    else:
        assert "<script src" not in text
        assert str(job.document["result"]["max_batch_size"]) in text


@pytest.mark.parametrize("route", ["/", "/history", "/sweeps", "/compare", "/gpus"])
def test_every_page_fits_a_phone_and_is_accessible(open_page, route):
    page = open_page(route, PHONE)
    page.wait_for_load_state("networkidle")

    require_no_sideways_scrolling(page)
    require_accessible(page)


def test_an_answer_fits_a_phone(open_page, client):
    page = open_page(f"/job/{answered(client).id}", PHONE)
    expect(page.get_by_text("Analyze Another Model").first).to_be_visible()

    require_no_sideways_scrolling(page)
    require_accessible(page)


def test_the_cost_calculator_recomputes(open_page, client):
    job = answered(client)
    page = open_page(f"/job/{job.id}")
    people = page.get_by_role("textbox", name="People who train")
    people.fill("10")
    people.press("Tab")

    yearly = 10 * job.document["result"]["cost_savings_annual"]
    expect(page.get_by_text(f"${yearly:,.2f}").or_(page.get_by_text(f"${yearly:,.0f}")).first).to_be_visible()


def test_the_form_works_by_keyboard_alone(open_page):
    page = open_page()
    expect(page.get_by_role("button", name=BUTTON)).to_be_enabled()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent").strip() == BUTTON:
            break
    page.keyboard.press("Enter")

    page.wait_for_url(re.compile(r"#/job/"))
