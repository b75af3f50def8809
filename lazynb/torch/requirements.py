"""What PyTorch code needs on top of lazynb, and the one line that says what to install."""

from __future__ import annotations

import re
from importlib import metadata

# PyTorch 2.10 was the first on which Python alone can be a backend: before, only C++ could register the
# device's guard, for which autograd asks at the first operation on a tensor that requires a gradient. torchax
# 0.0.13 is the first that works with JAX 0.10.
OLDEST = {"torch": (2, 10), "torchax": (0, 0, 13)}
INSTALL = "pip install 'lazynb[torch]'"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.split("+")[0])[:3])


def problem(versions: dict[str, str | None]) -> str:
    """What is missing or too old, in one line; empty where nothing is.

    Arguments:
      versions: the version found of each package in :data:`OLDEST`; None where it is not installed.
    """
    for package, oldest in OLDEST.items():
        wanted = ".".join(map(str, oldest))
        found = versions[package]
        if found is None:
            return f"lazynb.torch needs {package}, which is not installed: {INSTALL}"
        if _numbers(found) < oldest:
            return f"lazynb.torch needs {package} {wanted} or newer, and {found} is installed: {INSTALL}"
    return ""


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def check() -> None:
    """Raises ``ImportError``, in one line, where a package is missing or too old."""
    if text := problem({package: _version(package) for package in OLDEST}):
        raise ImportError(text)
