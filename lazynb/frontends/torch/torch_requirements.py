"""Checks the packages that PyTorch code needs, and imports torchax.

:func:`check` raises if a package is missing, so nothing here imports PyTorch before a function needs it.

At import, torchax 0.0.13 looks up overloads of named tensors, which PyTorch removed in 2.13
(google/torchax#101), and operations that 2.14 lacks. It only enters them in its tables, so stand-ins suffice
during the import; their table entries are never used afterwards. Replace this module by ``import torchax``
when a torchax release imports with both the oldest PyTorch that lazynb supports *and* the newest.

The import of torchax also renames PyTorch's spare backend, registers a module for it, and disables the fast
path of ``torch.nn.MultiheadAttention``. The first two are suppressed, because
:mod:`lazynb.frontends.torch.device_backend` does them.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

# ---- Required packages -------------------------------------------------------------------------------------

# Since PyTorch 2.10 a backend can be written in Python alone. Before, only C++ could register the device
# guard, which autograd needs at the first operation on a tensor that requires a gradient. torchax 0.0.13 is
# the first release for JAX 0.10.
OLDEST = {"torch": (2, 10), "torchax": (0, 0, 13)}
INSTALL = "pip install 'lazynb[torch]'"


def _version_tuple(version: str) -> tuple[int, ...]:
    """Up to three numbers of ``version``, without its local part: ``2.13.0+cpu`` is ``(2, 13, 0)``."""
    public = version.split("+")[0]
    numbers = re.findall(r"\d+", public)
    return tuple(map(int, numbers[:3]))


def missing_requirement(versions: dict[str, str | None]) -> str:
    """One line that names a missing or outdated package; empty if all are present.

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
    """Raises ``ImportError`` with one line of text if a package is missing or too old."""
    if text := missing_requirement({package: _version(package) for package in OLDEST}):
        raise ImportError(text)


_REMOVED_OPERATIONS = frozenset(("cholesky", "qr"))  # operations removed in PyTorch 2.14


class _Removed:
    def __getattr__(self, name: str) -> _Removed:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Removed()


@contextlib.contextmanager
def removed_overloads() -> Iterator[list[str]]:
    """Context manager with stand-ins for named-tensor overloads and operations that PyTorch lacks.

    Yields:
      The names that were looked up.
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
    """Context manager with stand-ins for missing attributes of ``owner`` whose names satisfy ``may_lack``."""
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
    """Context manager in which PyTorch's spare backend cannot be renamed or registered."""
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
    """Imports and returns the package ``torchax``."""
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.ERROR)  # hides warnings about torchax's own duplicate entries
    try:
        with removed_overloads(), _without_backend_registration():
            import torchax
            import torchax.decompositions
            import torchax.ops.jaten
            import torchax.ops.jtorch
    finally:
        logging.getLogger().setLevel(level)
    return torchax
