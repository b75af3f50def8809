"""NumPy's ``np.array`` and ``np.asarray`` of a list of lazy tensors, in the user's own code.

NumPy hands this call over to nobody. To take the list's tensors one by one, it asks each of them for its
value. So both functions are substituted while a thread is lazy. A library that makes such an array wants
NumPy's own, and so gets it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from lazynb import _jax as jc
from lazynb.record.runtime import numpy_calls
from lazynb.record.stand_in import stand_in
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import LazyTrace
from lazynb.source import is_user_code

_LISTS = (list, tuple)


def _recording(plain: Callable[..., Any]) -> Callable[..., Any]:
    def array(*args: Any, **kwargs: Any) -> Any:
        if args and args[0].__class__ in _LISTS and _is_recorded(args[0], sys._getframe(1)):
            recorded = numpy_calls().array_of(plain, args, kwargs)
            if recorded is not None:
                return recorded
        return plain(*args, **kwargs)

    return array


def _is_recorded(items: Any, caller: FrameType) -> bool:
    is_recording = jc.ambient.value.__class__ is LazyTrace
    return is_recording and _is_pending(items) and is_user_code(caller.f_code)


def _is_pending(items: Any) -> bool:
    """Whether the first element of ``items``, lists in lists too, or one beside it is a pending tensor.

    An array that can be written to counts as one.
    """
    while items.__class__ in _LISTS and items:
        for item in items:
            if (item.__class__ is LazyTensor and item.is_pending) or jc.is_container(item):
                return True
        items = items[0]
    return False


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """The substitutes for NumPy's own functions while some thread is lazy."""
    own: list[tuple[str, Any]] = [("array", np.array), ("asarray", np.asarray)]
    return [(np, {name: stand_in(_recording(plain), plain, np, name) for name, plain in own})]
