"""The other of the two programs of some code: lazynb's, and that of ``jax.jit``."""

from __future__ import annotations

from collections.abc import Callable

from lazynb.xla.as_jit import NotOneFunction
from lazynb.xla.compilation import Compilation


class Counterpart:
    """The other program, which may be compiled when it is first asked for. That runs nothing.

    Arguments:
      make: compiles it; None if it is there already, or cannot be.

    Attributes:
      compilation: the other program; None before it is compiled.
      why: why there is none; empty if there is one, or may be.
    """

    def __init__(
        self,
        make: Callable[[], Compilation] | None = None,
        *,
        compilation: Compilation | None = None,
        why: str = "",
    ):
        self._make = make
        self.compilation = compilation
        self.why = why

    def compile(self) -> Compilation | None:
        """The other program; None if there is none, and then :attr:`why` says why.

        Raises what JAX raises for a program that cannot be lowered or compiled.
        """
        if self._make is not None:
            try:
                self.compilation = self._make()
            except NotOneFunction as error:
                self.why = f"{error}."
            self._make = None
        return self.compilation
