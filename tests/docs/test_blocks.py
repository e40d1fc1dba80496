"""Every block of code in the documentation is run, or at least parsed; CONTRIBUTING.md tells writers how."""

import json
import re
import subprocess

import pytest
import yaml

from memorymark.worker.supervisor import KeptWorkers
from support.command_line import needs_no_gpu
from support.documentation import PAGES, ROOT, all_blocks, blocks_of, name_of
from support.python_blocks import complaints_about
from support.shell import commands_of, memorymark_commands_in, programs_in, unknown_options, why_not_parsed
from support.terminal import Terminal

LANGUAGES = {"bash", "console", "css", "html", "ini", "json", "jsonl", "nginx", "python", "text", "toml", "yaml"}
RUN = ("console", "python")
MAKEFILE = (ROOT / "Makefile").read_text()
NPM_SCRIPTS = json.loads((ROOT / "web" / "package.json").read_text())["scripts"]


@pytest.fixture(scope="module")
def shared_worker(tmp_path_factory):
    """A worker that keeps its traces, as a reader's do: pages ask similar questions."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("MEMORYMARK_CACHE", str(tmp_path_factory.mktemp("traces")))
        kept = KeptWorkers()
        yield kept
        kept.close()


def runs(page):
    return any(block.language in RUN and not block.not_run for block in blocks_of(page))


def shell_of(block):
    """The commands of a block, without the output."""
    return block.text if block.language == "bash" else "\n".join(shown.command for shown in commands_of(block))


@needs_no_gpu  # the pages show what a machine without one answers
@pytest.mark.parametrize("page", [page for page in PAGES if runs(page)], ids=name_of)
def test_what_a_page_shows_is_what_happens(page, served, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    terminal, namespace, complaints = Terminal(tmp_path, served), {"__name__": "__main__"}, []
    for block in blocks_of(page):
        if block.title is not None:
            (tmp_path / block.title).write_text(block.text)
        elif block.language == "console" and not block.not_run:
            told = [(shown, terminal.complaint_about(shown)) for shown in commands_of(block)]
            complaints += [f"line {shown.line}: {shown.command}\n{why}" for shown, why in told if why]
        elif block.language == "python" and not block.not_run:
            complaints += complaints_about(terminal.here(block.text), block.place, namespace)
    assert not complaints, "\n\n".join(complaints)


def test_every_block_names_its_language():
    assert [f"{block.place} {block.language}" for block in all_blocks() if block.language not in LANGUAGES] == []


def test_every_command_of_ours_exists_with_its_options():
    blocks = all_blocks("bash", "console")
    commands = [(block.place, words) for block in blocks for words in memorymark_commands_in(shell_of(block))]
    assert len(commands) > 50
    assert [f"{place} {why}" for place, words in commands if (why := why_not_parsed(words))] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_sentences_exist_with_their_options(page):
    mentioned = re.findall(r"(?<!`)`(memorymark [a-z][^`]*)`(?!`)", page.read_text())
    commands = [words for text in mentioned for words in memorymark_commands_in(text.replace("\n", " "))]
    assert [unknown for words in commands for unknown in unknown_options(words)] == []


def test_lines_of_shell_are_valid():
    wrong = {}
    for block in all_blocks("bash", "console"):
        checked = subprocess.run(["bash", "-n"], input=shell_of(block), capture_output=True, text=True)
        if checked.returncode:
            wrong[block.place] = checked.stderr
    assert wrong == {}


def is_there(words):
    """Whether what a program of ours is given exists: a target, a script of npm, a file of the repository."""
    match words:
        case ["make", *targets]:
            return all(f"\n{target}:" in MAKEFILE for target in targets if "=" not in target)
        case ["npm", "run", name, *_]:
            return name in NPM_SCRIPTS
        case ["python" | ".venv/bin/python", file, *_] if "/" in file:
            return (ROOT / file).exists()
    return True


def test_targets_and_scripts_that_commands_name_exist():
    programs = [(block, words) for block in all_blocks("bash", "console") for words in programs_in(shell_of(block))]
    assert [(block.place, words) for block, words in programs if not is_there(words)] == []


@pytest.mark.parametrize("block", all_blocks("python"), ids=lambda block: block.place)
def test_python_that_is_not_run_compiles(block):
    compile(block.text, block.place, "exec")


@pytest.mark.parametrize("block", all_blocks("json", "jsonl", "yaml"), ids=lambda block: block.place)
def test_documents_can_be_read(block):
    documents = block.text.splitlines() if block.language == "jsonl" else [block.text]
    for document in documents:
        assert (yaml.safe_load if block.language == "yaml" else json.loads)(document) is not None
