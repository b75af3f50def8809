"""How many programs eager JAX runs for a call, and whether it is one jitted function.

Its results are then all on the devices of its operands, those too that depend on constants alone: the 0.5 in
the gradient of ``x * 0.5`` is where ``x`` is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazynb import _jax as jc


class EagerPrograms(jc.Trace):
    """Notes the primitives that are bound, and binds them on the trace that was current.

    Attributes:
      names: the names of the primitives, in order. A call with rules of its own is noted by its name.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self._inner: Any = jc.current_trace()

    @property
    def are_one_jit(self) -> bool:
        return len(self.names) == 1 and self.names[0] in jc.JIT_PRIMITIVES

    def process_primitive(self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any], /) -> Any:
        self.names.append(primitive.name)
        with jc.set_current_trace(self._inner):
            return primitive.bind(*tracers, **params)

    def process_custom_jvp_call(self, primitive: Any, *args: Any, **params: Any) -> Any:
        self.names.append(primitive.name)
        with jc.set_current_trace(self._inner):
            return self._inner.process_custom_jvp_call(primitive, *args, **params)

    def process_custom_vjp_call(self, primitive: Any, *args: Any, **params: Any) -> Any:
        self.names.append(primitive.name)
        with jc.set_current_trace(self._inner):
            return self._inner.process_custom_vjp_call(primitive, *args, **params)
