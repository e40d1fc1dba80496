from record_truth import with_recording


def rows(**seconds):
    return [{"batch_size": int(size[1:]), "seconds": value, "allocated": 0} for size, value in seconds.items()]


def test_each_sitting_adds_its_times():
    first = with_recording([], rows(b16=0.02, b64=0.05))
    second = with_recording(first, rows(b16=0.03, b32=0.04))
    assert second == [
        {"batch_size": 16, "recorded_seconds": [0.02, 0.03]},
        {"batch_size": 32, "recorded_seconds": [0.04]},
        {"batch_size": 64, "recorded_seconds": [0.05]},
    ]


def test_a_sitting_that_is_kept_twice_counts_once():
    once = with_recording([], rows(b16=0.0200001234))
    assert with_recording(once, rows(b16=0.0200001234)) == once
