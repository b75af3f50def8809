"""Loads files to device ``jax``: ``torch.load(map_location="jax")`` and ``safetensors``."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from typing import Any

import torch

from lazynb.frontends.torch.cpu_tensors import torch_to_array
from lazynb.frontends.torch.dispatch import op_rules, tensor_layout as layouts
from lazynb.frontends.torch.dispatch.tensor_storage import Storage
from lazynb.frontends.torch.dispatch.view_operations import set_storage, steps_from_memory
from lazynb.frontends.torch.torch_tensor import DEVICE, Tensor

aten = torch.ops.aten
_LOCATION = re.compile(r"jax(:0)?")


class _LoadedStorage(torch.UntypedStorage):
    """Bytes read from a file, on the CPU, for tensors on device ``jax``."""

    device = DEVICE

    def whole(self, dtype: torch.dtype) -> Storage:
        """The whole memory as a :class:`Storage`. Tensors that shared memory when saved share it again."""
        made = self.__dict__.setdefault("_made", {})
        if dtype not in made:
            flat = torch.empty(0, dtype=dtype).set_(self)
            made[dtype] = Storage(torch_to_array(flat), layouts.contiguous(tuple(flat.shape), dtype))
        return made[dtype]


def _restore_storage(storage: Any, location: str) -> Any:
    """Converts ``storage`` for tensors on device ``jax``; None if ``location`` is another device."""
    if not _LOCATION.fullmatch(location):
        return None
    storage.__class__ = _LoadedStorage
    return storage


def _set_storage(func: Any, args: Any, kwargs: Any) -> Any:
    target, storage, *place = args
    if not isinstance(storage, _LoadedStorage):
        raise NotImplementedError(
            f"lazynb.torch: {func} gives a tensor other memory; assign to .data instead"
        )
    whole = storage.whole(target.dtype)
    offset, size, *rest = place or (0, whole.layout.shape)
    stride = tuple(rest[0]) if rest and rest[0] else layouts.contiguous(tuple(size), target.dtype).stride
    wanted = layouts.layout(tuple(size), stride, offset, target.dtype)
    steps = steps_from_memory(whole, wanted)
    assert steps is not None  # it is contiguous
    set_storage(target, Tensor(whole, wanted, steps))
    return target


op_rules.special[aten.set_.source_Storage] = _set_storage
op_rules.special[aten.set_.source_Storage_storage_offset] = _set_storage


_is_installed = False


def install_file_loading(is_enabled: Callable[[], bool]) -> None:
    """Makes ``torch.load`` accept ``map_location="jax"``. PyTorch cannot undo it."""
    global _is_installed
    if _is_installed:
        return

    def restore(storage: Any, location: str) -> Any:
        return _restore_storage(storage, location) if is_enabled() else None

    torch.serialization.register_package(15, lambda storage: None, restore)
    _is_installed = True


# ---- ``safetensors`` files ---------------------------------------------------------------------------------
# ``load_file(path, device="jax")`` and ``safe_open``: the reader has a fixed list of device names without
# ``jax``. So the file is opened for the CPU, and each tensor is moved when it is read.

_MODULE_NAMES = ("safetensors", "safetensors.torch")  # both have ``safe_open``
_original: Any = None


class _JaxSlice:
    """A tensor in the file that is read in parts."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getitem__(self, index: Any) -> torch.Tensor:
        return self._inner[index].to("jax")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _JaxFile:
    """A ``safe_open`` file with tensors on device ``jax``."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __enter__(self) -> _JaxFile:
        self._inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._inner.__exit__(*error)

    def get_tensor(self, name: str) -> torch.Tensor:
        return self._inner.get_tensor(name).to("jax")

    def get_slice(self, name: str) -> _JaxSlice:
        return _JaxSlice(self._inner.get_slice(name))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _is_jax(device: Any) -> bool:
    try:
        return torch.device(device).type in ("privateuseone", "jax")
    except (RuntimeError, TypeError):
        return False


def _safe_open(filename: Any, framework: str = "pt", device: Any = "cpu", **options: Any) -> Any:
    """``safetensors.safe_open`` that also accepts device ``jax``."""
    if framework in ("pt", "torch", "pytorch") and _is_jax(device):
        return _JaxFile(_original(filename, framework=framework, device="cpu", **options))
    return _original(filename, framework=framework, device=device, **options)


def _modules() -> list[Any]:
    return [importlib.import_module(name) for name in _MODULE_NAMES]


def install_safe_open() -> None:
    """Patches ``safetensors``, if installed."""
    global _original
    if importlib.util.find_spec("safetensors") is None:
        return
    _original = _modules()[0].safe_open
    for module in _modules():
        module.safe_open = _safe_open


def uninstall() -> None:
    """Undoes :func:`install_safe_open`."""
    global _original
    if _original is not None:
        for module in _modules():
            module.safe_open = _original
        _original = None
