"""``lazynb.torch.enable()`` and its opposite."""

from __future__ import annotations

import threading
from typing import Any

import torch

from lazynb.torch import (
    accelerated,
    accelerator,
    autocast,
    autograd,
    compiled,
    dense,
    generator,
    loading,
    modules,
    moving,
    safe_open,
    scopes,
    shapeless,
    subclasses,  # noqa: F401  # a method of tensors
    tensor,
)
from lazynb.torch.backend import register
from lazynb.torch.dispatch import dispatch, made_on_host, masks, on_sparse, trees  # noqa: F401  # it registers operations
from lazynb.torch.ops import (  # noqa: F401  # they register their operations
    bags,
    chances,
    convolution,
    counting,
    ctc,
    demanded,
    drawing,
    elementwise,
    factories,
    fourier,
    fused,
    gradients,
    grids,
    grouped,
    linalg,
    margins,
    norms,
    pools,
    prims,
    recurrent,
    running_statistics,
    scattering,
    special,
    upsampling,
    whole,
)

_lock = threading.Lock()
_library: Any = None


class Enabled:
    """The result of :func:`enable`. Ignore it, or use it as a context manager.

    At its end, the context manager disables again what was enabled.
    """

    def __init__(self, was_on: bool) -> None:
        self._was_on = was_on

    def __enter__(self) -> Enabled:
        return self

    def __exit__(self, *_: Any) -> None:
        if not self._was_on:
            disable()

    def __repr__(self) -> str:
        state = "enabled" if is_enabled() else "disabled"
        return f"PyTorch's device 'jax' is {state}"


def enable() -> Enabled:
    """Makes PyTorch's device ``jax``: ``model.to("jax")``, ``torch.randn(3, device="jax")``.

    Operations on tensors there reach JAX. They are recorded while lazy mode is on (``with lazynb.lazy():``,
    or a notebook with the extension), and carried out at once otherwise. Tensors on other devices are left
    alone. A second call does nothing.

    Returns:
      An :class:`Enabled`, for ``with lazynb.torch.enable():``.
    """
    global _library
    with _lock:
        if _library is not None:
            return Enabled(True)
        register()
        tensor.set_dispatch(dispatch.dispatch)
        accelerated.install()
        _library = torch.library.Library("aten", "IMPL")
        moving.install(_library)
        made_on_host.install(_library)
        ctc.install(_library)
        whole.install(_library)
        autocast.install(_library)
        autograd.install()
        scopes.install()
        trees.install()
        modules.install()
        shapeless.install()
        dense.install(_library)
        on_sparse.install(_library)
        loading.install(is_enabled)
        generator.install()
        safe_open.install()
        compiled.install()
        accelerator.install()
    return Enabled(False)


def disable() -> None:
    """Puts PyTorch back: no new tensor can be made on device ``jax``. The tensors there stay usable."""
    global _library
    with _lock:
        if _library is not None:
            _library._destroy()
            _library = None
            autocast.uninstall()
            autograd.uninstall()
            scopes.uninstall()
            modules.uninstall()
            shapeless.uninstall()
            generator.uninstall()
            safe_open.uninstall()
            compiled.uninstall()
            accelerator.uninstall()


def is_enabled() -> bool:
    """Whether device ``jax`` is enabled."""
    return _library is not None
