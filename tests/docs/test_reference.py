"""The references are made from the code, so nothing that it offers is missing from them."""

import html
import json
import re

import memorymark
from support.command_line import run_here
from support.documentation import ROOT
from support.shell import programs_in
from support.terminal import SERVICE, called

OPENAPI = json.loads((ROOT / "web" / "openapi.json").read_text())


def text_of(page):
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


def test_everything_that_the_package_exports_is_in_the_python_reference(site):
    page = (site / "reference" / "python.html").read_text(encoding="utf-8")
    assert [name for name in memorymark.__all__ if f'id="memorymark.{name}"' not in page] == []


def test_the_python_reference_explains_options_by_their_help(site):
    shown = text_of(site / "reference" / "python.html")
    assert "Fraction of the memory to leave free." in shown
    assert "option(" not in shown


def test_the_command_reference_is_what_help_prints(site):
    shown = text_of(site / "reference" / "cli.html")
    for command in (["analyze"], ["serve"], ["validate", "backward"]):
        printed = run_here(*command, "--help").stdout
        assert "".join(printed.split()) in "".join(shown.split())  # whatever their widths
    assert "\x1b" not in shown


def test_every_call_is_in_the_http_reference_with_all_it_takes(site):
    page = (site / "reference" / "http.html").read_text(encoding="utf-8")
    shown = text_of(site / "reference" / "http.html")
    for path, item in OPENAPI["paths"].items():
        for method, call in item.items():
            assert f"{method.upper()} {path}" in shown
            assert all(f"<code>{one['name']}</code>" in page for one in call.get("parameters", ()))
    fields = {field for schema in OPENAPI["components"]["schemas"].values() for field in schema.get("properties", ())}
    assert {field for field in fields if f"<code>{field}</code>" not in page} == set()


def test_every_example_of_the_http_reference_is_answered(site, served):
    def quick(body):  # the same question about a small model
        return f"-d '{json.dumps({**json.loads(body[1]), 'small': True, 'seq_len': 16})}'"

    address = f"http://127.0.0.1:{served().port}"
    asked = '{"model_name": "bert", "gpu": "a10", "small": true, "seq_len": 16}'
    job = json.loads(called([f"{address}/analyze", "-d", asked]).stdout)["job_id"]
    shown = text_of(site / "reference" / "http.html").replace("\\\n", " ").replace(SERVICE, address)
    examples = re.findall(r"^curl .*$", re.sub(r"(?<=/jobs/)[0-9a-f]{12}", job, shown), re.MULTILINE)

    assert len(examples) == sum(len(item) for item in OPENAPI["paths"].values())
    for example in examples:
        [words] = programs_in(re.sub(r"-d '(.*)'", quick, example))
        assert called(["-i", *words[1:]]).stdout.startswith("HTTP/1.1 20"), example
