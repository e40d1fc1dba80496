"""Kill -9 of servers and workers at random moments, while callers ask, cancel, wait and listen."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import datetime
from http.client import HTTPConnection
from typing import Any

from drilling.calls import GONE, PATIENCE_SECONDS, Caller
from drilling.judge import UNFINISHED, Outcome, Promise, Record, Sent, damaged_streams, different_answers, losses
from drilling.probe import health_probed
from drilling.questions import new_name, tiny
from drilling.server import Server, running, workers

CALLERS, LISTENERS = 4, 6
MOST_UNFINISHED = 12
SHARED_NAMES = 8
SETTLE_SECONDS = 180.0
SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 8.0


class Callers:
    """Threads that ask, cancel, wait and listen until they are told that it is enough."""

    def __init__(self, server: Server, seed: int) -> None:
        self.sent = Sent()
        self.streams: list[list[int]] = []
        self.posts = self.reused = self.shared = 0
        self._caller, self._seed = Caller(server.port), seed
        self._lock = threading.Lock()
        self._enough = threading.Event()
        self._open: list[str] = []
        work: list[tuple[Callable[[random.Random], None], int]] = [(self._ask, CALLERS), (self._listen, LISTENERS)]
        self._threads = [
            threading.Thread(target=self._repeat, args=[what, number], daemon=True)
            for what, count in work
            for number in range(count)
        ]
        self._threads.append(threading.Thread(target=self._repeat, args=[self._clear, 0], daemon=True))

    @property
    def statuses(self) -> Any:
        """What was answered, counted."""
        return self._caller.statuses

    def __enter__(self) -> Callers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join(2 * PATIENCE_SECONDS)

    def _repeat(self, work: Callable[[random.Random], None], number: int) -> None:
        chance = random.Random(f"{self._seed} {work.__name__} {number}")
        while not self._enough.is_set():
            try:
                work(chance)
            except GONE:  # the server is down, or went down in the middle of it
                time.sleep(0.5)

    def _ask(self, chance: random.Random) -> None:
        with self._lock:
            is_full = len(self._open) >= MOST_UNFINISHED
        if is_full:
            time.sleep(0.1)
            return
        kind = chance.choice(["distinct", "distinct", "shared", "wait", "cancel"])
        if kind == "cancel":
            self._cancel(chance)
            return
        is_shared = kind == "shared"
        name = f"shared-{chance.randrange(SHARED_NAMES)}" if is_shared else new_name()
        if not is_shared:
            with self._lock:
                self.sent.once.add(name)
        answer = self._caller("POST", "/analyze" if kind == "wait" else "/jobs", tiny(name))
        document = answer.document
        with self._lock:
            self.posts += 1
            self.shared += is_shared
            if answer.status in (200, 202) or "job_id" in document:
                job_id = document.get("job_id") or document["job"]["id"]
                self.reused += bool(document.get("reused"))
                self.sent.acknowledged.add(job_id)
                self._open.append(job_id)

            if answer.status == 500 and document.get("kind") == "worker":
                self._caller.statuses[500] -= 1  # whether its worker was killed for it is judged by the job

    def _cancel(self, chance: random.Random) -> None:
        with self._lock:
            job_id = chance.choice(self._open) if self._open else None
            self.sent.cancelled |= {job_id} if job_id else set()
        if job_id:
            self._caller("DELETE", f"/jobs/{job_id}")

    def _clear(self, _: random.Random) -> None:
        """Takes what has ended off the list of what has not."""
        for job_id in list(self._open):
            if self._caller.job(job_id)["state"] not in UNFINISHED:
                with self._lock:
                    self._open.remove(job_id)
        time.sleep(0.5)

    def _listen(self, chance: random.Random) -> None:
        """Hears of one job to its end, over as many connections as it takes."""
        with self._lock:
            job_id = chance.choice(self._open) if self._open else None
        if job_id is None:
            time.sleep(0.2)
            return
        heard: list[int] = []
        is_over = False
        while not is_over and not self._enough.is_set():
            try:
                is_over = listen(self._caller.port, job_id, heard)
            except GONE:
                time.sleep(0.2)
        with self._lock:
            self.streams.append(heard)


def listen(port: int, job_id: str, heard: list[int]) -> bool:
    """Adds the numbers of the events that come; whether the last was among them."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)) as connection:
        connection.request("GET", f"/jobs/{job_id}/events", headers={"Last-Event-ID": str(len(heard))})
        response = connection.getresponse()
        if response.status != 200:
            return response.status in (204, 404)
        for line in response:
            if line.startswith(b"data: "):
                event = json.loads(line.removeprefix(b"data: "))
                heard.append(event["id"])
                if event["event"] in ("result", "error"):
                    return True
    return False


def random_kills(minutes: float, seed: int = 5001) -> Outcome:
    """The drill."""
    chance, left_behind = random.Random(seed), 0
    with running() as server:
        server.call.finished(server.call.document("POST", "/jobs", tiny("first"))["job"]["id"])
        ends_at = time.monotonic() + 60 * minutes
        with health_probed(server.port) as probed, Callers(server, seed) as callers:
            victims = ["server", "worker", "worker"]
            while time.monotonic() < ends_at:
                time.sleep(chance.uniform(SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS))
                if not victims:
                    victims = chance.sample(["server", "worker", "worker"], 3)
                if victims.pop() == "worker":
                    with suppress(ProcessLookupError, IndexError):  # none is there just now
                        worker = chance.choice(workers(server.pid))
                        callers.sent.worker_kills.append(time.time())
                        os.kill(worker, signal.SIGKILL)
                    continue
                callers.sent.server_kills.append(time.time())
                left_behind += len(server.kill())
                server.must_start()
        records, answers = settled(server)
        is_well = server.call.is_well()
        server.stop()
        with closing(sqlite3.connect(server.database)) as database:
            checked = database.execute("PRAGMA integrity_check").fetchone()[0]
    sent = callers.sent
    different = different_answers(answers)
    damaged = damaged_streams(callers.streams)
    kills = f"{len(sent.server_kills)} kills of the server, {len(sent.worker_kills)} of workers"
    return Outcome(
        "random kills",
        f"{minutes:g} min: {kills}, {callers.posts} questions answered or in line, {len(callers.streams)} listeners",
        count=len(sent.acknowledged),
        losses=losses(sent, records),
        statuses=callers.statuses,
        milliseconds=probed.milliseconds,
        promises=[
            Promise(f"{damaged} streams with a gap or twice the same", damaged == 0),
            Promise(f"{len(different)} questions with two answers", not different, ", ".join(different)),
            Promise(f"{left_behind} workers left behind", left_behind == 0),
            Promise("the database is damaged", checked == "ok", checked),
            Promise("not healthy afterwards", is_well),
        ],
        notes=[f"{callers.shared} questions were asked before by others; {callers.reused} were answered at once."],
    )


def settled(server: Server) -> tuple[list[Record], list[tuple[str, Any]]]:
    """Every job of the history once nothing waits or runs, or as it is after a long while; and what was answered."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        queue = server.call.document("GET", "/health")["queue"]
        if queue["waiting"] + queue["running"] == 0:
            break
        time.sleep(0.5)
    records, answers = [], []
    for listed in server.call.all_jobs():
        events = tuple((event["id"], event["event"]) for event in server.call.events(listed["id"]))
        records.append(
            Record(
                listed["id"],
                listed["model_name"],
                listed["state"],
                seconds_of(listed["started_at"]),
                seconds_of(listed["finished_at"]),
                listed["error_kind"],
                events,
            )
        )
        if listed["state"] == "done" and listed["headline"]:
            answers.append((listed["model_name"], listed["headline"]))
    return records, answers


def seconds_of(iso_time: str | None) -> float | None:
    """A time of the HTTP interface as the clock's."""
    return None if iso_time is None else datetime.fromisoformat(iso_time).timestamp()
