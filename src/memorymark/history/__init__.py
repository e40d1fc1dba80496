"""The history: a database of every job with its events and its result."""

from memorymark.history.job import Job, JobEvent, new_job
from memorymark.history.listed import ListedJob
from memorymark.history.store import Store, default_url

__all__ = ["Job", "JobEvent", "ListedJob", "Store", "default_url", "new_job"]
