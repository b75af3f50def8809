"""The pending values that a page shows, each by a key that no other kernel knows: so a page can ask for one
of them, and a drawing that was stored by another kernel finds nothing."""

from __future__ import annotations

import itertools
import secrets
import weakref

from lazynb.record.pending import Pending
from lazynb.record.tensor import LazyTensor


class _Listening:
    """Whether there may be a page that asks; without, keys would only make equal drawings unequal.

    Attributes:
      active: whether there may be.
    """

    active = False


listening = _Listening()

_KERNEL = secrets.token_hex(8)
_numbers = itertools.count(1)
_shown: dict[str, weakref.ref[LazyTensor]] = {}


def key_of(tensor: LazyTensor) -> str:
    """A new key for ``tensor``, which it does not keep alive; empty if nobody could ask for it."""
    if not listening.active:
        return ""
    key = f"{_KERNEL}-{next(_numbers)}"
    _shown[key] = weakref.ref(tensor, lambda _: _shown.pop(key, None))
    return key


def shown(key: object) -> LazyTensor | None:
    """The tensor of a key; None if the user can reach it no more, or if this kernel gave no such key."""
    reference = _shown.get(key) if isinstance(key, str) else None
    pending = _pending_of(reference) if reference is not None else None
    if pending is not None:  # its trace refers to it as well: that is not the user
        return next((tensor for tensor in pending.live() if tensor is reference()), None)  # type: ignore[misc]
    return reference() if reference is not None else None


def _pending_of(reference: weakref.ref[LazyTensor]) -> Pending | None:
    """The trace that a tensor waits for. The caller must refer to the tensor by nothing else."""
    tensor = reference()
    return tensor._pending if tensor is not None else None


def is_ours(key: object) -> bool:
    """Whether this kernel gave the key."""
    return isinstance(key, str) and key.startswith(f"{_KERNEL}-")
