"""PyTorch's autograd runs the backward pass of a device in a thread of its own; a lazy trace belongs to the
thread that records.

So while device ``jax`` is enabled, backward passes run in the thread that asked for them, and line and
notebook cell are those of ``loss.backward()``.
"""

from __future__ import annotations

from typing import Any

import jax
import torch

_NAME = "_engine_run_backward"
_before: Any = None


def _here(*args: Any, **kwargs: Any) -> Any:
    with torch.autograd.set_multithreading_enabled(False), jax.named_scope("backward"):
        return _before(*args, **kwargs)


def install() -> None:
    """Lets backward passes run where they are asked for."""
    global _before
    _before = torch.autograd.graph._engine_run_backward
    torch.autograd.graph._engine_run_backward = _here
    torch.autograd._engine_run_backward = _here  # type: ignore[attr-defined]


def uninstall() -> None:
    """Undoes :func:`install`."""
    torch.autograd.graph._engine_run_backward = _before
    torch.autograd._engine_run_backward = _before  # type: ignore[attr-defined]
