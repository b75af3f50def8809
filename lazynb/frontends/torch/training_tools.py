"""Lightning's accelerator for device ``jax``, which ``Trainer(accelerator="auto")`` takes, or ``"jax"``.

Lightning has a registry of accelerators. Which one ``"auto"`` is, and on which device one that it does not
know trains, stands in its own code, so that is changed when somebody imports it.
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

# ---- Accelerate's choice of a device, where the user asks for the CPU -------------------------------------
# ``lazynb.frontends.torch.training_tools`` names device ``jax`` in the environment, and Accelerate takes what
# is named there even for ``cpu=True``. So it does not see the name then. Its module is changed when somebody
# imports it.

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
    """Lets ``cpu=True`` mean the CPU."""
    _state_finder.install()


def uninstall_accelerate_state() -> None:
    """Undoes :func:`install`."""
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
    """A class of accelerators, as that package wants them."""
    base: Any = importlib.import_module(package + ".accelerators").Accelerator

    class JaxAccelerator(base):  # type: ignore[misc]
        """Device ``jax``."""

        def setup_device(self, device: torch.device) -> None:
            """Nothing is to be done."""

        def teardown(self) -> None:
            """Nothing is to be done."""

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
    """Lets Lightning find device ``jax``."""
    global _is_enabled
    _is_enabled = True
    _finder.install()


def uninstall_lightning_device() -> None:
    """Undoes :func:`install`. The name stays in the registry, as a device that is not available."""
    global _is_enabled
    _is_enabled = False
    _finder.uninstall()
    while _changed:
        connector, choose, strategy = _changed.pop()
        connector._choose_auto_accelerator, connector._choose_strategy = choose, strategy


# ---- What training tools ask of the accelerator: its memory (``torch.accelerator``), and which device it is
# PyTorch asks the device's allocator, which only C++ can register. Accelerate and the ``Trainer`` of
# Transformers know no device that is written in Python; one that they do not know they take from the
# environment.

_originals: dict[str, Any] = {}
_set_environment = False


def _stats(device: Any = None) -> dict[str, Any]:
    """As PyTorch's allocators say it: bytes in use now and at most, under two names."""
    figures = {"current": JaxDeviceModule.memory_allocated(), "peak": JaxDeviceModule.max_memory_allocated()}
    return {"allocated_bytes": {"all": figures}, "reserved_bytes": {"all": dict(figures)}}


def _memory_info(device: Any = None) -> tuple[int, int]:
    """Bytes that are free, and all. Where the device does not say, as many as the machine has."""
    limit = (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if limit is None else int(limit)
    return max(0, total - JaxDeviceModule.memory_allocated()), total


def _no_op(device: Any = None) -> None:
    """JAX keeps the figures itself, and no memory that could be given back."""


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
    """Answers for device ``jax``, and names it to tools that look for a device."""
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
    """Undoes :func:`install`."""
    while _originals:
        name, original = _originals.popitem()
        setattr(torch._C, name, original)
    if _set_environment:
        os.environ.pop(DEVICE_VARIABLE, None)
    uninstall_accelerate_state()
    uninstall_lightning_device()
