from histories import History


def entry(action, address, size):
    return {"action": action, "addr": address, "size": size}


def test_requests_are_numbered_and_frees_name_them():
    history = History()
    history.catch_up([entry("alloc", 7, 100), entry("alloc", 8, 200), entry("free_requested", 7, 100)])
    assert history.actions == [100, 200, -1]


def test_an_address_that_comes_again_is_another_request():
    history = History()
    history.catch_up([entry("alloc", 7, 100), entry("free_requested", 7, 100), entry("alloc", 7, 50)])
    history.catch_up([*[entry("alloc", 0, 0)] * 3, entry("free_requested", 7, 50)])
    assert history.actions == [100, -1, 50, -2]


def test_what_was_read_is_not_read_again():
    history, entries = History(), [entry("alloc", 7, 100)]
    history.catch_up(entries)
    history.actions.append(["reset"])
    history.catch_up([*entries, entry("free_requested", 7, 100)])
    assert history.actions == [100, ["reset"], -1]


def test_requests_that_failed_and_segments_are_kept_and_all_else_is_not():
    history = History()
    history.catch_up(
        [
            entry("segment_alloc", 4096, 2**21),
            entry("segment_map", 8192, 2**21),
            {"action": "oom", "device_free": 5, "size": 300},
            entry("free_completed", 7, 100),
            entry("free_requested", 9, 100),  # from before the history
        ]
    )
    assert (history.actions, history.segment_addresses) == ([["failed", 300]], [4096])
