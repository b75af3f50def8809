"""Libraries that get NumPy's own arrays when they are called.

Most libraries convert what they are given with ``np.asarray``. These ask whether it is a ``numpy.ndarray``
and otherwise do something else, or are written in C: pandas looks a mask up as labels, Matplotlib takes the
rows of a matrix for its columns. So their public functions and methods convert each :class:`MutableArray`
among their arguments first, which is one trace break.
"""

from __future__ import annotations

import functools
from types import ModuleType

from lazynb.frontends.imported import Finder

MODULES = frozenset(
    """pandas pandas.api.typing pandas.core.indexing polars pyarrow pyarrow.lib PIL.Image cv2 torch
    matplotlib.axes._axes mpl_toolkits.mplot3d.axes3d""".split()
)
PACKAGES = frozenset("seaborn statsmodels skimage xarray bokeh joblib".split())
"""With all of their modules."""

_TESTS = frozenset({"tests", "testing", "conftest"})


def watches(name: str) -> bool:
    """Whether the functions of the module ``name`` convert their arguments."""
    parts = name.split(".")
    return name in MODULES or (parts[0] in PACKAGES and _TESTS.isdisjoint(parts))


@functools.cache
def install() -> None:
    """Begins to watch what is imported, and changes what is imported already."""
    Finder(watches, _change).install()


def _change(module: ModuleType) -> None:
    from lazynb.frontends.entry_conversion import change

    change(module)
