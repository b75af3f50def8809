"""Lightning's accelerator for device ``jax``, which ``Trainer(accelerator="auto")`` takes, or ``"jax"``.

Lightning has a registry of accelerators. Which one ``"auto"`` is, and on which device one that it does not
know trains, stands in its own code, so that is changed when somebody imports it.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch

from lazynb.frontends.imported import Finder

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


def _change(module: Any) -> None:
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


_finder = Finder({package + _CONNECTOR for package in _PACKAGES}.__contains__, _change)


def install() -> None:
    """Lets Lightning find device ``jax``."""
    global _is_enabled
    _is_enabled = True
    _finder.install()


def uninstall() -> None:
    """Undoes :func:`install`. The name stays in the registry, as a device that is not available."""
    global _is_enabled
    _is_enabled = False
    _finder.uninstall()
    while _changed:
        connector, choose, strategy = _changed.pop()
        connector._choose_auto_accelerator, connector._choose_strategy = choose, strategy
