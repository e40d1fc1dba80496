"""MemoryMark finds the GPU memory that training wastes, proves it and hands over the fix.

    import memorymark as mm

    result = mm.analyze(mm.Request(model="bert", recipe=mm.Recipe(optimizer="adamw")))
    print(result.max_batch_size, result.recommended, result.speedup)

Importing the package imports no torch; the first analysis does, in a process of its own.
"""

from memorymark.advice import Advice
from memorymark.analysis import Analysis
from memorymark.api import advise, analyze, analyze_all_gpus, measure, predict
from memorymark.client import Client
from memorymark.comparison import Comparison
from memorymark.cost import Usage
from memorymark.errors import (
    CannotPredictError,
    DoesNotFitError,
    HistoryError,
    MemoryMarkError,
    QueueFullError,
    ServerError,
    StoppedError,
    UsageError,
    WorkerError,
)
from memorymark.question import Question
from memorymark.recipe import Recipe
from memorymark.request import Request
from memorymark.script import BatchSize, max_batch_size
from memorymark.sweep import Sweep
from memorymark.target import Target
from memorymark.trial import Breakdown, Trial
from memorymark.version import __version__
from memorymark.workload import Workload

__all__ = [
    "Advice",
    "Analysis",
    "BatchSize",
    "Breakdown",
    "CannotPredictError",
    "Client",
    "Comparison",
    "DoesNotFitError",
    "HistoryError",
    "MemoryMarkError",
    "Question",
    "QueueFullError",
    "Recipe",
    "Request",
    "ServerError",
    "StoppedError",
    "Sweep",
    "Target",
    "Trial",
    "Usage",
    "UsageError",
    "WorkerError",
    "Workload",
    "__version__",
    "advise",
    "analyze",
    "analyze_all_gpus",
    "max_batch_size",
    "measure",
    "predict",
]
