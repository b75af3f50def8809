"""Registers device ``jax`` as PyTorch's spare backend, with ``torch.jax`` and its backward passes."""

from __future__ import annotations

import sys
import threading
from typing import Any

import jax
import torch
from torch.utils import backend_registration

from lazynb.frontends.torch import random_generator
from lazynb.frontends.torch.torch_requirements import INSTALL
from lazynb.user_code.call_stack import cache_call_stack, cached_call_stacks, user_frame

# ---- Backward passes in the calling thread -----------------------------------------------------------------
# PyTorch's autograd runs a device's backward pass in its own thread, but a lazy trace belongs to the
# recording thread. So while device ``jax`` is enabled, autograd uses no extra threads. The line and notebook
# cell of a backward operation are those of ``loss.backward()``.
#
# An error inside such a pass would end the process. While the Python error is set, C++ leaves a stream scope
# and calls the device guard in Python for its type; that call fails because of the error, where C++ allows no
# exception (PyTorch 2.13, ``exchangeStream`` in ``torch/csrc/acc/Module.cpp``). So the guard clears the
# error, and it is raised again at the end of the pass.

_original: Any = None


class _BackwardPasses(threading.local):
    """For each backward pass in this thread, innermost last, the errors that the guard cleared."""

    def __init__(self) -> None:
        self.errors: list[list[BaseException]] = []


_backward_passes = _BackwardPasses()


class DeviceGuard(torch._C._acc.DeviceGuard):  # type: ignore[misc]
    """Returns the device type of device ``jax``."""

    def type_(self) -> Any:
        try:
            # With an error set, CPython rejects the call's result: a SystemError with that error as cause.
            object()
        except SystemError as refusal:
            if not _backward_passes.errors or refusal.__cause__ is None:
                raise
            _backward_passes.errors[-1].append(refusal.__cause__)
        return torch._C._autograd.DeviceType.PrivateUse1


def _run_backward(*args: Any, **kwargs: Any) -> Any:
    """Runs a backward pass in the calling thread. Raises the error of an operation or hook in it."""
    errors: list[BaseException] = []
    result = None
    _backward_passes.errors.append(errors)
    here = sys._getframe()
    cache_call_stack(here, *user_frame(here))
    try:
        with torch.autograd.set_multithreading_enabled(False), jax.named_scope("backward"):
            result = _original(*args, **kwargs)
    except Exception:
        if not errors:
            raise
    finally:
        _backward_passes.errors.pop()
        cached_call_stacks.pop(id(here), None)
    if errors:
        raise errors[0]
    return result


def install() -> None:
    """Makes backward passes run in the calling thread."""
    global _original
    _original = torch.autograd.graph._engine_run_backward
    torch.autograd.graph._engine_run_backward = _run_backward
    torch.autograd._engine_run_backward = _run_backward  # type: ignore[attr-defined]


def uninstall() -> None:
    """Undoes :func:`install`."""
    torch.autograd.graph._engine_run_backward = _original
    torch.autograd._engine_run_backward = _original  # type: ignore[attr-defined]


class JaxDeviceModule:
    """``torch.jax``."""

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def is_initialized() -> bool:
        return True

    @staticmethod
    def is_built() -> bool:
        return True

    @staticmethod
    def init() -> None:
        pass

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def set_device(device: Any) -> None:
        pass

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False

    @staticmethod
    def manual_seed(seed: int) -> None:
        random_generator.default.seed(seed)

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        random_generator.default.seed(seed)

    @staticmethod
    def initial_seed() -> int:
        return random_generator.default._seed

    @staticmethod
    def get_rng_state(device: Any = None) -> torch.Tensor:
        return random_generator.default.state()

    @staticmethod
    def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
        random_generator.default.set_state(state)

    @staticmethod
    def get_amp_supported_dtype() -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    @staticmethod
    def get_device_name(device: Any = None) -> str:
        return jax.devices()[0].device_kind

    @staticmethod
    def empty_cache() -> None:
        pass

    @staticmethod
    def memory_allocated(device: Any = None) -> int:
        """Bytes in use on the device; if it does not report them, the bytes of all live JAX arrays."""
        in_use = (jax.devices()[0].memory_stats() or {}).get("bytes_in_use")
        if in_use is not None:
            return int(in_use)
        return sum(array.nbytes for array in jax.live_arrays() if not array.is_deleted())

    memory_reserved = memory_allocated

    @staticmethod
    def max_memory_allocated(device: Any = None) -> int:
        """Peak bytes in use; if the device does not report them, the current bytes."""
        peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
        return JaxDeviceModule.memory_allocated() if peak is None else int(peak)

    @staticmethod
    def seed() -> int:
        """Sets a random seed and returns it."""
        random_generator.default.seed(random_generator._TorchGenerator().seed())
        return random_generator.default._seed

    @staticmethod
    def is_bf16_supported(including_emulation: bool = True) -> bool:
        return True

    @staticmethod
    def synchronize(device: Any = None) -> None:
        """Flushes pending operations and waits for them: a barrier."""
        import lazynb

        lazynb.sync()


_registered = False


def register() -> None:
    """Registers the backend. PyTorch cannot undo it."""
    global _registered
    if _registered:
        return
    if not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
        raise ImportError(
            f"lazynb.torch needs a PyTorch in which Python can be a backend, and {torch.__version__} is "
            f"installed: {INSTALL}"
        )
    backend_registration._setup_privateuseone_for_python_backend(
        "jax", JaxDeviceModule(), device_guard=DeviceGuard()
    )
    _registered = True
