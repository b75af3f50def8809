"""The packages that PyTorch code needs, and the import of torchax.

:func:`check` raises where a package is missing, so nothing here imports PyTorch before a function needs it.

While it is imported, torchax 0.0.13 looks up overloads of named tensors, which PyTorch removed in 2.13
(google/torchax#101), and operations that 2.14 has not. It looks them up only to enter them in its
tables, so stand-ins serve during the import.
Afterwards they are gone, and their entries in the tables are keys that nothing asks for. This module can go,
with ``import torchax`` in its place, when a torchax release imports with the oldest PyTorch that lazynb
supports *and* the newest.

The import also renames PyTorch's spare backend, registers a module for it, and switches off the fast path of
``torch.nn.MultiheadAttention``. The first two are done in :mod:`lazynb.frontends.torch.device_backend`, so
they are held back.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

# ---- The packages that PyTorch code needs on top of lazynb, and the line that says what to install --------

# PyTorch 2.10 was the first on which Python alone can be a backend. Before, only C++ could register the
# device's guard, and autograd asks for it at the first operation on a tensor that requires a gradient.
# torchax 0.0.13 is the first that works with JAX 0.10.
OLDEST = {"torch": (2, 10), "torchax": (0, 0, 13)}
INSTALL = "pip install 'lazynb[torch]'"


def _version_tuple(version: str) -> tuple[int, ...]:
    """``version`` as up to three numbers, without its local part: ``2.13.0+cpu`` is ``(2, 13, 0)``."""
    public = version.split("+")[0]
    numbers = re.findall(r"\d+", public)
    return tuple(map(int, numbers[:3]))


def missing_requirement(versions: dict[str, str | None]) -> str:
    """Returns a line that says what is missing or too old; it is empty if nothing is.

    Arguments:
      versions: the installed version of each package in :data:`OLDEST`, or None if it is not installed.
    """
    for package, oldest in OLDEST.items():
        wanted = ".".join(map(str, oldest))
        installed = versions[package]
        if installed is None:
            return f"lazynb.torch needs {package}, which is not installed: {INSTALL}"
        if _version_tuple(installed) < oldest:
            return f"lazynb.torch needs {package} {wanted} or newer, and {installed} is installed: {INSTALL}"
    return ""


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def check() -> None:
    """Raises ``ImportError``, with one line, if a package is missing or too old."""
    if text := missing_requirement({package: _version(package) for package in OLDEST}):
        raise ImportError(text)


_REMOVED_OPERATIONS = frozenset(("cholesky", "qr"))  # operations, by PyTorch 2.14


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
    import torch

    asked: list[str] = []
    with (
        _placeholder_attributes(torch._ops.OpOverloadPacket, lambda name: "name" in name.lower(), asked),
        _placeholder_attributes(torch._ops._OpNamespace, lambda name: name in _REMOVED_OPERATIONS, asked),
    ):
        yield asked


@contextlib.contextmanager
def _placeholder_attributes(owner: Any, may_lack: Callable[[str], bool], asked: list[str]) -> Iterator[None]:
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
def _without_backend_registration() -> Iterator[None]:
    """Lets PyTorch's spare backend be neither renamed nor registered while the body runs."""
    import torch

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
        with removed_overloads(), _without_backend_registration():
            import torchax
            import torchax.decompositions
            import torchax.ops.jaten
            import torchax.ops.jtorch
    finally:
        logging.getLogger().setLevel(level)
    return torchax
