"""What the dashboard offers where a training does not fit, and what it says of memory."""

import re

from playwright.sync_api import expect

from memorymark.question.question import Question
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.units import GIB, MIB
from support.dashboard import PHONE, require_accessible, require_no_sideways_scrolling

expect.set_options(timeout=60_000)


def ended(client, model="bert", memory_cap_bytes=None, **question):
    """A job about a small stand-in that has ended; asked again, it is the same one where it has an answer."""
    target = Target(gpu="a10", memory_cap_bytes=memory_cap_bytes)
    job = client.submit(Question(request=Request(model=model, small=True, target=target), **question))
    for _ in client.events(job.id):
        pass
    return client.job(job.id)


def test_every_way_that_is_offered_leads_to_an_answer(open_page, client):
    job = ended(client, memory_cap_bytes=30 * MIB)
    suggestions = job.document["suggestions"]
    assert len(suggestions) == 3
    for suggestion in suggestions:
        page = open_page(f"/job/{job.id}", PHONE)
        expect(page.get_by_role("heading", name="does not fit")).to_be_visible()
        expect(page.get_by_role("listitem").filter(has_text="Up to batch")).to_have_count(len(suggestions))
        require_no_sideways_scrolling(page)
        require_accessible(page)
        page.get_by_role("button", name=f"Analyze this: {suggestion['label']}", exact=True).click()
        page.wait_for_url(lambda url: job.id not in url)

        expect(page.get_by_text("Analyze Another Model").first).to_be_visible()
        expect(page.get_by_role("heading", name="Batch sizes")).to_be_visible()
        answer = client.job(page.url.rpartition("/")[2]).document["result"]
        assert answer["max_batch_size"] == suggestion["max_batch_size"]
        # A batch is recommended only where the margin stays free.
        assert (answer["recommended_batch_size"] is None) == (suggestion["missed_margin"] is not None)


def test_what_nothing_helps_is_said_plainly_with_nothing_to_press(open_page, client):
    job = ended(client, memory_cap_bytes=30 * MIB)
    document = {"status": "success", "reused": False, "job": {**job.document, "suggestions": []}}
    page = open_page()
    page.route(f"**/jobs/{job.id}", lambda route: route.fulfill(json=document))
    page.goto(page.url.partition("#")[0] + f"#/job/{job.id}")

    expect(page.get_by_text("Nothing that was checked helps")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Analyze this|ways to make it fit"))).to_have_count(0)


def test_the_memory_of_an_answer_is_one_and_the_recommended_batch_has_its_bar(open_page, client, tmp_path):
    job = ended(client, current_batch_size=64)
    answer = job.document["result"]
    page = open_page(f"/job/{job.id}")
    now = next(t for t in reversed(answer["trials"]) if t["batch_size"] == 64 and t["fits"])
    used, total = now["device_bytes"] / GIB, answer["gpu_total_gb"]

    expect(page.get_by_text(f"{used:.2f} GiB used, {total - used:.2f} GiB wasted")).to_be_visible()
    expect(page.get_by_text(f"{100 * (1 - used / total):.1f} % wasted")).to_be_visible()
    expect(page.get_by_text(re.compile(f"^Recommended.*batch {answer['recommended_batch_size']:,}$"))).to_be_visible()
    low, high = answer["speedup_interval"]
    expect(page.get_by_text(f"expect {low:,.2f}x to {high:,.2f}x")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="HTML report").click()
    download.value.save_as(tmp_path / "report.html")
    assert f"{used:.2f} GiB of {total:.2f} GiB, {100 * (1 - used / total):.1f} % wasted" in (
        tmp_path / "report.html"
    ).read_text(encoding="utf-8")


def test_images_and_texts_are_not_ranked_against_each_other(open_page, client):
    jobs = [ended(client, current_batch_size=64), ended(client, "resnet")]
    page = open_page(f"/compare?ids={','.join(job.id for job in jobs)}")

    expect(page.get_by_text("cannot be compared")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("Samples per second")).get_by_text("(best)")).to_have_count(0)
