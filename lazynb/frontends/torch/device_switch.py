"""``lazynb.torch.enable()`` and ``disable()``: install and remove all patches of PyTorch."""

from __future__ import annotations

import threading
from typing import Any

import torch

from lazynb.frontends.torch import (
    autocast,
    device_backend,
    file_loading,
    module_calls,
    module_parameters,
    native_dispatch,
    random_generator,
    tensor_copies,
    tensor_subclasses,  # noqa: F401  # defines ``Tensor.as_subclass``
    torch_pytrees,
    torch_tensor,
    training_tools,
)
from lazynb.frontends.torch.device_backend import register
from lazynb.frontends.torch.dispatch import dispatcher, sparse_operations, tensor_layout
from lazynb.frontends.torch.graphs import dynamo
from lazynb.frontends.torch.ops import (  # noqa: F401  # each registers its operations
    argument_checks,
    arithmetic_ops,
    composite_ops,
    embedding_ops,
    histogram_ops,
    image_resampling,
    index_ops,
    linalg_ops,
    loss_ops,
    normalization_ops,
    optimizer_ops,
    random_ops,
    recurrent_ops,
    special_functions,
    tensor_factories,
    window_ops,
)

_lock = threading.Lock()
_library: Any = None


class Enabled:
    """The result of :func:`enable`, which can be used as a context manager.

    On exit, the context manager disables the device, unless it was enabled before.
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
    """Enables PyTorch's device ``jax``: ``model.to("jax")``, ``torch.randn(3, device="jax")``.

    Operations on its tensors are executed by JAX. They are recorded while lazy mode is on (``with
    lazynb.lazy():``, or a notebook with the extension), and run immediately otherwise. Tensors on other
    devices are not affected. A second call does nothing.

    Returns:
      An :class:`Enabled`, for ``with lazynb.torch.enable():``.
    """
    global _library
    with _lock:
        if _library is not None:
            return Enabled(True)
        register()
        torch_tensor.set_dispatch(dispatcher.dispatch)
        native_dispatch.install()
        _library = torch.library.Library("aten", "IMPL")
        tensor_copies.install(_library)
        tensor_factories.install(_library)
        loss_ops.install(_library)
        composite_ops.install(_library)
        autocast.install(_library)
        device_backend.install()
        module_calls.install()
        torch_pytrees.install()
        module_parameters.install_module_patches()
        module_parameters.install_lazy_parameters()
        tensor_layout.install(_library)
        sparse_operations.install(_library)
        file_loading.install_file_loading(is_enabled)
        random_generator.install()
        file_loading.install_safe_open()
        dynamo.install_compile_backend()
        training_tools.install_accelerator()
    return Enabled(False)


def disable() -> None:
    """Disables device ``jax``: no new tensor can be made on it. Existing tensors stay usable."""
    global _library
    with _lock:
        if _library is not None:
            _library._destroy()
            _library = None
            autocast.uninstall()
            device_backend.uninstall()
            module_calls.uninstall()
            module_parameters.uninstall_module_patches()
            module_parameters.uninstall_lazy_parameters()
            random_generator.uninstall()
            file_loading.uninstall()
            dynamo.uninstall_compile_backend()
            training_tools.uninstall_accelerator()


def is_enabled() -> bool:
    """Whether device ``jax`` is enabled."""
    return _library is not None
