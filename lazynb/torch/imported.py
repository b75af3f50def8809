"""Modules of others that are changed when somebody imports them, as what they know of devices is fixed."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from typing import Any


class Finder(importlib.abc.MetaPathFinder):
    """Calls ``change`` with each of the modules ``names``: at once, or once it is imported."""

    def __init__(self, names: tuple[str, ...], change: Callable[[Any], None]) -> None:
        self._names = names
        self._change = change

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def and_change(module: Any) -> None:
            run(module)
            self._change(module)

        spec.loader.exec_module = and_change  # type: ignore[method-assign]
        return spec

    def install(self) -> None:
        """Begins to watch."""
        for name in self._names:
            if name in sys.modules:
                self._change(sys.modules[name])
        sys.meta_path.insert(0, self)

    def uninstall(self) -> None:
        """Watches no more. What was changed is the caller's to undo."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
