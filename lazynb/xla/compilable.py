"""What an inspection asks of a program: of one that was recorded, and of one that somebody gave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import jax

from lazynb import _jax as jc
from lazynb.execute.dumps import Dump
from lazynb.execute.packing import Packing


class Compilable(Protocol):
    """See :class:`lazynb.execute.executable.Executable`."""

    operations: int
    origin: str
    compile_seconds: float
    lowering_seconds: float | None
    compiled: Any
    dump: Dump | None
    donated: tuple[int, ...]
    elsewhere: bool

    @property
    def _packing(self) -> Packing:
        """How its inputs become its arguments."""

    @property
    def numbers(self) -> int:
        """How many of Python's numbers are inputs."""

    @property
    def result_types(self) -> Sequence[Any]:
        """JAX's type of each result."""

    @property
    def wanted(self) -> tuple[int, ...]:
        """Slots that it computes."""

    @property
    def state(self) -> Any:
        """The end of the trace."""

    @property
    def platform(self) -> str:
        """The platform that it is compiled for, as JAX names it."""

    def stablehlo(self) -> str:
        """The program as JAX lowers it."""

    def lowered(self) -> jax.stages.Lowered | None:
        """JAX's stage before the compilation; None if there was none: the program comes from a file."""

    def compile_again(
        self,
        *,
        wanted: tuple[int, ...] | None = None,
        copies: dict[int, int] | None = None,
        options: dict[str, Any] | None = None,
    ) -> Any:
        """JAX's compiled object of the program, compiled again."""

    def compile_hlo(self, text: str) -> str:
        """The optimised HLO of a module of HLO."""

    def cost_figures(self, texts: Sequence[str]) -> list[jc.Figures]:
        """What XLA says that parts of the program cost."""

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The results for ``inputs``."""
