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

from lazynb import _jax as jc

_MASK = (1 << 64) - 1


class Generator:
    """A seed, and the number of draws since it was set."""

    def __init__(self, seed: int) -> None:
        self.seed(seed)

    def seed(self, seed: int, draws: int = 0) -> None:
        """Begins anew."""
        self._seed, self._draws = int(seed) & _MASK, draws
        self._base: Any = None

    def key(self) -> Any:
        """A key for one draw."""
        if self._base is None:
            with jc.set_current_trace(jc.eval_trace):
                words = np.array([self._seed >> 32, self._seed & 0xFFFFFFFF], np.uint32)
                self._base = jax.random.wrap_key_data(jax.numpy.asarray(words), impl="threefry2x32")
        self._draws += 1
        return jax.random.fold_in(self._base, np.uint32(self._draws & 0xFFFFFFFF))

    def state(self) -> torch.Tensor:
        """The state, 16 bytes on the CPU."""
        words = self._seed.to_bytes(8, "little") + self._draws.to_bytes(8, "little")
        return torch.frombuffer(bytearray(words), dtype=torch.uint8)

    def set_state(self, state: torch.Tensor) -> None:
        """Goes on from a state that :meth:`state` gave."""
        words = bytes(state.cpu().tolist())
        self.seed(int.from_bytes(words[:8], "little"), int.from_bytes(words[8:16], "little"))


default = Generator(torch.initial_seed())


def key(generator: torch.Generator | None) -> Any:
    """A key for one draw from ``generator``, or from the device's own if that is None.

    The key is drawn from ``generator``, so its own state says what comes next.
    """
    if generator is None:
        return default.key()
    return Generator(int(torch.randint(0, (1 << 63) - 1, (), generator=generator))).key()
