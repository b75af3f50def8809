"""Imports torchax, whose newest release names what PyTorch 2.13 no longer has.

While it is imported, torchax 0.0.13 looks up overloads of named tensors, which PyTorch removed in 2.13
(google/torchax#101). It does so only to enter them in its tables, so stand-ins serve: they are there during
the import and gone after it, and what stays in the tables are keys that nothing asks for. This module can go,
with ``import torchax`` in its place, when a torchax release imports with the oldest PyTorch that lazynb
supports *and* the newest.

Importing torchax also renames PyTorch's spare backend, registers a module for it, and switches off the fast
path of ``torch.nn.MultiheadAttention``: the first two are ours to do (:mod:`lazynb.torch.backend`), so they
are held back.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import torch


class _Removed:
    """Stands for an overload that PyTorch no longer has."""


@contextlib.contextmanager
def removed_overloads() -> Iterator[list[str]]:
    """Gives stand-ins for overloads of named tensors that PyTorch has not, while the body runs; those that
    were asked for."""
    packet = torch._ops.OpOverloadPacket
    before = packet.__getattr__
    asked: list[str] = []

    def with_stand_ins(self: Any, name: str) -> Any:
        try:
            return before(self, name)
        except AttributeError:
            if "name" not in name.lower():
                raise
            asked.append(f"{self}.{name}")
            return _Removed()

    packet.__getattr__ = with_stand_ins  # type: ignore[method-assign]
    try:
        yield asked
    finally:
        packet.__getattr__ = before  # type: ignore[method-assign]


@contextlib.contextmanager
def _backend_left_alone() -> Iterator[None]:
    rename, register = torch.utils.rename_privateuse1_backend, torch._register_device_module
    torch.utils.rename_privateuse1_backend = lambda name: None  # type: ignore[assignment]
    torch._register_device_module = lambda name, module: None  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.utils.rename_privateuse1_backend, torch._register_device_module = rename, register  # type: ignore[assignment]


def import_torchax() -> Any:
    """The package ``torchax``, imported."""
    quiet = logging.getLogger().level
    logging.getLogger().setLevel(logging.ERROR)  # it warns of its own duplicate entries
    try:
        with removed_overloads(), _backend_left_alone():
            import torchax
            import torchax.decompositions
            import torchax.ops.jaten
            import torchax.ops.jtorch
    finally:
        logging.getLogger().setLevel(quiet)
    return torchax
