"""Random numbers on device ``jax``: a function of a seed and a draw counter, as on CUDA.

The state is two Python numbers, so drawing reads no array. The draw number is an input of the program, so it
causes no compilation. The random numbers are JAX's, so the CPU draws other numbers from the same seed (as
with CUDA).
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import torch

from lazynb import jax_compat as jc
from lazynb.frontends.torch.graph_tracing import Untraceable, graph_context

_MASK = (1 << 64) - 1


class CounterGenerator:
    """A seed, and the number of draws since it was set."""

    def __init__(self, seed: int) -> None:
        self.seed(seed)

    def seed(self, seed: int, draws: int = 0) -> None:
        """Sets the seed and the draw counter."""
        self._seed, self._draws = int(seed) & _MASK, draws
        self._base: Any = None
        self._words: Any = None

    def key(self) -> Any:
        """A key for one draw."""
        if graph_context.graph is not None:
            return graph_context.graph.key()
        if self._base is None:
            with jc.set_current_trace(jc.eval_trace):
                self._base = jax.random.wrap_key_data(self._key_data(), impl="threefry2x32")
        _, number = self.take(1)
        return jax.random.fold_in(self._base, number)

    def take(self, count: int) -> tuple[Any, Any]:
        """Counts ``count`` draws; returns the key data as an array, and the number of the first draw."""
        first = np.uint32((self._draws + 1) & 0xFFFFFFFF)
        self._draws += count
        return self._key_data(), first

    def _key_data(self) -> Any:
        if self._words is None:
            with jc.set_current_trace(jc.eval_trace):
                words = np.array([self._seed >> 32, self._seed & 0xFFFFFFFF], np.uint32)
                self._words = jax.numpy.asarray(words)
        return self._words

    def state(self) -> torch.Tensor:
        """The state, 16 bytes on the CPU."""
        words = self._seed.to_bytes(8, "little") + self._draws.to_bytes(8, "little")
        return torch.frombuffer(bytearray(words), dtype=torch.uint8)

    def set_state(self, state: torch.Tensor) -> None:
        """Restores a state returned by :meth:`state`."""
        words = bytes(state.cpu().tolist())
        self.seed(int.from_bytes(words[:8], "little"), int.from_bytes(words[8:16], "little"))


default = CounterGenerator(torch.initial_seed())


_TorchGenerator: Any = torch.Generator


class _GeneratorMeta(type(_TorchGenerator)):  # type: ignore[misc]
    """Makes every PyTorch generator an instance of our ``torch.Generator``."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, _TorchGenerator)


class UserGenerator(_TorchGenerator, metaclass=_GeneratorMeta):
    """``torch.Generator(device="jax")``: a CPU generator of PyTorch, from which the keys are drawn.

    PyTorch has no hook for generators of a device written in Python. For another device the result is
    PyTorch's own generator.
    """

    def __new__(cls, device: Any = "cpu") -> Any:
        if torch.device(device).type not in ("privateuseone", "jax"):
            return _TorchGenerator(device)
        return _TorchGenerator.__new__(cls)

    def __init__(self, device: Any = "cpu") -> None:
        pass

    @property
    def device(self) -> torch.device:
        return torch.device("privateuseone:0")

    def clone_state(self) -> Any:
        """An independent generator with the same state."""
        return type(self)("jax").set_state(self.get_state())

    def __reduce__(self) -> Any:
        return _restore_generator, (self.get_state(),)


def _restore_generator(state: torch.Tensor) -> Any:
    return UserGenerator("jax").set_state(state)


# The name under which PyTorch pickles its own.
UserGenerator.__name__ = UserGenerator.__qualname__ = "Generator"
UserGenerator.__module__ = "torch"


def install() -> None:
    """Patches ``torch.Generator`` for device ``jax``."""
    torch.Generator = UserGenerator  # type: ignore[misc]


def uninstall() -> None:
    """Undoes :func:`install`."""
    torch.Generator = _TorchGenerator  # type: ignore[misc]


def key(generator: torch.Generator | None) -> Any:
    """A key for one draw from ``generator``, whose state advances; None is the device's default generator."""
    if generator is None:
        return default.key()
    if graph_context.graph is not None:
        raise Untraceable("a generator of its own")
    return CounterGenerator(int(torch.randint(0, (1 << 63) - 1, (), generator=generator))).key()
