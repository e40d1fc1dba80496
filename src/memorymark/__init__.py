"""MemoryMark finds the GPU memory that training wastes, proves it and hands over the fix.

    import memorymark as mm

    result = mm.analyze(mm.Request(model="bert", recipe=mm.Recipe(optimizer="adamw")))
    print(result.max_batch_size, result.recommended, result.speedup)

Importing the package does not import torch; the first analysis does, in its own process.
"""

from memorymark.api import advise, analyze, analyze_all_gpus, explain, matrix, measure, predict
from memorymark.client import Client
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
from memorymark.own_module import BatchSize, max_batch_size
from memorymark.question.question import Question
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.question.usage import Usage
from memorymark.render.on_demand import OnDemand
from memorymark.results.advice import Advice
from memorymark.results.analysis import Analysis
from memorymark.results.comparison import Comparison
from memorymark.results.explanation import Explanation
from memorymark.results.lengths import Sweep
from memorymark.results.matrix import Matrix
from memorymark.results.shown import show_with
from memorymark.results.trial import Breakdown, Trial
from memorymark.training.workload import Workload
from memorymark.version import __version__

__all__ = [
    "Advice",
    "Analysis",
    "BatchSize",
    "Breakdown",
    "CannotPredictError",
    "Client",
    "Comparison",
    "DoesNotFitError",
    "Explanation",
    "HistoryError",
    "Matrix",
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
    "explain",
    "matrix",
    "max_batch_size",
    "measure",
    "predict",
]

show_with(OnDemand())
