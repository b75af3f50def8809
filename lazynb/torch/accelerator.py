"""What training tools ask of the accelerator: its memory (``torch.accelerator``), and which device it is.

PyTorch asks the device's allocator, which only C++ can register. Accelerate and the ``Trainer`` of
Transformers know no device that is written in Python; one that they do not know they take from the
environment.
"""

from __future__ import annotations

import os
from typing import Any

import jax
import torch

from lazynb.torch import accelerate_state, lightning_device
from lazynb.torch.accelerate_state import NAME
from lazynb.torch.backend import Module

_originals: dict[str, Any] = {}
_named = False


def _stats(device: Any = None) -> dict[str, Any]:
    """As PyTorch's allocators say it: bytes in use now and at most, under two names."""
    figures = {"current": Module.memory_allocated(), "peak": Module.max_memory_allocated()}
    return {"allocated_bytes": {"all": figures}, "reserved_bytes": {"all": dict(figures)}}


def _memory_info(device: Any = None) -> tuple[int, int]:
    """Bytes that are free, and all. Where the device does not say, as many as the machine has."""
    limit = (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if limit is None else int(limit)
    return max(0, total - Module.memory_allocated()), total


def _nothing(device: Any = None) -> None:
    """JAX keeps the figures itself, and no memory that could be given back."""


_FUNCTIONS = {
    "_accelerator_isAllocatorInitialized": lambda: True,
    "_accelerator_emptyCache": _nothing,
    "_accelerator_emptyHostCache": _nothing,
    "_accelerator_getDeviceStats": _stats,
    "_accelerator_resetAccumulatedStats": _nothing,
    "_accelerator_resetPeakStats": _nothing,
    "_accelerator_getMemoryInfo": _memory_info,
    "_accelerator_synchronizeDevice": Module.synchronize,
}


def install() -> None:
    """Answers for device ``jax``, and names it to tools that look for a device."""
    global _named
    for name, function in _FUNCTIONS.items():
        if hasattr(torch._C, name):
            _originals[name] = getattr(torch._C, name)
            setattr(torch._C, name, function)
    _named = NAME not in os.environ
    if _named:
        os.environ[NAME] = "jax"
    accelerate_state.install()
    lightning_device.install()


def uninstall() -> None:
    """Undoes :func:`install`."""
    while _originals:
        name, original = _originals.popitem()
        setattr(torch._C, name, original)
    if _named:
        os.environ.pop(NAME, None)
    accelerate_state.uninstall()
    lightning_device.uninstall()
