"""Makes training libraries use device ``jax``: Accelerate, Transformers, Lightning, ``torch.accelerator``.

Lightning has a registry of accelerators, but hard-codes the choice for ``"auto"`` and the device of an
unknown accelerator. So its module is patched when it is imported.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from typing import Any

import jax
import torch

from lazynb.frontends.import_hook import PatchingFinder
from lazynb.frontends.torch.device_backend import JaxDeviceModule

# ---- Accelerate with ``cpu=True`` --------------------------------------------------------------------------
# Accelerate uses the device named in the environment even for ``cpu=True``. So its module is patched at
# import to hide the name ``jax`` in that case.

DEVICE_VARIABLE = "ACCELERATE_TORCH_DEVICE"
_MODULE = "accelerate.state"
_original: Any = None


def _patch_accelerate(module: Any) -> None:
    global _original
    original = _original = module.PartialState.__init__

    @functools.wraps(original)
    def init(self: Any, cpu: bool = False, **options: Any) -> None:
        named = (
            os.environ.pop(DEVICE_VARIABLE, None)
            if cpu and os.environ.get(DEVICE_VARIABLE) == "jax"
            else None
        )
        try:
            original(self, cpu, **options)
        finally:
            if named is not None:
                os.environ[DEVICE_VARIABLE] = named

    module.PartialState.__init__ = init


_state_finder = PatchingFinder(_MODULE.__eq__, _patch_accelerate)


def install_accelerate_state() -> None:
    """Makes ``cpu=True`` select the CPU."""
    _state_finder.install()


def uninstall_accelerate_state() -> None:
    """Undoes :func:`install_accelerate_state`."""
    global _original
    _state_finder.uninstall()
    if _original is not None:
        sys.modules[_MODULE].PartialState.__init__ = _original  # type: ignore[attr-defined]
        _original = None


_PACKAGES = "lightning.pytorch", "pytorch_lightning"
_CONNECTOR = ".trainer.connectors.accelerator_connector"
_NAME = "jax"
_changed: list[tuple[Any, Any, Any]] = []
_is_enabled = False


def _accelerator(package: str) -> Any:
    base: Any = importlib.import_module(package + ".accelerators").Accelerator

    class JaxAccelerator(base):  # type: ignore[misc]
        """Device ``jax``."""

        def setup_device(self, device: torch.device) -> None:
            """Does nothing."""

        def teardown(self) -> None:
            """Does nothing."""

        def get_device_stats(self, device: Any) -> dict[str, Any]:
            return dict(torch.accelerator.memory_stats(device))

        @staticmethod
        def parse_devices(devices: Any) -> int:
            return 1

        @staticmethod
        def get_parallel_devices(devices: Any) -> list[torch.device]:
            return [torch.device(_NAME, 0)]

        @staticmethod
        def auto_device_count() -> int:
            return 1

        @staticmethod
        def is_available() -> bool:
            return _is_enabled

        @staticmethod
        def name() -> str:
            return _NAME

    return JaxAccelerator


def _patch_lightning(module: Any) -> None:
    package = module.__name__.removesuffix(_CONNECTOR)
    kind, connector = _accelerator(package), module._AcceleratorConnector
    module.AcceleratorRegistry.register(_NAME, kind, description=kind.__doc__, override=True)
    choose, strategy = connector.__dict__["_choose_auto_accelerator"], connector._choose_strategy

    def chosen(self: Any) -> Any:
        if isinstance(self.accelerator, kind):
            return module.SingleDeviceStrategy(device=torch.device(_NAME, 0))
        return strategy(self)

    _changed.append((connector, choose, strategy))
    connector._choose_auto_accelerator = staticmethod(lambda: _NAME)
    connector._choose_strategy = chosen


_finder = PatchingFinder({package + _CONNECTOR for package in _PACKAGES}.__contains__, _patch_lightning)


def install_lightning_device() -> None:
    """Registers device ``jax`` with Lightning."""
    global _is_enabled
    _is_enabled = True
    _finder.install()


def uninstall_lightning_device() -> None:
    """Undoes :func:`install_lightning_device`. The name stays registered, as an unavailable device."""
    global _is_enabled
    _is_enabled = False
    _finder.uninstall()
    while _changed:
        connector, choose, strategy = _changed.pop()
        connector._choose_auto_accelerator, connector._choose_strategy = choose, strategy


# ---- ``torch.accelerator`` and the device variable ---------------------------------------------------------
# PyTorch reads memory figures from the device's allocator, which only C++ can register. Accelerate and the
# ``Trainer`` of Transformers do not support devices written in Python, but read the name of an unknown device
# from the environment.

_originals: dict[str, Any] = {}
_set_environment = False


def _stats(device: Any = None) -> dict[str, Any]:
    """Current and peak bytes in use, in the format of PyTorch's allocators."""
    figures = {"current": JaxDeviceModule.memory_allocated(), "peak": JaxDeviceModule.max_memory_allocated()}
    return {"allocated_bytes": {"all": figures}, "reserved_bytes": {"all": dict(figures)}}


def _memory_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes. If the device reports no limit, the total is the machine's memory."""
    limit = (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if limit is None else int(limit)
    return max(0, total - JaxDeviceModule.memory_allocated()), total


def _no_op(device: Any = None) -> None:
    """Does nothing: JAX keeps the figures, and holds no memory that it could release."""


_FUNCTIONS = {
    "_accelerator_isAllocatorInitialized": lambda: True,
    "_accelerator_emptyCache": _no_op,
    "_accelerator_emptyHostCache": _no_op,
    "_accelerator_getDeviceStats": _stats,
    "_accelerator_resetAccumulatedStats": _no_op,
    "_accelerator_resetPeakStats": _no_op,
    "_accelerator_getMemoryInfo": _memory_info,
    "_accelerator_synchronizeDevice": JaxDeviceModule.synchronize,
}


def install_accelerator() -> None:
    """Patches ``torch.accelerator``, and names device ``jax`` to training libraries."""
    global _set_environment
    for name, function in _FUNCTIONS.items():
        if hasattr(torch._C, name):
            _originals[name] = getattr(torch._C, name)
            setattr(torch._C, name, function)
    _set_environment = DEVICE_VARIABLE not in os.environ
    if _set_environment:
        os.environ[DEVICE_VARIABLE] = "jax"
    install_accelerate_state()
    install_lightning_device()


def uninstall_accelerator() -> None:
    """Undoes :func:`install_accelerator`."""
    while _originals:
        name, original = _originals.popitem()
        setattr(torch._C, name, original)
    if _set_environment:
        os.environ.pop(DEVICE_VARIABLE, None)
    uninstall_accelerate_state()
    uninstall_lightning_device()
