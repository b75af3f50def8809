"""What recording needs of whatever runs the traces. The recorder knows no consumer: one is plugged in
here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from lazynb.record.pending import Pending
    from lazynb.record.tensor import LazyTensor


class Runtime(Protocol):
    """Runs pending traces."""

    def force(self, tensor: LazyTensor, kind: str, detail: str = "") -> Any:
        """The concrete value of ``tensor``; ``kind`` says what asked for it (see ``reasons.REASONS``),
        ``detail`` more of it."""

    def flush(self, pending: Pending, kind: str) -> None:
        """Runs ``pending``."""

    def display(self, tensor: LazyTensor) -> dict[str, Any]:
        """MIME bundle of a pending tensor. Runs nothing."""


class Hooks:
    """The runtime in use; set by ``lazynb.execute`` and completed by the layers above."""

    runtime: Runtime | None = None
    numpy: Callable[[], Any] | None = None  # gives the module that answers NumPy's protocols


def runtime() -> Runtime:
    """The runtime in use."""
    found = Hooks.runtime
    if found is None:
        raise RuntimeError("no runtime: import lazynb, not its parts")
    return found


def numpy_calls() -> Any:
    """The module that answers NumPy's protocols: ``array_ufunc`` and ``array_function``."""
    found = Hooks.numpy
    if found is None:
        raise RuntimeError("no frontends: import lazynb, not its parts")
    return found()
