"""Random numbers on device ``jax``: they depend on a seed and a count of draws alone, as on CUDA.

The state is two Python numbers, so drawing needs no value. The number of a draw enters a program as an input,
so nothing is compiled again. The random numbers are JAX's, so the CPU draws others from the same seed. That
is so with CUDA too.
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
        """Begins anew."""
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
        """The key that the draws are made from, as an array, and the number of the first of ``count`` draws,
        which count as made."""
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
        """Goes on from a state that :meth:`state` gave."""
        words = bytes(state.cpu().tolist())
        self.seed(int.from_bytes(words[:8], "little"), int.from_bytes(words[8:16], "little"))


default = CounterGenerator(torch.initial_seed())


_TorchGenerator: Any = torch.Generator


class _GeneratorMeta(type(_TorchGenerator)):  # type: ignore[misc]
    """Every generator of PyTorch's is an instance of ``torch.Generator`` while that is ours."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, _TorchGenerator)


class UserGenerator(_TorchGenerator, metaclass=_GeneratorMeta):
    """``torch.Generator(device="jax")``: PyTorch's generator of the CPU, from which the keys are drawn.

    PyTorch has no place where a device that is written in Python could say what its generators are. For
    another device the result is PyTorch's own.
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
        """A generator that goes on from here by itself."""
        return type(self)("jax").set_state(self.get_state())

    def __reduce__(self) -> Any:
        return _restore_generator, (self.get_state(),)


def _restore_generator(state: torch.Tensor) -> Any:
    return UserGenerator("jax").set_state(state)


# Under the name by which PyTorch pickles its own.
UserGenerator.__name__ = UserGenerator.__qualname__ = "Generator"
UserGenerator.__module__ = "torch"


def install() -> None:
    """Lets ``torch.Generator`` make generators for device ``jax``."""
    torch.Generator = UserGenerator  # type: ignore[misc]


def uninstall() -> None:
    """Undoes :func:`install`."""
    torch.Generator = _TorchGenerator  # type: ignore[misc]


def key(generator: torch.Generator | None) -> Any:
    """A key for one draw from ``generator``, or from the device's own if that is None.

    The key is drawn from ``generator``, so its own state says what comes next.
    """
    if generator is None:
        return default.key()
    if graph_context.graph is not None:
        raise Untraceable("a generator of its own")
    return CounterGenerator(int(torch.randint(0, (1 << 63) - 1, (), generator=generator))).key()
