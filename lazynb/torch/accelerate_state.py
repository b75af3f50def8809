"""Accelerate's choice of a device, where the user asks for the CPU.

``lazynb.torch.accelerator`` names device ``jax`` in the environment, and Accelerate takes what is named there
even for ``cpu=True``. So it does not see the name then. Its module is changed when somebody imports it.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from typing import Any

NAME = "ACCELERATE_TORCH_DEVICE"
_MODULE = "accelerate.state"
_original: Any = None


def _change(module: Any) -> None:
    global _original
    original = _original = module.PartialState.__init__

    @functools.wraps(original)
    def init(self: Any, cpu: bool = False, **options: Any) -> None:
        named = os.environ.pop(NAME, None) if cpu and os.environ.get(NAME) == "jax" else None
        try:
            original(self, cpu, **options)
        finally:
            if named is not None:
                os.environ[NAME] = named

    module.PartialState.__init__ = init


class _Finder(importlib.abc.MetaPathFinder):
    """Changes the module once it was imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != _MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def and_change(module: Any) -> None:
            run(module)
            _change(module)

        spec.loader.exec_module = and_change  # type: ignore[method-assign]
        return spec


_finder = _Finder()


def install() -> None:
    """Lets ``cpu=True`` mean the CPU."""
    if _MODULE in sys.modules:
        _change(sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Undoes :func:`install`."""
    global _original
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    if _original is not None:
        sys.modules[_MODULE].PartialState.__init__ = _original  # type: ignore[attr-defined]
        _original = None
