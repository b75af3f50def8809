"""The marks of conjugates and negatives, where PyTorch works on the CPU on our behalf.

PyTorch keeps ``x.conj()`` as ``x`` with a mark, and resolves the mark in the dispatch keys ``Conjugate``,
``Negative`` and ``ZeroTensor``. An operation that has come to Python has passed these keys, so PyTorch
excludes them while our code runs. An operation on the CPU that makes a marked tensor inside, as
``linalg.pinv`` does, would then compute as if there were no mark.
"""

from __future__ import annotations

from typing import Any

import torch

C: Any = torch._C
_KEYS = (C.DispatchKey.Conjugate, C.DispatchKey.Negative, C.DispatchKey.ZeroTensor)


def heeded() -> Any:
    """A context in which operations on the CPU heed the marks of their tensors."""
    excluded = C._dispatch_tls_local_exclude_set()
    for key in _KEYS:
        excluded = excluded.remove(key)
    return C._ForceDispatchKeyGuard(C._dispatch_tls_local_include_set(), excluded)
