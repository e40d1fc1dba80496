import pytest

from memorymark.catalog import find_gpu
from memorymark.catalog.links import link_between, link_within
from memorymark.prediction.timing.communication import ALL_REDUCE, GATHER, Message, Sharing, links_of, seconds_of
from memorymark.question.recipe import Recipe

H100, A10 = find_gpu("h100"), find_gpu("a10")
ONE_MACHINE = Recipe(gpus=8, strategy="fsdp")
TWO_MACHINES = Recipe(gpus=16, nodes=2, strategy="fsdp")
GIGABYTE = 10**9


def test_a_large_message_takes_its_bytes_over_the_link():
    link = link_within(H100)
    seconds = seconds_of(Message(GATHER, GIGABYTE), ONE_MACHINE, H100, reached=1.0)

    assert seconds == pytest.approx(GIGABYTE * 7 / 8 / link.bytes_per_second, rel=0.05)
    assert seconds_of(Message(ALL_REDUCE, GIGABYTE), ONE_MACHINE, H100) > 1.9 * seconds


def test_messages_between_machines_take_the_slower_link():
    within, between = (seconds_of(Message(GATHER, GIGABYTE), one, H100) for one in (ONE_MACHINE, TWO_MACHINES))

    assert between > 5 * within
    assert links_of(ONE_MACHINE, H100) == ("NVLink 4",)
    assert links_of(TWO_MACHINES, H100) == ("NVLink 4", "InfiniBand 400 Gb/s")
    assert links_of(ONE_MACHINE, A10) == ("PCI Express 4",)


def test_gpus_of_a_machine_share_its_ethernet():
    assert link_between(A10, 8).bytes_per_second == link_between(A10, 1).bytes_per_second / 8


def test_hsdp_gathers_within_a_machine_and_adds_up_between_machines():
    recipe = Recipe(gpus=16, nodes=2, strategy="hsdp")
    gather, add = (seconds_of(Message(kind, GIGABYTE), recipe, H100) for kind in (GATHER, ALL_REDUCE))

    assert gather == seconds_of(Message(GATHER, GIGABYTE), ONE_MACHINE, H100)
    assert add > 5 * gather


def test_talking_hides_behind_computing_but_for_the_longest_message():
    sharing = Sharing({"backward": [Message(GATHER, GIGABYTE)] * 10}, ONE_MACHINE, H100)
    each = seconds_of(Message(GATHER, GIGABYTE), ONE_MACHINE, H100)

    assert sharing.time({"backward": 1.0}).together == pytest.approx(1 + each)
    assert sharing.time({"backward": each}).together == pytest.approx(10 * each)
    assert sharing.time({"backward": 1.0}, overlaps=False).together == pytest.approx(1 + 10 * each)


def test_updates_wait_for_what_is_sent():
    sharing = Sharing({"optimizer": [Message(GATHER, GIGABYTE)]}, ONE_MACHINE, H100)

    assert sharing.time({"optimizer": 1.0}).together == sharing.time({"optimizer": 1.0}, overlaps=False).together


def test_one_gpu_sends_nothing():
    time = Sharing({}, Recipe(), H100).time({"forward": 1.0, "backward": 2.0})
    assert (time.together, time.talking) == (3.0, 0.0)


def test_gpus_wait_for_those_that_share_their_layers():
    recipe = Recipe(gpus=16, nodes=2, tensor_parallel=8, strategy="fsdp")
    inside, gather = Message("all_reduce", GIGABYTE, in_layers=True), Message(GATHER, GIGABYTE)
    awaited, beside = (seconds_of(one, recipe, H100, reached=1.0) for one in (inside, gather))
    sharing = Sharing({"backward": [inside, inside, gather, gather]}, recipe, H100)

    assert awaited == pytest.approx(2 * GIGABYTE * 7 / 8 / link_within(H100).bytes_per_second, rel=0.05)
    assert beside == pytest.approx(GIGABYTE / 2 / link_between(H100, 8).bytes_per_second, rel=0.05)
    assert sharing.time({"backward": 1.0}, reached=1.0).together == pytest.approx(1 + 2 * awaited + beside)
