"""Connects detectors to torch: its optimizers, data loaders and autocast report to them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import dataloader

from memorymark.watch.detector import Detector

_detectors: list[Detector] = []
_undo: list[Callable[[], None]] = []


def install(detector: Detector) -> None:
    """Starts reporting this process's training to the detector."""
    _detectors.append(detector)
    if len(_detectors) > 1:
        return
    for handle in (
        register_optimizer_step_pre_hook(_updating),
        register_optimizer_step_post_hook(_updated),
    ):
        _undo.append(handle.remove)
    _undo.append(_replace(dataloader._BaseDataLoaderIter, "__next__", _watched_next))
    _undo.append(_replace(torch.amp.autocast_mode.autocast, "__enter__", _watched_enter))
    _undo.append(_replace(torch.autograd, "backward", _watched_backward))
    _undo.append(_replace(torch, "save", _watched_save))


def uninstall(detector: Detector) -> None:
    """Stops reporting to the detector; after the last one, torch is restored."""
    if detector in _detectors:
        _detectors.remove(detector)
    if not _detectors:
        while _undo:
            _undo.pop()()


def _forget_all() -> None:
    for detector in _detectors:
        detector.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _updating(_optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
    closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
    if not callable(closure):
        _tell_updating()
        return None

    # The step begins with its own forward and backward pass, as in Lightning.
    @functools.wraps(closure)
    def watched(*given: Any, **named: Any) -> Any:
        try:
            loss = closure(*given, **named)
        except BaseException as error:
            _leave(error)
            raise
        _tell_updating()
        return loss

    if "closure" in kwargs:
        return args, {**kwargs, "closure": watched}
    return (args[0], watched, *args[2:]), kwargs


def _tell_updating() -> None:
    for detector in _detectors:
        detector.updating()


def _updated(optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
    for detector in _detectors:
        detector.updated(optimizer)


for hook in (_updating, _updated):
    setattr(hook, "_torchdynamo_disable", True)  # noqa: B010 - never compiled


def _watched_next(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def __next__(self: Any) -> Any:  # noqa: N807 - it stands in for one
        for detector in _detectors:
            detector.loading(self)
        batch = None
        try:
            batch = original(self)
        except BaseException as error:
            _leave(error)
            raise
        finally:
            for detector in _detectors:
                detector.loaded(batch, self)
        return batch

    return __next__


def _watched_enter(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def __enter__(self: Any) -> Any:  # noqa: N807 - it stands in for one
        entered = original(self)
        for detector in _detectors:
            detector.entered_autocast(self.device, self.fast_dtype, enabled=self._enabled)
        return entered

    return __enter__


def _watched_backward(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> None:
        for detector in _detectors:
            detector.backward_begins()
        try:
            original(*args, **kwargs)
        except BaseException as error:
            _leave(error)
            raise
        for detector in _detectors:
            detector.backward_ended()

    return backward


def _watched_save(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def save(*args: Any, **kwargs: Any) -> None:
        for detector in _detectors:
            detector.saving()
        try:
            original(*args, **kwargs)
        except BaseException as error:
            _leave(error)
            raise
        finally:
            for detector in _detectors:
                detector.saved()

    return save


def _leave(error: BaseException) -> None:
    """Removes our frames from the traceback, which belongs to the script."""
    error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ else None


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> Callable[[], None]:
    original = getattr(owner, name)
    setattr(owner, name, make(original))
    return lambda: setattr(owner, name, original)
