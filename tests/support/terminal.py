"""Runs the commands that a page shows, as its reader would: in order, in one folder, with one history."""

import json
import re
from argparse import ArgumentParser
from subprocess import CompletedProcess
from urllib.parse import urlsplit

from support.calls import Caller
from support.command_line import run_apart, run_here
from support.shell import words_of
from support.shown_output import ids_if_equal

SERVICE = "http://127.0.0.1:5001"
ASSIGNMENT = re.compile(r"([A-Z_]+)=(.*)")


class Terminal:
    """``service`` starts the service that pages call; only a page that does needs it."""

    def __init__(self, folder, service, **environment):
        self.folder, self._service = folder, service
        self._ids = {}  # as the page shows them, and as they are
        database = f"sqlite:///{folder}/.history.db"
        self._environment = {"COLUMNS": "100", "MEMORYMARK_DATABASE": database, **environment}

    def here(self, text):
        """The text with the ids of this history and the address of this service."""
        for shown, real in self._ids.items():
            text = text.replace(shown, real)
        return text.replace(SERVICE, f"http://127.0.0.1:{self._service().port}") if SERVICE in text else text

    def complaint_about(self, shown):
        """Runs a command and says how its outcome differs from what the page shows; None if it does not."""
        outcome = self._run(shown)
        if outcome is None:
            return None
        explained = re.search(r"^Error: |does not fit", shown.output, re.MULTILINE)
        if bool(outcome.returncode) != bool(explained):
            return f"exits with {outcome.returncode}:\n{outcome.stdout}{outcome.stderr}"
        return self._difference(shown.output, outcome)

    def _difference(self, output, outcome):
        printed = (outcome.stdout, outcome.stderr, outcome.stderr + outcome.stdout)
        found = [ids for ids in (ids_if_equal(output, text) for text in printed) if ids is not None]
        if output.strip() and not found:
            return f"prints\n{outcome.stderr}{outcome.stdout}"
        if output.strip():
            self._ids |= found[0]
        return None

    def _run(self, shown):
        """The outcome of a command, or None if it is one that pages only mention."""
        words, environment = words_of(self.here(shown.command)), dict(self._environment)
        while words and (given := ASSIGNMENT.fullmatch(words[0])):
            environment[given[1]], words = given[2], words[1:]
        words, then = (words[:-2], words[-2:]) if words[-2:-1] in (["|"], [">"]) else (words, None)
        if words[0] == "memorymark":
            outcome = self._memorymark(words[1:], shown, environment)
        elif words[0] == "curl" and SERVICE in shown.command:
            outcome = called(words[1:])
        else:
            return None
        return self._passed_on(outcome, then)

    def _memorymark(self, arguments, shown, environment):
        if arguments[0] == "serve" and "ready" in shown.output:
            return CompletedProcess(arguments, 0, self._service().said, "\n".join(self._service().log))
        if arguments[0] == "watch":  # the script writes to the real output
            return run_apart(*arguments, **environment)
        return run_here(*arguments, **environment)

    def _passed_on(self, outcome, then):
        """The outcome after ``> FILE`` or ``| jq``."""
        if then is None:
            return outcome
        if then[0] == ">":
            (self.folder / then[1]).write_text(outcome.stdout, encoding="utf-8")
            return CompletedProcess(outcome.args, outcome.returncode, "", outcome.stderr)
        assert then == ["|", "jq"], f"only `| jq` and `> FILE` are known here, not {then}"
        document = json.dumps(json.loads(outcome.stdout), indent=2, ensure_ascii=False)
        return CompletedProcess(outcome.args, outcome.returncode, document, outcome.stderr)


def called(arguments):
    """What ``curl`` prints, for the few options that pages use."""
    parser = ArgumentParser(allow_abbrev=False)
    for flag in ("-s", "-N"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("-i", dest="with_head", action="store_true")
    parser.add_argument("-X", dest="method")
    parser.add_argument("-H", dest="headers", action="append", default=[])
    parser.add_argument("-d", dest="body")
    parser.add_argument("url")
    given = parser.parse_args(arguments)
    headers = {name.replace("-", "_"): value for name, value in (line.split(": ") for line in given.headers)}
    address = urlsplit(given.url)
    path = f"{address.path}?{address.query}" if address.query else address.path
    answer = Caller(address.port)(given.method or ("POST" if given.body else "GET"), path, given.body, **headers)
    head = f"HTTP/1.1 {answer.status}\n{answer.headers}" if given.with_head else ""
    return CompletedProcess(arguments, 0, head + answer.body.decode(), "")
