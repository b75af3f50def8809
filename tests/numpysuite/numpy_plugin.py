"""A pytest plugin: the arrays that NumPy's own tests make begin as lazy ones, if LAZYNB_SUITE_LAZY is set.

Only the calls in the tests' own modules are changed: NumPy's code gets NumPy's arrays.
"""

from __future__ import annotations

import functools
import os
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lazynb.frontends.numpy.mutable_array import mutable
from lazynb.frontends.numpy.numpy_arguments import is_jax_dtype

MAKE = """array asarray arange zeros ones full linspace eye identity tri logspace geomspace zeros_like ones_like
full_like copy""".split()


def _lazily(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def make(*args: Any, **kwargs: Any) -> Any:
        made = plain(*args, **kwargs)
        return mutable(made) if type(made) is np.ndarray and is_jax_dtype(made.dtype) else made

    return make


class _Namespace(types.ModuleType):
    """NumPy, making lazy arrays."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def __dir__(self) -> list[str]:
        return dir(np)


_namespace = _Namespace("numpy")
vars(_namespace).update({name: _lazily(getattr(np, name)) for name in MAKE})


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get("LAZYNB_SUITE_LAZY"):
        return
    for module in {getattr(item, "module", None) for item in items} - {None}:
        for name, value in list(vars(module).items()):
            if value is np:
                setattr(module, name, _namespace)
            elif name in MAKE and value is getattr(np, name):
                setattr(module, name, getattr(_namespace, name))
