"""Accelerate's choice of a device, where the user asks for the CPU.

``lazynb.torch.accelerator`` names device ``jax`` in the environment, and Accelerate takes what is named there
even for ``cpu=True``. So it does not see the name then. Its module is changed when somebody imports it.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

from lazynb.frontends.imported import Finder

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


_finder = Finder(_MODULE.__eq__, _change)


def install() -> None:
    """Lets ``cpu=True`` mean the CPU."""
    _finder.install()


def uninstall() -> None:
    """Undoes :func:`install`."""
    global _original
    _finder.uninstall()
    if _original is not None:
        sys.modules[_MODULE].PartialState.__init__ = _original  # type: ignore[attr-defined]
        _original = None
