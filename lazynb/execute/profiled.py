"""XLA's profile of one compilation: what took how long, as XLA itself timed it.

The profiler notes where each pass and each stage begins and ends. It slows the compilation by less than can
be measured, and takes 2 ms when it is over.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from lazynb import _jax as jc


class CompileProfile:
    """What the profiler recorded of one compilation.

    Attributes:
      data: as the profiler gives it; None if there is none.
      why_not: why there is none.
      again: whether it is of a second compilation of the program, made to see how it is compiled.
    """

    def __init__(self, again: bool = False) -> None:
        self.data: bytes | None = None
        self.why_not = "the compilation did not end"
        self.again = again

    def forget(self) -> None:
        """Gives its memory back: it is as large as what XLA wrote down."""
        if self.data is not None:
            self.data, self.why_not = None, "it is long ago, and the profile was given up"

    @contextlib.contextmanager
    def taken(self, platform: str | None) -> Iterator[None]:
        """The body compiles one program. Another profile that is being taken goes on unharmed.

        Arguments:
          platform: that it is compiled for, as JAX names it; None if another process compiles it. Only
            XLA:CPU's profile is read.
        """
        if platform != "cpu":
            self.why_not = "another process compiled it, for a chip that is not here"
            if platform is not None:
                self.why_not = f"lazynb reads XLA's timing for CPUs alone, not for {platform}"
            yield
            return
        session = jc.new_profile()
        data: bytes | None = None
        try:
            yield
        finally:
            try:
                data = session.stop()
            except RuntimeError:
                self.why_not = "JAX's profiler was in use meanwhile, and it takes one profile at a time"
        if data is not None:
            self.data, self.why_not = data, ""
