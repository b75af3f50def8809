"""The packages that PyTorch code needs on top of lazynb, and the line that says what to install."""

from __future__ import annotations

import re
from importlib import metadata

# PyTorch 2.10 was the first on which Python alone can be a backend. Before, only C++ could register the
# device's guard, and autograd asks for it at the first operation on a tensor that requires a gradient.
# torchax 0.0.13 is the first that works with JAX 0.10.
OLDEST = {"torch": (2, 10), "torchax": (0, 0, 13)}
INSTALL = "pip install 'lazynb[torch]'"


def _numbers(version: str) -> tuple[int, ...]:
    """``version`` as up to three numbers, without its local part: ``2.13.0+cpu`` is ``(2, 13, 0)``."""
    public = version.split("+")[0]
    numbers = re.findall(r"\d+", public)
    return tuple(map(int, numbers[:3]))


def problem(versions: dict[str, str | None]) -> str:
    """Returns a line that says what is missing or too old; it is empty if nothing is.

    Arguments:
      versions: the installed version of each package in :data:`OLDEST`, or None if it is not installed.
    """
    for package, oldest in OLDEST.items():
        wanted = ".".join(map(str, oldest))
        installed = versions[package]
        if installed is None:
            return f"lazynb.torch needs {package}, which is not installed: {INSTALL}"
        if _numbers(installed) < oldest:
            return f"lazynb.torch needs {package} {wanted} or newer, and {installed} is installed: {INSTALL}"
    return ""


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def check() -> None:
    """Raises ``ImportError``, with one line, if a package is missing or too old."""
    if text := problem({package: _version(package) for package in OLDEST}):
        raise ImportError(text)
