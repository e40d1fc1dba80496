"""Results made up by hypothesis, each of which could have been found."""

from hypothesis import strategies as st

from memorymark.catalog import Price, all_gpus
from memorymark.question.changes import CHANGES
from memorymark.question.recipe import Recipe
from memorymark.question.request import OwnRequest, Request
from memorymark.question.target import Target
from memorymark.question.usage import Usage
from memorymark.results.advice import Advice
from memorymark.results.analysis import Analysis
from memorymark.results.comparison import Comparison
from memorymark.results.lengths import Sweep
from memorymark.results.option import Fault, Refused, TrainingOption
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Breakdown, Failure, Trial

BATCH_SIZES, EITHER = st.integers(1, 4096), st.booleans()
SIZES = st.integers(0, 2**40)
POSITIVE = st.floats(1e-3, 1e6)
WORDS = st.text(max_size=12)
INTERVALS = st.dictionaries(WORDS, st.tuples(POSITIVE, POSITIVE), max_size=2)


def breakdowns():
    return st.builds(Breakdown, weights_bytes=SIZES, activations_bytes=SIZES, context_bytes=SIZES)


def trials(batch_size=BATCH_SIZES, fits=EITHER):
    failures = st.builds(
        Failure, st.sampled_from(["memory", "limit"]), WORDS, st.none() | SIZES, free_bytes=st.none() | SIZES
    )
    return st.builds(
        Trial,
        batch_size=batch_size,
        fits=fits,
        source=st.sampled_from(["measured", "predicted"]),
        steps=st.integers(0, 9),
        peak_allocated_bytes=SIZES,
        peak_reserved_bytes=SIZES,
        device_bytes=SIZES,
        resting_bytes=SIZES,
        allocator_retries=st.integers(0, 3),
        breakdown=st.none() | breakdowns(),
        samples_per_second=st.none() | POSITIVE,
        step_seconds=st.none() | POSITIVE,
        step_seconds_spread=st.none() | st.floats(0, 1),
        failure=st.none() | failures,
        intervals=st.none() | INTERVALS,
    )


def infos():
    return st.builds(
        ProbeInfo,
        device_kind=st.sampled_from(["cuda", "mps", "cpu"]),
        device_name=st.sampled_from([all_gpus()[0].name, all_gpus()[-1].name, "a stranger"]),
        total_bytes=st.integers(1, 2**40),
        capacity_bytes=st.integers(1, 2**40),
        capped=st.booleans(),
        parameters=SIZES,
        trainable_parameters=st.none() | SIZES,
        source=st.sampled_from(["measured", "predicted"]),
        unknown_operations=st.lists(WORDS, max_size=2).map(tuple),
        weights_dtype=st.sampled_from(["", "fp32", "bf16"]),
        optimizer=st.sampled_from(["", "Lion"]),
        sample=WORDS,
        small=st.booleans(),
        versions=st.dictionaries(WORDS, WORDS, max_size=2),
        seconds=st.dictionaries(WORDS, POSITIVE, max_size=2),
    )


def requests():
    named = st.builds(
        Request,
        model=st.just("bert"),
        seq_len=st.sampled_from([None, 128]),
        recipe=st.builds(Recipe, precision=st.sampled_from(["fp32", "bf16"]), lora=st.integers(0, 64)),
        target=st.builds(Target, gpu=st.sampled_from([None, "a10"])),
    )
    return named | st.builds(OwnRequest.from_name, WORDS, st.just(Recipe()), st.just(Target()))


def prices():
    return st.none() | st.builds(Price, POSITIVE, WORDS, st.none() | WORDS, WORDS)


@st.composite
def analyses(draw):
    """Sizes up to a maximum fit, larger ones do not."""
    sizes = draw(st.lists(st.integers(1, 64), min_size=1, max_size=4, unique=True))
    maximum = draw(st.sampled_from(sizes))
    return Analysis(
        request=draw(requests()),
        info=draw(infos()),
        trials=[draw(trials(st.just(size), st.just(size <= maximum))) for size in sizes],
        max_batch_size=maximum,
        current_batch_size=draw(st.integers(1, 64)),
        margin=draw(st.floats(0, 0.5)),
        usage=draw(st.builds(Usage, hours_per_run=POSITIVE, people=st.integers(1, 9))),
        price=draw(prices()),
        seconds=draw(st.dictionaries(WORDS, POSITIVE, max_size=2)),
    )


def comparisons():
    ids = st.sampled_from([gpu.id for gpu in all_gpus()])
    return st.builds(Comparison, requests(), st.dictionaries(ids, analyses(), max_size=2))


@st.composite
def sweeps(draw):
    """At least one length fits."""
    found = draw(st.dictionaries(st.integers(1, 4096), analyses(), min_size=1, max_size=2))
    too_long = draw(st.sets(st.integers(5000, 6000), max_size=1))
    return Sweep(draw(requests()), tuple(draw(st.permutations([*found, *too_long]))), found)


def changes():
    return st.lists(st.sampled_from(sorted(CHANGES)), min_size=1, max_size=2, unique=True).map(tuple)


@st.composite
def options(draw):
    """It was predicted, measured, or both."""
    predicted, measured = draw(st.sampled_from([(True, False), (False, True), (True, True)]))
    fitting = trials(fits=st.just(True))
    return TrainingOption(
        changes=draw(changes()),
        recipe=draw(st.builds(Recipe, precision=st.sampled_from(["fp32", "bf16"]))),
        batch_size=draw(st.integers(1, 64)),
        accumulation_steps=draw(st.integers(1, 4)),
        seq_len=draw(st.none() | st.integers(1, 512)),
        max_batch_size=draw(st.none() | st.integers(1, 64)),
        predicted=draw(fitting) if predicted else None,
        measured=draw(fitting) if measured else None,
        at_todays_batch=draw(st.none() | POSITIVE),
    )


def advices():
    return st.builds(
        Advice,
        request=requests(),
        info=infos(),
        current_batch_size=st.integers(1, 64),
        options=st.lists(options(), max_size=2).map(tuple),
        refused=st.lists(st.builds(Refused, changes(), WORDS), max_size=1).map(tuple),
        faults=st.lists(st.builds(Fault, changes(), WORDS), max_size=1).map(tuple),
        predicted=st.none() | trials(fits=st.just(True)),
        measured=st.none() | trials(fits=st.just(True)),
        margin=st.floats(0, 0.5),
        usage=st.just(Usage()),
        price=prices(),
        seconds=st.dictionaries(WORDS, POSITIVE, max_size=2),
    )
