"""Templates of HTML pages and of code to paste: what is escaped, what is an error, and that all are installed."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder
from jinja2 import UndefinedError

from memorymark.templating import python_code, templates_of

ROOT = Path(__file__).parents[1]
PACKAGES = {"render", "results", "advice", "watch"}


def test_values_are_escaped_in_pages_and_not_in_code():
    page = templates_of("memorymark.render").from_string("{{ text }}")
    code = python_code("memorymark.watch", "fused", framework=None, optimizer='<"&>')

    assert page.render(text='<"&>') == "&lt;&#34;&amp;&gt;"
    assert code == 'torch.optim.<"&>(..., fused=True)\n'


def test_a_fact_that_a_template_lacks_is_an_error_and_no_empty_text():
    with pytest.raises(UndefinedError, match="optimizer"):
        python_code("memorymark.watch", "fused", framework=None)


def test_results_are_imported_without_the_template_engine():
    modules = "memorymark, memorymark.results.code, memorymark.results.result, memorymark.watch.code"
    program = f"import sys, {modules}; sys.exit('jinja2' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_wheel_has_every_template(tmp_path):
    wheel = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    source = ROOT / "src"
    templates = {path.relative_to(source).as_posix() for path in source.glob("memorymark/*/templates/*")}

    assert {Path(name).parts[1] for name in templates} == PACKAGES
    assert templates - set(ZipFile(wheel).namelist()) == set()
