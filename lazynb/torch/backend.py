"""PyTorch's spare backend, under the name ``jax``, and what PyTorch asks of a device."""

from __future__ import annotations

from typing import Any

import jax
import torch
from torch.utils import backend_registration

from lazynb.torch import generator
from lazynb.torch.autograd import DeviceGuard
from lazynb.torch.requirements import INSTALL


class Module:
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
        generator.default.seed(seed)

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        generator.default.seed(seed)

    @staticmethod
    def initial_seed() -> int:
        return generator.default._seed

    @staticmethod
    def get_rng_state(device: Any = None) -> torch.Tensor:
        return generator.default.state()

    @staticmethod
    def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
        generator.default.set_state(state)

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
        """Bytes in use by JAX's arrays, or, where the device does not say, those of all that are alive."""
        in_use = (jax.devices()[0].memory_stats() or {}).get("bytes_in_use")
        if in_use is not None:
            return int(in_use)
        return sum(array.nbytes for array in jax.live_arrays() if not array.is_deleted())

    memory_reserved = memory_allocated

    @staticmethod
    def max_memory_allocated(device: Any = None) -> int:
        """The most bytes that were in use at once, or, where the device does not say, those in use now."""
        peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
        return Module.memory_allocated() if peak is None else int(peak)

    @staticmethod
    def seed() -> int:
        """Begins anew with a seed that nobody knows, and returns it."""
        generator.default.seed(generator._Plain().seed())
        return generator.default._seed

    @staticmethod
    def is_bf16_supported(including_emulation: bool = True) -> bool:
        return True

    @staticmethod
    def synchronize(device: Any = None) -> None:
        """Runs what is pending and waits for it: a barrier."""
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
    backend_registration._setup_privateuseone_for_python_backend("jax", Module(), device_guard=DeviceGuard())
    _registered = True
