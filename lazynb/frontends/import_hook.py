"""Modules of other packages that are changed when they are imported."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


class PatchingFinder(importlib.abc.MetaPathFinder):
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


# ---- Libraries that get NumPy's own arrays when they are called -------------------------------------------
# Most libraries convert what they are given with ``np.asarray``. These ask whether it is a ``numpy.ndarray``
# and otherwise do something else, or are written in C: pandas looks a mask up as labels, Matplotlib takes the
# rows of a matrix for its columns. So their public functions and methods convert each :class:`MutableArray`
# among their arguments first, which is one trace break.

MODULES = frozenset(
    """pandas pandas.api.typing pandas.core.indexing polars pyarrow pyarrow.lib PIL.Image cv2 torch
    matplotlib.axes._axes mpl_toolkits.mplot3d.axes3d""".split()
)
PACKAGES = frozenset("seaborn statsmodels skimage xarray bokeh joblib".split())
"""With all of their modules."""

_TESTS = frozenset({"tests", "testing", "conftest"})


def needs_ndarrays(name: str) -> bool:
    """Whether the functions of the module ``name`` convert their arguments."""
    parts = name.split(".")
    return name in MODULES or (parts[0] in PACKAGES and _TESTS.isdisjoint(parts))


@functools.cache
def install() -> None:
    """Begins to watch what is imported, and changes what is imported already."""
    PatchingFinder(needs_ndarrays, _convert_module).install()


def _convert_module(module: ModuleType) -> None:
    from lazynb.frontends.numpy.argument_conversion import convert_arguments_of

    convert_arguments_of(module)
