"""The import of torchax, whose newest release names what PyTorch 2.13 and 2.14 no longer have.

While it is imported, torchax 0.0.13 looks up overloads of named tensors, which PyTorch removed in 2.13
(google/torchax#101), and operations that 2.14 has not. It looks them up only to enter them in its
tables, so stand-ins serve during the import.
Afterwards they are gone, and their entries in the tables are keys that nothing asks for. This module can go,
with ``import torchax`` in its place, when a torchax release imports with the oldest PyTorch that lazynb
supports *and* the newest.

The import also renames PyTorch's spare backend, registers a module for it, and switches off the fast path of
``torch.nn.MultiheadAttention``. The first two are done in :mod:`lazynb.torch.backend`, so they are held back.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch

_REMOVED = frozenset(("cholesky", "qr"))  # operations, by PyTorch 2.14


class _Removed:
    """Stands for an operation that PyTorch no longer has, or an overload of one."""

    def __getattr__(self, name: str) -> _Removed:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Removed()


@contextlib.contextmanager
def removed_overloads() -> Iterator[list[str]]:
    """Gives stand-ins for overloads of named tensors and operations that PyTorch lacks, while the body runs.

    Yields:
      The names that were asked for.
    """
    asked: list[str] = []
    with (
        _stand_ins(torch._ops.OpOverloadPacket, lambda name: "name" in name.lower(), asked),
        _stand_ins(torch._ops._OpNamespace, lambda name: name in _REMOVED, asked),
    ):
        yield asked


@contextlib.contextmanager
def _stand_ins(owner: Any, may_lack: Callable[[str], bool], asked: list[str]) -> Iterator[None]:
    """Gives stand-ins for attributes that an ``owner`` lacks, if it ``may_lack`` them."""
    original = owner.__getattr__

    def with_stand_ins(self: Any, name: str) -> Any:
        try:
            return original(self, name)
        except AttributeError:
            if not may_lack(name):
                raise
            asked.append(f"{self}.{name}")
            return _Removed()

    owner.__getattr__ = with_stand_ins
    try:
        yield
    finally:
        owner.__getattr__ = original


@contextlib.contextmanager
def _backend_left_alone() -> Iterator[None]:
    """Lets PyTorch's spare backend be neither renamed nor registered while the body runs."""
    rename, register = torch.utils.rename_privateuse1_backend, torch._register_device_module
    torch.utils.rename_privateuse1_backend = lambda name: None  # type: ignore[assignment]
    torch._register_device_module = lambda name, module: None  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.utils.rename_privateuse1_backend = rename  # type: ignore[assignment]
        torch._register_device_module = register  # type: ignore[assignment]


def import_torchax() -> Any:
    """The package ``torchax``, imported."""
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.ERROR)  # torchax warns of its own duplicate entries
    try:
        with removed_overloads(), _backend_left_alone():
            import torchax
            import torchax.decompositions
            import torchax.ops.jaten
            import torchax.ops.jtorch
    finally:
        logging.getLogger().setLevel(level)
    return torchax
