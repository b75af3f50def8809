"""Random numbers on device ``jax``: a seed and a count of draws, as PyTorch's CUDA generator has; results
depend on nothing else.

The state is two Python numbers, so drawing needs no value, and a draw's number enters a program as an input:
nothing is compiled again. The numbers drawn are JAX's, so they differ from those that the CPU draws from the
same seed, as CUDA's do.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import torch

from lazynb import _jax as jc

_MASK = (1 << 64) - 1


class Generator:
    """Seed and number of draws since."""

    def __init__(self, seed: int) -> None:
        self.seed(seed)

    def seed(self, seed: int, drawn: int = 0) -> None:
        """Begins anew."""
        self._seed, self.drawn = int(seed) & _MASK, drawn
        self._base: Any = None

    def key(self) -> Any:
        """A key for one draw."""
        if self._base is None:
            with jc.set_current_trace(jc.eval_trace):
                words = np.array([self._seed >> 32, self._seed & 0xFFFFFFFF], np.uint32)
                self._base = jax.random.wrap_key_data(jax.numpy.asarray(words), impl="threefry2x32")
        self.drawn += 1
        return jax.random.fold_in(self._base, np.uint32(self.drawn & 0xFFFFFFFF))

    def state(self) -> torch.Tensor:
        """The state, 16 bytes on the CPU."""
        return torch.frombuffer(
            bytearray(self._seed.to_bytes(8, "little") + self.drawn.to_bytes(8, "little")), dtype=torch.uint8
        )

    def set_state(self, state: torch.Tensor) -> None:
        """Goes on from a state that :meth:`state` gave."""
        found = bytes(state.cpu().tolist())
        self.seed(int.from_bytes(found[:8], "little"), int.from_bytes(found[8:16], "little"))


default = Generator(torch.initial_seed())


def key(generator: torch.Generator | None) -> Any:
    """A key for one draw from ``generator`` (it is drawn from, so its own state says what comes next), or the
    device's own."""
    if generator is None:
        return default.key()
    return Generator(int(torch.randint(0, (1 << 63) - 1, (), generator=generator))).key()
