"""The form asks what it shows, and its question lives in the address."""

import json
import re
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from memorymark.history import new_job
from memorymark.question.question import Question
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.question.usage import Usage
from support.dashboard import PHONE_OF_TODAY, TINY_LLAMA, press, require_accessible

BUTTON = "Analyze Memory Usage"
expect.set_options(timeout=60_000)
REFUSED = '{"status": "error", "error": "1000 jobs are waiting and no more are taken; ask again later."}'
TINY = Question(
    request=Request(
        model="mine",
        config=TINY_LLAMA,
        seq_len=48,
        recipe=Recipe(
            precision="bf16", optimizer="sgd", accumulation_steps=2, attention="eager", loss="mean", tf32=True
        ),
        target=Target(gpu="l4", memory_cap_bytes=3 * 2**30),
    ),
    current_batch_size=7,
    max_batch=64,
    margin=0.07,
    usage=Usage(hours_per_run=1.5, runs_per_year=10, people=3),
    price_per_hour=0.25,
)

# What is wider than the box that shows it.
CUT_OFF = """[...document.querySelectorAll("main *")]
    .filter((it) => !it.matches(".sr-only, .sr-only *, input") && getComputedStyle(it).overflowX !== "visible")
    .filter((it) => it.scrollWidth > it.clientWidth + 1)
    .map((it) => it.outerHTML.slice(0, 120))"""


def field(page, label, role="textbox"):
    return page.get_by_role(role, name=label, exact=True)


def type_over(page, label, text):
    box = field(page, label, "combobox")
    box.click()
    box.press_sequentially(text)
    return box


def finished(client, question, **how):
    job = client.submit(question, **how)
    for _ in client.events(job.id):
        pass
    return job


@pytest.fixture
def asked():
    return []


@pytest.fixture
def form(open_page, asked):
    """The form of a service that writes down what it is asked, and refuses it."""
    page = open_page()

    def answer(route):
        if route.request.method != "POST":
            return route.continue_()
        asked.append(route.request.post_data_json)
        return route.fulfill(status=429, content_type="application/json", body=REFUSED)

    page.route("**/jobs", answer)
    expect(field(page, "GPU", "combobox")).to_have_value("NVIDIA A10")
    return page


def test_what_is_in_a_field_is_what_is_asked(form, asked):
    typed = {
        "timm:resnet18": "timm:resnet18",
        "some-org/some-name": "some-org/some-name",
        "gpt2": "gpt2",
        "bert LARGE": "bert-large",
        "vit_base_patch16_224": "vit_base_patch16_224",
    }
    for text, model in typed.items():
        type_over(form, "Model", text)
        press(form, BUTTON)
        form.get_by_role("button", name="Dismiss").click()
        assert asked[-1]["model_name"] == model
    assert len(asked) == len(typed)

    model = type_over(form, "Model", "gpt")
    press(form, BUTTON)
    expect(model).to_be_focused()
    expect(model).to_have_value("gpt")
    expect(model).to_have_attribute("aria-invalid", "true")
    expect(model).to_have_accessible_description(re.compile("No model is called “gpt”. Did you mean GPT-2"))
    require_accessible(form)
    assert len(asked) == len(typed)
    form.get_by_role("button", name="GPT-2", exact=True).click()
    expect(model).to_have_value("GPT-2")
    expect(model).to_be_focused()

    gpu = type_over(form, "GPU", "a10")
    gpu.press("Enter")
    expect(gpu).to_have_value("NVIDIA A10")
    type_over(form, "GPU", "rtx 4090")
    press(form, BUTTON)
    form.get_by_role("button", name="Dismiss").click()
    assert (asked[-1]["model_name"], asked[-1]["gpu"]) == ("gpt2", "rtx4090")
    type_over(form, "GPU", "a1000")
    press(form, BUTTON)
    expect(gpu).to_be_focused()
    expect(gpu).to_have_accessible_description(re.compile("No GPU is called “a1000”"))
    gpu.click()
    gpu.press("Escape")
    expect(gpu).to_have_value("a1000")


def test_a_wrong_form_takes_to_the_field_that_says_why(form, asked):
    press(form, "More options")
    field(form, "Margin").fill("200")
    press(form, "More options")
    field(form, "Your batch size today").fill("0")
    press(form, BUTTON)
    batch = field(form, "Your batch size today")
    expect(batch).to_be_focused()
    expect(batch).to_have_accessible_description("Enter a whole number, 1 or more.")
    batch.fill("8")
    press(form, BUTTON)

    margin = field(form, "Margin")
    expect(margin).to_be_focused()
    expect(margin).to_have_attribute("aria-invalid", "true")
    expect(margin).to_have_accessible_description("Enter a number, 0 or more and below 100.")
    require_accessible(form)
    assert asked == []


def test_the_question_lives_in_the_address(form, address):
    for label, text in (("Model", "gpt2"), ("GPU", "h100")):
        type_over(form, label, text)
        form.get_by_role("heading", level=1).click()
    form.get_by_role("radio", name="bf16").click()
    field(form, "Sequence length").fill("128, 256")
    field(form, "Your batch size today").fill("48")
    link = re.compile(r"#/\?model=gpt2&gpu=h100&precision=bf16&seq_len=128,256&batch_size=48$")
    expect(form).to_have_url(link)

    def require_the_same(page):
        expect(page.get_by_role("button", name=BUTTON)).to_be_visible()  # the history has a list of models too
        expect(field(page, "Model", "combobox")).to_have_value("GPT-2")
        expect(field(page, "GPU", "combobox")).to_have_value("NVIDIA H100 80 GB")
        expect(page.get_by_role("radio", name="bf16")).to_be_checked()
        expect(field(page, "Sequence length")).to_have_value("128,256")
        expect(field(page, "Your batch size today")).to_have_value("48")

    form.reload()
    require_the_same(form)
    copied = form.context.new_page()
    copied.goto(form.url)
    require_the_same(copied)
    form.get_by_role("link", name="History", exact=True).click()
    form.reload()
    form.get_by_role("link", name="Analyze", exact=True).click()
    require_the_same(form)
    type_over(form, "Model", "bert")
    form.get_by_role("link", name="All GPUs", exact=True).click()
    expect(form).to_have_url(re.compile(r"#/gpus\?model=bert&"))
    form.go_back()
    expect(field(form, "Model", "combobox")).to_have_value("BERT base")

    press(form, "Paste a config.json")
    field(form, "Model: its config.json").fill(json.dumps(TINY_LLAMA))
    expect(form).to_have_url(re.compile("config=%7B%22model_type%22:%22llama"))
    form.reload()
    assert json.loads(field(form, "Model: its config.json").input_value()) == TINY_LLAMA


def test_the_question_of_an_answer_can_be_changed(open_page, client):
    job = finished(client, TINY)
    page = open_page(f"/job/{job.id}")
    page.get_by_role("link", name="Change the question").click()
    expect(field(page, "GPU", "combobox")).to_have_value("NVIDIA L4")
    expect(field(page, "Sequence length")).to_have_value("48")
    expect(field(page, "Your batch size today")).to_have_value("7")
    assert json.loads(field(page, "Model: its config.json").input_value()) == TINY_LLAMA
    press(page, "More options")
    expect(field(page, "Price")).to_have_value("0.25")
    expect(field(page, "Margin")).to_have_value("7")
    require_accessible(page)
    press(page, BUTTON)

    # All of it is as it was: the answer is the one that was there.
    page.wait_for_url(re.compile(f"#/job/{job.id}$"))
    expect(page.get_by_text("Already answered")).to_be_visible()
    page.go_back()
    expect(field(page, "Price")).to_have_count(0)
    expect(field(page, "Your batch size today")).to_have_value("7")


def test_how_a_job_ended_is_told_and_the_focus_stays(open_page, client):
    job = client.submit(TINY, fresh=True)
    page = open_page(f"/job/{job.id}")
    for _ in client.events(job.id):
        pass
    told = page.get_by_role("status", name="Announcement")
    expect(told).to_have_text(re.compile("Batch "))
    assert told.inner_text() == page.get_by_role("heading", level=1).inner_text()

    in_bf16 = Request(model="gpt2", recipe=Recipe(precision="bf16"))
    slow = client.submit(Question(request=in_bf16, all_gpus=True), fresh=True)
    page = open_page(f"/job/{slow.id}")
    press(page, "Cancel")
    expect(page.get_by_role("status", name="Announcement")).to_have_text("Cancelled")
    headline = page.get_by_role("heading", level=1)
    expect(headline).to_be_focused()
    expect(headline).to_have_text("Cancelled")
    page.get_by_role("link", name="Change the question").click()
    expect(page).to_have_url(re.compile(r"#/gpus\?model=gpt2&(gpu=a10&)?precision=bf16"))


def test_the_button_is_in_the_first_screen_of_a_phone(open_page):
    for route, name in (("/", BUTTON), ("/gpus", "Compare All GPUs")):
        page = open_page(route, PHONE_OF_TODAY)
        expect(page.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
        page.route("**/jobs", lambda route: route.fulfill(status=429, content_type="application/json", body=REFUSED))
        press(page, name)
        expect(page.get_by_role("alert")).to_be_in_viewport(ratio=1)


def test_tabs_go_through_the_page_as_it_is_read(open_page, client):
    finished(client, TINY)
    page = open_page()
    expect(page.get_by_role("link", name="mine on L4").first).to_be_visible()
    page.get_by_role("link", name="History", exact=True).focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Paste a config.json")).to_be_focused()
    page.keyboard.press("Tab")
    expect(field(page, "Model", "combobox")).to_be_focused()
    page.get_by_role("button", name="Start over").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="All", exact=True)).to_be_focused()


def test_on_paper_it_is_light_and_in_forced_colors_bars_are_seen(open_page, client):
    page = open_page(f"/job/{finished(client, TINY).id}")
    expect(page.get_by_text("% used").first).to_be_visible()
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 794, "height": 1123})
    expect(page.locator("html")).to_have_css("background-color", "rgb(255, 255, 255)")
    expect(page.get_by_role("button", name="Run again")).to_be_hidden()
    page.wait_for_function(f"({CUT_OFF}).length === 0")

    page.emulate_media(media="screen", forced_colors="active")
    for bar, color in ((".bg-accent", "rgb(0, 255, 136)"), (".bg-bad", "rgb(255, 68, 68)")):
        expect(page.locator(f"main .card div{bar}").first).to_have_css("background-color", color)


def test_the_history_is_searched_beyond_its_first_page(open_page, service):
    def keep(model, **target):
        job = new_job(Question(request=Request(model=model, target=Target(**target))), "cli")
        service.jobs.store.add(replace(job, state="cancelled"))

    keep("some-org/rare", gpu="v100-32gb")
    for _ in range(60):
        keep("albert")
    page = open_page("/history")
    expect(page.get_by_role("button", name="Older")).to_be_visible()
    page.get_by_role("searchbox").fill("rare nvidia v100")

    expect(page.get_by_role("listitem").filter(has_text="some-org/rare")).to_be_visible()
    expect(page.get_by_role("checkbox")).to_have_count(1)
    page.get_by_role("searchbox").fill("rare t4")
    expect(page.get_by_text("Nothing matches")).to_be_visible()
