"""What recording needs of whatever runs the traces. The recorder knows no consumer: one is plugged in here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from lazynb.record.pending import Pending
    from lazynb.record.tensor import LazyTensor


class Runtime(Protocol):
    """Runs pending traces."""

    def force(self, tensor: LazyTensor, kind: str) -> Any:
        """The concrete value of ``tensor``; ``kind`` says what asked for it (see ``reasons.REASONS``)."""

    def flush(self, pending: Pending, kind: str) -> None:
        """Runs ``pending``."""

    def display(self, tensor: LazyTensor) -> dict[str, Any]:
        """MIME bundle of a pending tensor. Runs nothing."""


class Hooks:
    """The runtime in use; set by ``lazynb.execute`` and completed by the layers above."""

    runtime: Runtime | None = None


def runtime() -> Runtime:
    """The runtime in use."""
    found = Hooks.runtime
    if found is None:
        raise RuntimeError("no runtime: import lazynb, not its parts")
    return found
