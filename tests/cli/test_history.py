"""``memorymark history`` and ``memorymark compare``, and what ``memorymark analyze`` leaves in the history."""

import json
from contextlib import closing
from dataclasses import replace

import pytest

from memorymark.history import Store
from memorymark.history.recording import read_recording
from memorymark.results.comparison import Comparison
from memorymark.units import GIB, MIB
from support.advices import INFO, advice, option
from support.command_line import run_here
from support.kept_jobs import advised, analysis, asked, compared, done, failed

SMALL = ("analyze", "bert", "--small", "--gpu", "a10", "--seq-len", "16", "--quiet")


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """A history of four jobs, the oldest first."""
    url = f"sqlite:///{tmp_path_factory.mktemp('commands')}/history.db"
    store = Store(url)
    for job in (
        done(id="aaa000000000"),
        done(id="aab000000000", case="gpt2_fp32"),
        failed(id="fff000000000"),
        compared(id="ccc000000000"),
    ):
        store.add(job)
    store.close()
    return url


@pytest.fixture
def ask(database):
    return lambda *arguments: run_here(*arguments, MEMORYMARK_DATABASE=database)


def refused(result, said):
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: ")
    sentence, *commands = result.stderr.splitlines()
    assert said in sentence
    assert commands == [] or (commands[0] == "Try:" and all("memorymark" in line for line in commands[1:]))
    return True


def test_past_analyses_are_listed_latest_first(ask):
    result = ask("history")

    lines = [line for line in result.stdout.splitlines() if "00000" in line]
    shown = [line.split()[0] for line in lines]
    assert (result.returncode, result.stderr) == (0, "")
    assert [len(start) >= 6 for start in shown] == [True] * 4
    for start, job_id in zip(shown, ["ccc000000000", "fff000000000", "aab000000000", "aaa000000000"], strict=True):
        assert job_id.startswith(start)
    assert "failed" in lines[1]
    assert {"bert", "266", "1.42x"} <= set(lines[3].split())


def test_the_list_shows_all_of_a_job_in_a_narrow_terminal(tmp_path):
    url = f"sqlite:///{tmp_path}/history.db"
    lengths = run_here(*SMALL[:4], "a10", "--seq-len", "16,32", "--quiet", MEMORYMARK_DATABASE=url)

    listed = run_here("history", MEMORYMARK_DATABASE=url, COLUMNS="80").stdout

    assert lengths.returncode == 0
    assert "…" not in listed
    assert {"bert,", "16,", "32", "tokens", "fp32,", "AdamW", "a10,", "predicted"} <= set(listed.split())


def test_analyses_under_different_caps_are_told_apart_in_a_narrow_terminal(tmp_path):
    url = f"sqlite:///{tmp_path}/history.db"
    with closing(Store(url)) as store:
        for job_id, cap in (("aaa000000000", 8 * GIB), ("bbb000000000", 64 * MIB), ("ccc000000000", None)):
            job = done(id=job_id)
            request = job.asked["request"]
            target = {**request["target"], "memory_cap_bytes": cap}
            store.add(replace(job, asked={**job.asked, "request": {**request, "target": target}}))

    wide = run_here("history", MEMORYMARK_DATABASE=url).stdout.splitlines()
    narrow = run_here("history", MEMORYMARK_DATABASE=url, COLUMNS="80").stdout

    uncapped, smaller, larger = (line for line in wide if "00000" in line)
    assert "auto, 8.00 GiB cap, measured" in larger
    assert "auto, 64.0 MiB cap, measured" in smaller
    assert "cap" not in uncapped
    assert {"8.00", "64.0", "GiB", "MiB"} <= set(narrow.split())
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= 80


LONG_NAMES = ("HuggingFaceTB/SmolLM2-1.7B-Instruct-with-a-long-name", "timm:vit_base_patch16_224.augreg2_in21k_ft_in1k")


@pytest.mark.parametrize("columns", [200, 80, 60])
def test_names_are_whole_however_narrow_the_terminal_is(tmp_path, columns):
    url = f"sqlite:///{tmp_path}/history.db"
    with closing(Store(url)) as store:
        for number, name in enumerate(LONG_NAMES):
            store.add(asked(model=name, id=f"{number}aa000000000"))
        store.add(done(id="ccc000000000"))

    listed = run_here("history", MEMORYMARK_DATABASE=url, COLUMNS=str(columns)).stdout

    assert {*LONG_NAMES, "bert", "ccc00000", "266", "1.42x", "queued"} <= set(listed.split())
    assert "…" not in listed


def test_advice_is_listed_with_the_recipe_that_its_numbers_are_of(tmp_path):
    url = f"sqlite:///{tmp_path}/history.db"
    with closing(Store(url)) as store:
        compiled = option(("bf16", "compile"), None, measured=300.0)
        store.add(advised(advice(option(("bf16",), 200.0)), id="aaa000000000"))
        store.add(advised(advice(replace(compiled, max_batch_size=None), measured=100.0), id="bbb000000000"))
        store.add(advised(advice(), id="ccc000000000"))

    lines = run_here("history", MEMORYMARK_DATABASE=url).stdout.splitlines()

    nothing, run, predicted = (" ".join(line.split()[5:]) for line in lines if "00000" in line)
    assert predicted == "· fp32, AdamW → bf16, AdamW auto, predicted 100 64 2.00x"
    assert run == "· fp32, AdamW → bf16, AdamW auto, measured 64 3.00x"
    assert nothing == "· fp32, AdamW auto, no change, predicted"


def test_the_optimizer_that_a_workload_brings_is_listed(tmp_path):
    own = replace(analysis("bert_fp32"), info=replace(analysis("bert_fp32").info, optimizer="Lion"))
    info = replace(INFO, optimizer="Lion")
    url = f"sqlite:///{tmp_path}/history.db"
    with closing(Store(url)) as store:
        store.add(replace(done(id="aaa000000000"), result=own.to_dict()))
        store.add(replace(compared(id="bbb000000000"), result=Comparison(own.request, {"h200": own}).to_dict()))
        store.add(advised(advice(option(("bf16",), 200.0), info=info), id="ccc000000000"))

    listed = run_here("history", MEMORYMARK_DATABASE=url).stdout
    jobs = json.loads(run_here("history", "--json", MEMORYMARK_DATABASE=url).stdout)["jobs"]
    one = json.loads(run_here("history", "aaa", "--json", MEMORYMARK_DATABASE=url).stdout)

    assert "· fp32, Lion → bf16, Lion" in listed
    assert "AdamW" not in listed
    assert [job["recipe_words"] for job in (*jobs, one)] == ["fp32, Lion"] * 4
    assert all("optimizer" not in job["headline"] for job in (*jobs, one))


def test_the_list_as_json(ask):
    jobs = json.loads(ask("history", "--json").stdout)["jobs"]

    assert [job["id"] for job in jobs] == ["ccc000000000", "fff000000000", "aab000000000", "aaa000000000"]
    assert jobs[3]["headline"]["max_batch_size"] == 266
    assert jobs[1]["error"] == "it does not fit; try --precision bf16."


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (("--model", "gpt2"), ["aab000000000"]),
        (("--model", "google-bert/bert-base-uncased"), ["ccc000000000", "fff000000000", "aaa000000000"]),
        (("--limit", "2"), ["ccc000000000", "fff000000000"]),
        (("--model", "resnet"), []),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_the_list_is_cut_to_what_is_wanted(ask, options, ids):
    assert [job["id"] for job in json.loads(ask("history", *options, "--json").stdout)["jobs"]] == ids


def test_an_empty_history_says_how_to_begin(tmp_path):
    result = run_here("history", MEMORYMARK_DATABASE=f"sqlite:///{tmp_path}/new.db")

    assert result.returncode == 0
    assert "Nothing yet: `memorymark analyze bert` makes the first entry." in result.stdout


def test_one_analysis_is_shown_again_by_the_start_of_its_id(ask):
    report, document = ask("history", "aaa"), ask("history", "aaa", "--json")

    job = json.loads(document.stdout)
    assert (report.returncode, document.returncode, report.stderr) == (0, 0, "")
    assert "266" in report.stdout
    assert "NVIDIA H200" in report.stdout
    assert (job["id"], job["state"]) == ("aaa000000000", "done")
    assert job["result"] == json.loads(json.dumps(analysis("bert_fp32").to_dict()))


def test_a_comparison_is_shown_again(ask):
    result = ask("history", "ccc")

    assert result.returncode == 0
    assert "H200" in result.stdout
    assert "does not fit" in result.stdout


def test_a_failed_analysis_says_why_it_has_no_result(ask):
    assert refused(ask("history", "fff"), "job fff000000000 has no result")
    assert "it does not fit; try --precision bf16." in ask("history", "fff").stderr
    assert json.loads(ask("history", "fff", "--json").stdout)["error_kind"] == "does_not_fit"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("history", "zzz"), "the history has no job 'zzz'; `memorymark history` lists them."),
        (("history", "aa"), "several jobs begin with 'aa'; give more of the id."),
        (("history", "--model", "brt"), "unknown model 'brt'"),
        (("history", "--database", "nonsense"), "'nonsense' is not a database URL"),
        (("compare", "aaa"), "compare takes two or more jobs"),
        (("compare", "aaa", "zzz"), "the history has no job 'zzz'"),
        (("compare", "aaa", "aa"), "several jobs begin with 'aa'"),
        (("compare", "aaa", "fff"), "job fff000000000 has no result"),
        (("compare", "aaa", "ccc"), "job ccc000000000 already compares several"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_misuse_is_one_sentence_and_exit_code_2(ask, arguments, said):
    assert refused(ask(*arguments), said)


def test_two_analyses_are_put_side_by_side(ask):
    report, document = ask("compare", "aaa", "aab"), ask("compare", "aab", "aaa", "--json")

    rows = {line.strip()[:13]: line for line in report.stdout.splitlines()}
    analyses = json.loads(document.stdout)["analyses"]
    assert (report.returncode, document.returncode) == (0, 0)
    assert rows["maximum batch"].split()[-2:] == ["266", str(analyses["aab000000000"]["max_batch_size"])]
    assert list(analyses) == ["aab000000000", "aaa000000000"]
    assert analyses["aaa000000000"] == json.loads(json.dumps(analysis("bert_fp32").to_dict()))


def test_an_analysis_compared_with_itself_is_refused(ask):
    assert refused(ask("compare", "aaa", "aaa0"), "aaa000000000")


@pytest.fixture(scope="module")
def remembered(tmp_path_factory):
    """What analyze says, and the history that it leaves."""
    url = f"sqlite:///{tmp_path_factory.mktemp('remembered')}/history.db"
    said = [
        run_here(*SMALL, "--json", MEMORYMARK_DATABASE=url),
        run_here(*SMALL, "--json", "--memory-gib", "0.01", MEMORYMARK_DATABASE=url),
        run_here(*SMALL, "--json", "--no-history", MEMORYMARK_DATABASE=url),
    ]
    store = Store(url)
    jobs = [store.job(job.id) for job in store.jobs()]
    events = [store.events(job.id) for job in jobs]
    store.close()
    return said, jobs, events


def test_an_analysis_is_remembered_with_what_happened(remembered):
    said, jobs, events = remembered

    job, happened = jobs[-1], events[-1]
    assert (said[0].returncode, said[0].stderr) == (0, "")
    assert (job.origin, job.state, job.target_name) == ("cli", "done", "a10")
    assert job.result == json.loads(said[0].stdout)
    assert job.created_at <= job.started_at <= job.finished_at
    assert [event.number for event in happened] == list(range(1, len(happened) + 1))
    assert {event.event for event in happened[:-1]} == {"stage", "trial"}
    assert happened[-1].event == "result"


def test_what_was_predicted_without_a_word_of_the_gpu_is_remembered_for_the_one_it_is_of(tmp_path):
    url = f"sqlite:///{tmp_path}/history.db"
    asked = [word for word in SMALL if word not in ("--gpu", "a10")]
    run_here(*asked[:-2], "16,32", "--quiet", MEMORYMARK_DATABASE=url)
    run_here("advise", *asked[1:], MEMORYMARK_DATABASE=url)

    with closing(Store(url)) as store:
        remembered = [(job.kind, job.target_name) for job in store.jobs()]

    assert remembered == [("advice", "a10"), ("sweep", "a10")]


def test_a_failure_is_remembered_too(remembered):
    said, jobs, events = remembered

    job = jobs[0]
    assert said[1].returncode == 3
    assert (job.state, job.error_kind, job.result) == ("failed", "does_not_fit", None)
    assert job.error == json.loads(said[1].stdout)["error"]
    assert events[0][-1].data["error"] == job.error


def test_without_a_history_nothing_is_remembered(remembered):
    said, jobs, _ = remembered

    assert said[2].returncode == 0
    assert json.loads(said[2].stdout)["max_batch_size"] == jobs[-1].result["max_batch_size"]
    assert len(jobs) == 2


def test_a_history_that_cannot_be_written_costs_no_answer(tmp_path):
    (tmp_path / "file").write_text("")

    result = run_here(*SMALL, "--json", MEMORYMARK_DATABASE=f"sqlite:///{tmp_path}/file/history.db")

    assert result.returncode == 0
    assert json.loads(result.stdout)["model_name"] == "bert"
    assert result.stderr.startswith("Not kept: the history ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [("history",), ("compare", "aaa", "aab"), ("report", "aaa")])
def test_a_named_history_that_is_not_there_is_not_made(command, tmp_path):
    missing = tmp_path / "no" / "history.db"

    result = run_here(*command, "--database", f"sqlite:///{missing}")

    assert refused(result, f"there is no history in {missing}; leave --database out for your own.")
    assert not missing.parent.exists()


def test_more_than_a_list_can_hold_is_refused():
    result = run_here("history", "--limit", "99999999999999999999")

    assert result.returncode == 2
    assert "'--limit'" in result.stderr
    assert "10000" in result.stderr


def test_a_job_of_another_version_is_listed_and_costs_no_traceback(tmp_path):
    url = f"sqlite:///{tmp_path}/history.db"
    newer = done(id="ddd000000000")
    with closing(Store(url)) as store:
        store.add(done(id="aaa000000000"))
        store.add(replace(newer, asked={"plan": [1]}, result={"options": {"kind": "plan"}}))

    listed = run_here("history", MEMORYMARK_DATABASE=url)
    shown = run_here("history", "ddd", MEMORYMARK_DATABASE=url)
    as_json = run_here("history", "ddd", "--json", MEMORYMARK_DATABASE=url)

    assert (listed.returncode, "ddd00000" in listed.stdout, "aaa00000" in listed.stdout) == (0, True, True)
    assert (shown.returncode, shown.stdout, shown.stderr.count("\n")) == (1, "", 1)
    assert "another version of MemoryMark wrote job ddd000000000" in shown.stderr
    assert json.loads(as_json.stdout)["question"] == {"plan": [1]}


def test_a_job_is_recorded_into_a_file(ask, tmp_path):
    file = tmp_path / "run.json"
    result = ask("history", "aaa", "--record", str(file))

    assert (result.returncode, result.stdout) == (0, f"{file}\n")
    assert read_recording(file).outcome().to_dict() == analysis("bert_fp32").to_dict()


def test_a_program_learns_where_the_recording_is(ask, tmp_path):
    file = tmp_path / "run.json"
    result = ask("history", "aaa", "--record", str(file), "--json")

    assert json.loads(result.stdout) == {"kind": "recorded", "recording": str(file)}


def test_a_recording_needs_a_job_and_a_place(ask, tmp_path):
    assert refused(ask("history", "--record", "run.json"), "--record needs the job to record")
    assert refused(ask("history", "aaa", "--record", str(tmp_path)), "name another file with --record")
