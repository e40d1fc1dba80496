"""A probe in a worker process: what it asks a worker that takes the place of another."""

from dataclasses import replace

from advices import INFO, trial
from memorymark.probe.remote import RemoteProbe
from memorymark.request import Request
from memorymark.target import Target


class Unclean:
    """Stands for workers that leave memory behind after each trial, and notes what they are asked."""

    def __init__(self):
        self.asked = []

    def take(self):
        return self

    def give_back(self, worker):
        pass

    def kill(self):
        pass

    def call(self, name, arguments, _):
        self.asked.append((name, arguments))
        if name == "measure":
            return {"trial": trial(1.0, arguments["batch_size"]).to_dict(), "clean": False}
        return replace(INFO, device_name=str(arguments.get("gpu"))).to_dict()


def test_a_worker_that_takes_the_place_of_another_goes_on_with_its_gpu():
    workers = Unclean()
    with RemoteProbe(Request(model="bert", target=Target(gpu="a10")), workers=workers) as probe:
        probe.retarget("h100")
        probe.measure(2)
        probe.measure(4)
        probe.retarget("t4")

    opened = [arguments["request"]["target"]["gpu"] for name, arguments in workers.asked if name == "open"]
    assert opened == ["a10", "h100", "t4"]
