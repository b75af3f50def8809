"""A program as ``jax.jit`` makes it: what the code writes itself is a constant, and no input is donated."""

from __future__ import annotations

from typing import Any

from lazynb.execute.executable import Executable
from lazynb.execute.packing import Packing
from lazynb.record.trie import State
from lazynb.source import Place


class JitExecutable(Executable):
    """A program of some results of a recorded trace without dead operations, beside every cache of lazynb's.

    Arguments:
      packing: which inputs are written into the program.
    """

    def __init__(self, state: State, wanted: tuple[int, ...], config_then: Any, packing: Packing):
        super().__init__(state, wanted, (), config_then, Place("", 0, ""))
        self._packing = packing
