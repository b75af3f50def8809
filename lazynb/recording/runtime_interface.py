"""The runtime: what recording needs of the layer that runs the traces, which sets it here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from lazynb.recording.lazy_tensor import LazyTensor
    from lazynb.recording.pending_trace import PendingTrace


class Runtime(Protocol):
    """Runs pending traces."""

    def force(self, tensor: LazyTensor, kind: str, detail: str = "") -> Any:
        """The concrete value of ``tensor``.

        Arguments:
          kind: why it is needed, see ``reasons.REASONS``.
          detail: the function, argument or attribute that needs it.
        """

    def flush(self, traces: Sequence[PendingTrace], kind: str) -> None:
        """Runs ``traces``: one trace break of ``kind``."""

    def eager_sharding(self, tensor: LazyTensor) -> Any:
        """The sharding that eager JAX gives ``tensor``, pending and committed; None if only a run can tell
        it. Compiles, and runs nothing."""

    def display(self, tensor: LazyTensor) -> dict[str, Any]:
        """The MIME bundle of a pending tensor. Runs nothing."""


class RuntimeHooks:
    """The hooks for the layers above.

    Attributes:
      runtime: the runtime in use, set by ``lazynb.execute``.
      numpy: gives the module that answers NumPy's protocols.
      on_block_enter: called when a block is entered.
      leaving: called before the outermost block of a thread ends without an error; None if there is nothing
        to do then, as in a program of one process.
      before_eager_operation: called before an operation runs at once, with its values; None as above.
    """

    runtime: Runtime | None = None
    numpy: Callable[[], Any] | None = None
    on_block_enter: Callable[[], None] | None = None
    leaving: Callable[[], None] | None = None
    before_eager_operation: Callable[[Any, Sequence[Any], dict[str, Any]], None] | None = None


def runtime() -> Runtime:
    """The runtime in use."""
    current = RuntimeHooks.runtime
    if current is None:
        raise RuntimeError("no runtime: import lazynb, not its parts")
    return current


def numpy_calls() -> Any:
    """The module that answers NumPy's protocols: ``array_ufunc`` and ``array_function``."""
    load = RuntimeHooks.numpy
    if load is None:
        raise RuntimeError("no frontends: import lazynb, not its parts")
    return load()
