"""``lazynb.torch.enable()`` and its opposite."""

from __future__ import annotations

import threading
from typing import Any

import torch

from lazynb.torch import autograd, modules, moving, scopes, tensor
from lazynb.torch.backend import register
from lazynb.torch.dispatch import dispatch, trees

_lock = threading.Lock()
_library: Any = None


class Enabled:
    """What :func:`enable` returns: leave it alone, or use it as a context manager, which disables again what
    it enabled."""

    def __init__(self, was_on: bool) -> None:
        self._was_on = was_on

    def __enter__(self) -> Enabled:
        return self

    def __exit__(self, *_: Any) -> None:
        if not self._was_on:
            disable()

    def __repr__(self) -> str:
        return "PyTorch's device 'jax' is enabled" if is_enabled() else "PyTorch's device 'jax' is disabled"


def enable() -> Enabled:
    """Makes PyTorch's device ``jax``: ``model.to("jax")``, ``torch.randn(3, device="jax")``.

    What is done to tensors there reaches JAX: recorded while lazy mode is on (``with lazynb.lazy():``, or a
    notebook with the extension), else done at once. Tensors on other devices are left alone. Once more does
    nothing.

    Returns:
      An :class:`Enabled`, for ``with lazynb.torch.enable():``.
    """
    global _library
    with _lock:
        if _library is not None:
            return Enabled(True)
        register()
        tensor.set_dispatch(dispatch.dispatch)
        _library = torch.library.Library("aten", "IMPL")
        moving.install(_library)
        autograd.install()
        scopes.install()
        trees.install()
        modules.install()
    return Enabled(False)


def disable() -> None:
    """Puts PyTorch back: nothing new can be made on device ``jax``. Tensors that are there stay usable."""
    global _library
    with _lock:
        if _library is not None:
            _library._destroy()
            _library = None
            autograd.uninstall()
            scopes.uninstall()
            modules.uninstall()


def is_enabled() -> bool:
    """Whether device ``jax`` is there."""
    return _library is not None
