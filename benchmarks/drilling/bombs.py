"""Questions that ask for more memory than there is, and listings of large ones; what the processes hold meanwhile."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from drilling.calls import GONE
from drilling.judge import UNFINISHED, Outcome, Promise
from drilling.lane import busy_lane
from drilling.probe import health_probed
from drilling.questions import TINY, new_name, tiny
from drilling.server import Server, descendants, resident_mib, running

# The drill ends the server before it takes more than this from the machine.
MOST_GROWTH_MIB = 3072
# What listings may cost the server.
MOST_LISTING_MIB = 300
LARGE_CONFIGS, LISTINGS, LARGE_BYTES = 100, 8, 190 * 1024
BOMB_SECONDS = 60.0
BOMBS: dict[str, dict[str, object]] = {
    "num_labels 1e9": {"config": {**TINY, "num_labels": 10**9}},
    "vocab_size 1e9": {"config": {**TINY, "vocab_size": 10**9}},
    "hidden_size 1e7": {"config": {**TINY, "hidden_size": 10**7, "intermediate_size": 10**7}},
    "layers 1e6": {"config": {**TINY, "num_hidden_layers": 10**6}},
    "audio_seconds 2e7": {"config": {"model_type": "wav2vec2"}, "audio_seconds": 20_000_000, "seq_len": None},
    "seq_len 2e9": {"seq_len": 2_000_000_000},
}


class Scale(threading.Thread):
    """Weighs the server and its workers all the time, and ends the server if they grow too much together."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._server, self._enough = server, threading.Event()
        self.peaks: dict[str, int] = defaultdict(int)
        self.first_mib = self._weigh()
        self.is_aborted = False

    def run(self) -> None:
        """Weighs until it is told that it is enough."""
        while not self._enough.wait(0.05):
            if self._weigh() - self.first_mib > MOST_GROWTH_MIB:
                self.is_aborted = True
                self._server.kill()
                return

    def stop(self) -> None:
        """No more weighing."""
        self._enough.set()
        self.join()

    def _weigh(self) -> int:
        weights = {pid: resident_mib(pid) for pid in descendants(self._server.pid)}
        server_mib = resident_mib(self._server.pid)
        self.peaks["server"] = max(self.peaks["server"], server_mib)
        self.peaks["workers"] = max([self.peaks["workers"], *weights.values()])
        return server_mib + sum(weights.values())


def memory_bombs(*options: str) -> Outcome:
    """The drill: one bomb after the other, on a server that is started again where a bomb ended it."""
    outcome = Outcome("memory bombs", ", ".join(BOMBS), count=len(BOMBS))
    with running(*options) as server:
        for name, bomb in BOMBS.items():
            if not server.is_running:
                server.must_start()
            scale = Scale(server)
            scale.start()
            began, state, sentence = time.monotonic(), "the server had to be ended", ""
            with suppress(*GONE):
                state, sentence = _exploded(server, bomb)
            scale.stop()
            peaks = f"server {scale.peaks['server']:,} MiB, worker {scale.peaks['workers']:,} MiB"
            outcome.notes.append(f"{name}: {state} after {time.monotonic() - began:.1f} s; {peaks}. {sentence}".strip())
            outcome.promises += [
                Promise(f"{name} took more than {MOST_GROWTH_MIB} MiB", not scale.is_aborted),
                Promise(f"{name} is still {state}", state not in UNFINISHED),
            ]
        after = server.call("POST", "/analyze", tiny(new_name())) if server.is_running else None
        is_fine = after is not None and after.status == 200
        outcome.promises.append(Promise("the next job is not answered", is_fine))
        outcome.statuses = server.call.statuses
    return outcome


def _exploded(server: Server, bomb: dict[str, object]) -> tuple[str, str]:
    """How a question ended, and what was said about it."""
    answer = server.call("POST", "/jobs", {**tiny(new_name(), time_limit=BOMB_SECONDS), **bomb})
    if answer.status != 202:
        return f"refused with {answer.status}", answer.document["error"]
    ended = server.call.finished(answer.document["job"]["id"], 2 * BOMB_SECONDS)
    return ended["state"], ended["error"] or ""


def large_listings() -> Outcome:
    """The drill: many large configs, then many listings of them at once."""
    # Of all that JSON can hold, this takes the most memory for its length once it is read.
    padding: list[list[object]] = [[]] * (LARGE_BYTES // len("[], "))
    with busy_lane() as (server, _):
        scale = Scale(server)
        scale.start()
        job_ids = []
        for _ in range(LARGE_CONFIGS):
            answer = server.call("POST", "/jobs", {**tiny(new_name()), "config": {**TINY, "padding": padding}})
            job_ids += [answer.document["job"]["id"]] if answer.status == 202 else []
        before_mib = scale.peaks["server"]
        with health_probed(server.port) as probed, ThreadPoolExecutor(LISTINGS) as listers:
            for _ in listers.map(lambda _: _list(server), range(3 * LISTINGS)):
                pass
        for job_id in job_ids:
            with suppress(*GONE):
                server.call("DELETE", f"/jobs/{job_id}")
        scale.stop()
        grown = scale.peaks["server"] - before_mib
        return Outcome(
            "large listings",
            f"{len(job_ids)} configs of {LARGE_BYTES // 1024} KiB, {3 * LISTINGS} listings, {LISTINGS} at a time",
            count=3 * LISTINGS,
            statuses=server.call.statuses + probed.statuses,
            milliseconds=probed.milliseconds,
            promises=[
                Promise("the server had to be ended", not scale.is_aborted),
                Promise(f"listings took {grown:,} MiB of the server's memory", grown <= MOST_LISTING_MIB),
                Promise(f"{LARGE_CONFIGS - len(job_ids)} configs refused", len(job_ids) == LARGE_CONFIGS),
            ],
            notes=[f"The server held {before_mib:,} MiB before the listings and {scale.peaks['server']:,} at most."],
        )


def _list(server: Server) -> None:
    with suppress(*GONE):
        server.call("GET", "/jobs?limit=500")
