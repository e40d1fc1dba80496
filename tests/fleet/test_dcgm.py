"""What exporters of DCGM say, in the forms of their versions, without a server."""

import pytest

from memorymark.fleet.ranking import rank
from memorymark.fleet.sources import dcgm

END = 1_800_000_000
HOUR, STEP = 3600, 300


class Answers:
    """Answers queries with series: labels, and a value for each query that has one of these words."""

    url = "http://prometheus"

    def __init__(self, *series):
        self.series, self.asked = series, []

    def over_time(self, query, *, start, end, step):
        self.asked.append((query, start, end, step))
        times = range(start, end + 1, step)
        return [(labels, dict.fromkeys(times, value)) for labels, value in self._values(query)]

    def at(self, query, when):
        return [(labels, {when: value}) for labels, value in self._values(query)]

    def _values(self, query):
        for labels, values in self.series:
            for word, value in values.items():
                if query.startswith(word):
                    yield labels, value


BUSY, USED, TOTAL = "avg_over_time(DCGM_FI_DEV_GPU_UTIL", "max_over_time", "last_over_time(DCGM_FI_DEV_FB_USED"
IDLE = {BUSY: 0.0, "stddev": 0.0, USED: 500.0, TOTAL: 81000.0}


def gpu(index, name="NVIDIA A100-SXM4-80GB", **labels):
    return {"gpu": str(index), "modelName": name, **labels}


def jobs(*series):
    read = dcgm.recorded(Answers(*series), HOUR, now=END)
    return {job.id: job for job in rank(read.holds)}, read


@pytest.mark.parametrize("label", ["Hostname", "hostname", "exported_hostname", "node"])
def test_a_host_is_found_under_each_of_its_names(label):
    found, _ = jobs((gpu(0, **{label: "g1", "instance": "10.0.0.1:9400"}), IDLE))

    assert found["g1:0"].hosts == ("g1",)


def test_a_host_without_a_name_is_its_address():
    assert list(jobs((gpu(0, instance="10.0.0.1:9400"), IDLE))[0]) == ["10.0.0.1:0"]


@pytest.mark.parametrize(
    "labels",
    [
        {"pod": "p", "namespace": "n", "container": "c"},
        {"pod_name": "p", "pod_namespace": "n", "container_name": "c"},
        {"exported_pod": "p", "exported_namespace": "n", "pod": "dcgm-exporter-1", "namespace": "gpu-operator"},
    ],
)
def test_a_pod_is_found_under_each_of_its_names(labels):
    found, _ = jobs((gpu(0, Hostname="k1", **labels), IDLE))

    assert (found["n/p"].holder, found["n/p"].owner) == ("kubernetes", "n")


def test_the_exporters_own_pod_holds_nothing():
    own = {"pod": "x", "namespace": "gpu-operator", "container": "nvidia-dcgm-exporter"}
    found, read = jobs((gpu(0, Hostname="k1", **own), IDLE), (gpu(1, Hostname="k1", pod="p", namespace="n"), IDLE))

    assert list(found) == ["n/p"]
    assert read.free_seconds == HOUR


def test_two_jobs_on_one_gpu_share_its_time():
    found, _ = jobs(*((gpu(0, Hostname="g1", hpc_job=job), IDLE) for job in ("7", "8")))

    assert [found[job].gpu_hours for job in ("7", "8")] == [0.5, 0.5]


def sampled(job, *counts):
    """A job's series with so many samples in each of its windows, the last of which ends now."""
    times = range(END - STEP * (len(counts) - 1), END + 1, STEP)
    values = {when: count for when, count in zip(times, counts, strict=True) if count}
    return gpu(0, Hostname="g1", hpc_job=job), values


def test_a_part_of_a_window_counts_by_its_samples():
    """One job follows another in the middle of a window, then a third holds the GPU for a minute."""
    series = [sampled("7", 20, 20, 5, 0, 0), sampled("8", 0, 0, 15, 20, 20), sampled("9", 0, 0, 0, 0, 4)]

    class Counted(Answers):
        def over_time(self, query, *, start, end, step):
            wanted = {"count": lambda count: count, "avg_over_time(DCGM_FI_DEV_GPU_UTIL": lambda _: 0.0}
            for word, value in wanted.items():
                if query.startswith(word):
                    return [
                        (labels, {when: value(count) for when, count in values.items()}) for labels, values in series
                    ]
            return []

    found = {job.id: job for job in rank(dcgm.recorded(Counted(), HOUR, now=END).holds)}

    assert found["7"].gpu_hours == pytest.approx(2.25 * STEP / HOUR)
    assert found["8"].gpu_hours == pytest.approx((1.75 + 1 / 1.2) * STEP / HOUR)
    assert found["9"].gpu_hours == pytest.approx(0.2 / 1.2 * STEP / HOUR)
    assert [found[job].age_seconds for job in "789"] == [pytest.approx(part * STEP) for part in (2.25, 2.75, 0.2)]
    assert [found[job].verdict for job in "789"] == ["idle", "idle", "too_young"]


def test_two_servers_that_say_the_same_count_once():
    found, _ = jobs(*((gpu(0, Hostname="g1", hpc_job="7", replica=name), IDLE) for name in "ab"))

    assert (found["7"].gpu_hours, found["7"].gpus) == (1.0, 1)


def test_slices_of_a_gpu_are_apart_and_have_no_price():
    sliced = [(gpu(0, Hostname="g1", GPU_I_ID=part, GPU_I_PROFILE="1g.10gb"), IDLE) for part in ("7", "8")]
    found, read = jobs(*sliced)

    assert (list(found), read.devices) == (["g1:0/7", "g1:0/8"], 2)
    assert found["g1:0/7"].usd_per_hour is None


def test_blank_values_are_none():
    found, _ = jobs((gpu(0, Hostname="g1"), {**IDLE, USED: 9.2e18}), (gpu(1, Hostname="g1"), {BUSY: 9.2e16}))

    assert found["g1:0"].used_bytes is None
    assert "g1:1" not in found


def test_windows_cover_the_time_that_was_asked_for():
    answers = Answers((gpu(0, Hostname="g1"), IDLE))
    dcgm.recorded(answers, HOUR, now=END)

    [(query, start, end, step), *_] = answers.asked
    assert (start, end, step) == (END - HOUR + STEP, END, STEP)
    assert "[300s]" in query


@pytest.mark.parametrize(
    ("seconds", "step"), [(900, 300), (86_400, 300), (7 * 86_400, 1800), (366 * 86_400, 21_600 * 5)]
)
def test_a_longer_time_has_longer_windows(seconds, step):
    assert dcgm.step_for(seconds) <= step
    assert seconds / dcgm.step_for(seconds) <= dcgm.MOST_WINDOWS * 1.1
