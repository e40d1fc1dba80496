"""Every failure a caller may see, as data: a code, a message that says what to do next, and an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from memorymark.messages import OTHER_NAMES, Dialect, Message, as_message, brief, plain
from memorymark.suggestions import Proposal as Proposal  # part of every error
from memorymark.suggestions import Suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memorymark.results.probe_info import ProbeInfo
    from memorymark.results.trial import Trial

# What is wrong with a request.
UsageCode = Literal[
    "unknown_model",  # not in the catalog, on disk or in a library
    "unknown_gpu",
    "unknown_option",  # a keyword, flag or field that does not exist
    "unknown_choice",  # not one of the values that the option can have
    "unknown_job",
    "unknown_sweep",
    "missing",  # a required option was not given
    "wrong_type",
    "out_of_range",
    "malformed",  # not a valid revision, address, config or the like
    "conflict",  # two options that exclude each other
    "not_applicable",  # the option does not apply to this model, command or device
    "no_device",  # this machine does not have the device
    "not_installed",  # a required library is not installed
    "not_readable",  # a file, a folder or a model on Hugging Face that cannot be read
    "not_writable",
    "bad_config",  # no model can be built from the config.json
    "bad_workload",  # the caller's code raised, or returned the wrong thing
    "unauthorized",  # the service requires a token
    "not_found",  # the service has nothing at this address
]
# How a job of the service can fail; a cancelled job has no kind.
ErrorKind = Literal["usage", "does_not_fit", "cannot_predict", "worker", "time_limit", "stopped", "internal"]
# Why work was stopped early.
StopCode = Literal["cancelled", "interrupted", "time_limit"]
Code = Literal[
    "failed",
    "usage",
    "not_allowed",
    "too_large_for_worker",
    "does_not_fit",
    "launch_limit",
    "worker",
    "worker_lost",
    "cannot_predict",
    "history",
    "unwritable",
    "queue_full",
    "stopped",
    "server",
    "internal",  # a bug in the service
    UsageCode,
    StopCode,
]


class MemoryMarkError(Exception):
    """The base of all errors: a message that a person can act on, and the same facts as data.

    ``message`` says what is wrong; ``hint``, if it is separate, says what to do about it; together they make the
    sentence. ``code`` is for programs. ``field`` is the option at fault, ``given`` its value, ``allowed`` what it may
    be: a list of choices, or bounds such as ``{"minimum": 0, "below": 1}``. ``suggestions`` are changes to the
    question that may help, the best first. ``trials`` are those that finished before the failure. ``detail`` is what a
    library or a model said; it is for the operator and for logs, and is never sent to other callers.
    """

    exit_code = 1
    code: Code = "failed"
    suggestions: Sequence[Proposal] | None

    def __init__(
        self,
        message: str | Message,
        *,
        hint: str | Message = "",
        code: Code | Literal[""] = "",
        field: str = "",
        given: Any = None,
        allowed: Any = None,
        proposals: Sequence[Proposal] = (),
        detail: str = "",
    ) -> None:
        self.message = as_message(message)
        self.hint = as_message(hint) if hint else None
        self.code = code or type(self).code
        self.field, self.given, self.allowed, self.suggestions = field, given, allowed, list(proposals)
        self.detail = detail
        self.trials: list[Trial] = []
        super().__init__(self.sentence)

    @property
    def sentence(self) -> str:
        """The message and the hint in Python's terms, without the detail."""
        return self.said_in("python")

    @property
    def words(self) -> Message:
        """The message and the hint as one message, in no particular dialect."""
        if self.hint is None:
            return self.message
        return Message("{what:clause}; {hint:clause}.", what=self.message, hint=self.hint)

    @property
    def reason(self) -> str:
        """The message without the hint, for reports that give other advice."""
        return Message("{what:clause}.", what=self.message).said_in("python")

    def said_in(self, dialect: Dialect, *, with_detail: bool = False) -> str:
        """Returns the sentence in a dialect; ``with_detail`` appends the detail after a colon."""
        said = self.words
        if with_detail and self.detail:
            said = Message("{what:clause}: {detail}.", what=said, detail=self.detail.rstrip("."))
        return said.said_in(dialect)

    def __str__(self) -> str:
        """Returns the sentence and the detail in Python's terms."""
        return self.said_in("python", with_detail=True)

    def to_dict(self, dialect: Dialect = "python", *, with_detail: bool = False) -> dict[str, Any]:
        """Returns the error in JSON types, options named as in a dialect; ``from_dict`` reads it back.

        ``error`` is the sentence, ready to show; ``message`` and ``hint`` can be rendered in any dialect.
        """
        names = _other_names(self.code, dialect)
        suggestions = None if self.suggestions is None else [one.to_dict() for one in self.suggestions]
        document = {
            "error": self.said_in(dialect, with_detail=with_detail),
            "code": self.code,
            "field": names.get(self.field, self.field) or None,
            "given": brief(self.given),
            "allowed": plain(self.allowed),
            "suggestions": suggestions and [{**one, "change": _renamed(one["change"], names)} for one in suggestions],
            "message": self.message.to_dict(),
            "hint": self.hint.to_dict() if self.hint is not None else None,
        }
        return {**document, "detail": self.detail} if with_detail else document

    @classmethod
    def from_dict(
        cls, data: dict[str, Any], dialect: Dialect = "python", *, otherwise: type[MemoryMarkError] | None = None
    ) -> MemoryMarkError:
        """Reads the error that ``to_dict`` wrote in a dialect; ``otherwise`` is the class for unknown codes.

        Raises ``KeyError``, ``TypeError``, ``AttributeError`` or ``ValueError`` if ``data`` is not an error.
        """
        names = {there: here for here, there in _other_names(data["code"], dialect).items()}
        kind = CLASSES.get(data["code"]) or otherwise or MemoryMarkError
        error = kind(
            Message.from_dict(data["message"]),
            hint=Message.from_dict(data["hint"]) if data.get("hint") else "",
            code=data["code"],
            field=names.get(data["field"], data["field"] or ""),
            given=data["given"],
            allowed=data["allowed"],
            detail=data.get("detail", ""),
        )
        if isinstance(error, DoesNotFitError):
            error.shortfall_bytes = data.get("shortfall_bytes")
        found = data["suggestions"]
        error._take(found and [{**one, "change": _renamed(one["change"], names)} for one in found])
        error.said_in("python")  # raises if a template is invalid
        return error

    def _take(self, suggestions: list[dict[str, Any]] | None) -> None:
        """Sets the suggestions from a document."""
        self.suggestions = [Proposal.from_dict(one) for one in suggestions or ()]


class UsageError(MemoryMarkError):
    """The request itself is wrong: an unknown model, a negative size, a device this machine does not have."""

    code: Code = "usage"
    exit_code = 2


class NotAllowedError(UsageError):
    """The operator of the service does not allow this."""

    code: Code = "not_allowed"


class TooLargeForWorkerError(UsageError):
    """The question needs more host memory than a worker may use."""

    code: Code = "too_large_for_worker"


class DoesNotFitError(MemoryMarkError):
    """Not even a batch of one trains on the target.

    ``info`` describes the device and the model, if they were known by then. ``suggestions`` are changes that were
    checked to fit, the best first; an empty list means that none was found, ``None`` that none was searched for.
    """

    code: Code = "does_not_fit"
    exit_code = 3
    suggestions: Sequence[Suggestion] | None

    def __init__(
        self,
        message: str | Message,
        shortfall_bytes: int | None = None,
        *,
        info: ProbeInfo | None = None,
        suggestions: Sequence[Suggestion] | None = None,
        **about: Any,
    ) -> None:
        super().__init__(message, **about)
        self.shortfall_bytes, self.info = shortfall_bytes, info
        self.suggestions = None if suggestions is None else list(suggestions)

    def to_dict(self, dialect: Dialect = "python", *, with_detail: bool = False) -> dict[str, Any]:
        """Returns the error in JSON types, with how much memory is missing."""
        return {**super().to_dict(dialect, with_detail=with_detail), "shortfall_bytes": self.shortfall_bytes}

    def _take(self, suggestions: list[dict[str, Any]] | None) -> None:
        self.suggestions = None if suggestions is None else [Suggestion.from_dict(one) for one in suggestions]


class LaunchLimitError(DoesNotFitError):
    """A kernel reached a launch limit at every batch: more memory would not help."""

    code: Code = "launch_limit"


class WorkerError(MemoryMarkError):
    """The process that runs the training steps was killed, crashed or hung."""

    code: Code = "worker"


class WorkerLostError(WorkerError):
    """The process that runs the training steps died, or had to be killed, before it answered."""

    code: Code = "worker_lost"


class CannotPredictError(MemoryMarkError):
    """The step has operations whose memory or shapes are only known by running it."""

    code: Code = "cannot_predict"


class HistoryError(MemoryMarkError):
    """The database of past analyses cannot be read or written."""

    code: Code = "history"


class UnwritableError(HistoryError):
    """One record cannot be written, and a retry would not help; others can."""

    code: Code = "unwritable"


class QueueFullError(MemoryMarkError):
    """The service's queue is full."""

    code: Code = "queue_full"


class StoppedError(MemoryMarkError):
    """The work was stopped early: it was cancelled, ran out of time, or the service shut down."""

    code: Code = "stopped"


class ServerError(MemoryMarkError):
    """The service does not answer, or answers something unexpected."""

    code: Code = "server"


# The class for each code, for reading documents back.
CLASSES: dict[Code, type[MemoryMarkError]] = {
    **{
        kind.code: kind
        for kind in (
            MemoryMarkError,
            UsageError,
            NotAllowedError,
            TooLargeForWorkerError,
            DoesNotFitError,
            LaunchLimitError,
            WorkerError,
            WorkerLostError,
            CannotPredictError,
            HistoryError,
            UnwritableError,
            QueueFullError,
            StoppedError,
            ServerError,
        )
    },
    **dict.fromkeys(get_args(UsageCode), UsageError),
    **dict.fromkeys(get_args(StopCode), StoppedError),
    "internal": ServerError,
}


def of_kind(kind: str | None, sentence: str, suggestions: Sequence[dict[str, Any]] | None = None) -> MemoryMarkError:
    """Returns the error of a job that an older version recorded as a kind, a sentence and suggestions."""
    if kind == "does_not_fit":
        found = None if suggestions is None else [Suggestion.from_dict(one) for one in suggestions]
        return DoesNotFitError(sentence, suggestions=found)
    kinds: dict[str | None, tuple[type[MemoryMarkError], Code]] = {
        "usage": (UsageError, "usage"),
        "cannot_predict": (CannotPredictError, "cannot_predict"),
        "worker": (WorkerError, "worker"),
        "time_limit": (StoppedError, "time_limit"),
        "internal": (ServerError, "internal"),
    }
    sort, code = kinds.get(kind, (StoppedError, "stopped"))
    return sort(sentence, code=code)


def _other_names(code: Code, dialect: Dialect) -> dict[str, str]:
    """Returns the names that documents in a dialect have for options; unknown options keep the name given."""
    return OTHER_NAMES["http"] if dialect == "http" and code != "unknown_option" else {}


def _renamed(change: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in change.items()}
