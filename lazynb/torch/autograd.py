"""Backward passes on device ``jax`` run in the thread that asks for them.

PyTorch's autograd runs a device's backward pass in a thread of its own, but a lazy trace belongs to the
thread that records. So while device ``jax`` is enabled, autograd uses no threads of its own. The line and the
notebook cell of a backward operation are those of ``loss.backward()``.
"""

from __future__ import annotations

from typing import Any

import jax
import torch

_original: Any = None


def _run_backward(*args: Any, **kwargs: Any) -> Any:
    """Runs a backward pass in the calling thread."""
    with torch.autograd.set_multithreading_enabled(False), jax.named_scope("backward"):
        return _original(*args, **kwargs)


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
