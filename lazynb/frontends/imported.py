"""Modules of other packages that are changed when they are imported."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from typing import Any


class Finder(importlib.abc.MetaPathFinder):
    """Calls ``change`` with each module that ``watches`` accepts by its name: at once, or once it is
    imported."""

    def __init__(self, watches: Callable[[str], bool], change: Callable[[Any], None]) -> None:
        self._watches = watches
        self._change = change

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not self._watches(name):
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
        for name, module in list(sys.modules.items()):
            if self._watches(name):
                self._change(module)
        sys.meta_path.insert(0, self)

    def uninstall(self) -> None:
        """Watches no more. What was changed is the caller's to undo."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
