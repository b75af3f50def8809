"""Backward passes on device ``jax`` run in the thread that asks for them.

PyTorch's autograd runs a device's backward pass in a thread of its own, but a lazy trace belongs to the
thread that records. So while device ``jax`` is enabled, autograd uses no threads of its own. The line and the
notebook cell of a backward operation are those of ``loss.backward()``.

An error in the middle of such a pass would end the process. While Python's error is set, C++ leaves the
scope of a stream and asks the device guard, in Python, for its type; with an error set that call fails, where
C++ allows no exception (PyTorch 2.13, ``exchangeStream`` in ``torch/csrc/acc/Module.cpp``). So the guard
takes the error away, and it is raised where the pass ends.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import jax
import torch

from lazynb.landmarks import landmarks, place
from lazynb.source import user_frame

_original: Any = None


class _Passes(threading.local):
    """The backward passes that run in this thread, the innermost last: each the errors that were taken."""

    def __init__(self) -> None:
        self.errors: list[list[BaseException]] = []


_passes = _Passes()


class DeviceGuard(torch._C._acc.DeviceGuard):  # type: ignore[misc]
    """What PyTorch asks for the type of device ``jax``."""

    def type_(self) -> Any:
        try:
            # With an error set, CPython refuses what a type gives: a SystemError with that error as cause.
            object()
        except SystemError as refusal:
            if not _passes.errors or refusal.__cause__ is None:
                raise
            _passes.errors[-1].append(refusal.__cause__)
        return torch._C._autograd.DeviceType.PrivateUse1


def _run_backward(*args: Any, **kwargs: Any) -> Any:
    """Runs a backward pass in the calling thread.

    Raises:
      BaseException: what an operation or a hook in it raised.
    """
    errors: list[BaseException] = []
    result = None
    _passes.errors.append(errors)
    here = sys._getframe()
    place(here, *user_frame(here))
    try:
        with torch.autograd.set_multithreading_enabled(False), jax.named_scope("backward"):
            result = _original(*args, **kwargs)
    except Exception:
        if not errors:
            raise
    finally:
        _passes.errors.pop()
        landmarks.pop(id(here), None)
    if errors:
        raise errors[0]
    return result


def install() -> None:
    """Lets backward passes run where they are asked for."""
    global _original
    _original = torch.autograd.graph._engine_run_backward
    torch.autograd.graph._engine_run_backward = _run_backward
    torch.autograd._engine_run_backward = _run_backward  # type: ignore[attr-defined]


def uninstall() -> None:
    """Undoes :func:`install`."""
    torch.autograd.graph._engine_run_backward = _original
    torch.autograd._engine_run_backward = _original  # type: ignore[attr-defined]
