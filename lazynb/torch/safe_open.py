"""Reads files of ``safetensors`` to device ``jax``: ``load_file(path, device="jax")``, ``safe_open``.

Its reader knows the devices of PyTorch's by name, and ``jax`` is not among them. So the file is opened for
the CPU, and each tensor is moved when it is read.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import torch

_PLACES = ("safetensors", "safetensors.torch")  # both have ``safe_open``
_original: Any = None


class _Slice:
    """A tensor in the file of which parts are read."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getitem__(self, index: Any) -> torch.Tensor:
        return self._inner[index].to("jax")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _File:
    """What ``safe_open`` gives, with tensors on device ``jax``."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __enter__(self) -> _File:
        self._inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._inner.__exit__(*error)

    def get_tensor(self, name: str) -> torch.Tensor:
        return self._inner.get_tensor(name).to("jax")

    def get_slice(self, name: str) -> _Slice:
        return _Slice(self._inner.get_slice(name))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _is_jax(device: Any) -> bool:
    try:
        return torch.device(device).type in ("privateuseone", "jax")
    except (RuntimeError, TypeError):
        return False


def _safe_open(filename: Any, framework: str = "pt", device: Any = "cpu", **options: Any) -> Any:
    """``safetensors.safe_open``, for device ``jax`` too."""
    if framework in ("pt", "torch", "pytorch") and _is_jax(device):
        return _File(_original(filename, framework=framework, device="cpu", **options))
    return _original(filename, framework=framework, device=device, **options)


def _modules() -> list[Any]:
    return [importlib.import_module(name) for name in _PLACES]


def install() -> None:
    """Lets ``safetensors``, if it is there, read to device ``jax``."""
    global _original
    if importlib.util.find_spec("safetensors") is None:
        return
    _original = _modules()[0].safe_open
    for module in _modules():
        module.safe_open = _safe_open


def uninstall() -> None:
    """Undoes :func:`install`."""
    global _original
    if _original is not None:
        for module in _modules():
            module.safe_open = _original
        _original = None
