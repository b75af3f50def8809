"""Import hooks: patch modules of other packages when they are imported, so that they accept our arrays."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


class PatchingFinder(importlib.abc.MetaPathFinder):
    """Import hook: calls ``change(module)`` for each module whose name ``watches`` accepts.

    Modules that are already imported are changed at :meth:`install`.
    """

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
        """Changes the modules that are already imported and starts watching imports."""
        for name, module in list(sys.modules.items()):
            if self._watches(name):
                self._change(module)
        sys.meta_path.insert(0, self)

    def uninstall(self) -> None:
        """Stops watching imports. The caller must undo the changes."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


# ---- Libraries that need ``numpy.ndarray`` arguments -------------------------------------------------------
# Most libraries call ``np.asarray`` on their arguments. The libraries below test for ``numpy.ndarray`` and
# otherwise behave differently, or are written in C: pandas looks a mask up as labels, Matplotlib swaps the
# rows and columns of a matrix. Their public functions and methods therefore convert each
# :class:`MutableArray` argument first, which is one trace break.

MODULES = frozenset(
    """pandas pandas.api.typing pandas.core.indexing polars pyarrow pyarrow.lib PIL.Image cv2 torch
    matplotlib.axes._axes mpl_toolkits.mplot3d.axes3d""".split()
)
PACKAGES = frozenset("seaborn statsmodels skimage xarray bokeh joblib".split())
"""All modules of these packages are watched."""

_TESTS = frozenset({"tests", "testing", "conftest"})


def needs_ndarrays(name: str) -> bool:
    """Whether the functions of the module ``name`` convert their arguments."""
    parts = name.split(".")
    return name in MODULES or (parts[0] in PACKAGES and _TESTS.isdisjoint(parts))


@functools.cache
def install() -> None:
    """Watches imports, and changes the modules that are already imported."""
    PatchingFinder(needs_ndarrays, _convert_module).install()


def _convert_module(module: ModuleType) -> None:
    from lazynb.frontends.numpy.argument_conversion import convert_arguments_of

    convert_arguments_of(module)
