import pytest

from memorymark.watch.detector import Detector
from memorymark.watch.hooks import install, uninstall


@pytest.fixture
def detector():
    detector = Detector()
    install(detector)
    yield detector
    uninstall(detector)
