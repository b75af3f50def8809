"""What stands for lazynb where programs run eagerly: the same names, no laziness. lazynb is not imported
there."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def _nothing(**_: Any) -> Iterator[None]:
    yield


def _none(*_: Any, **__: Any) -> None:
    return None


class LazyTensor:
    """No value is one."""


def install() -> None:
    """Puts it in place of lazynb in this process."""
    module = types.ModuleType("lazynb")
    vars(module).update(
        lazy=_nothing,
        eager=_nothing,
        sync=_none,
        compile=_none,
        graph=_none,
        clear_cache=_none,
        breaks=_none,
        cache_info=_none,
        events=_none,
        config=types.SimpleNamespace(),
        LazyTensor=LazyTensor,
    )
    sys.modules["lazynb"] = module
