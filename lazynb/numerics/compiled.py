"""The compiled program: its results, and the values inside of it, one by one made a result beside them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from lazynb import _jax as jc
from lazynb.execute.background import in_background, wait
from lazynb.execute.program import lower
from lazynb.numerics.equations import Equation, Equations, as_jaxpr

Options = Mapping[str, Any]
"""Options of XLA's for one compilation."""


class CompiledProgram:
    """A recorded program, compiled as often as somebody wants to see a value of it.

    Arguments:
      taken: what comes from outside, by the number of the value.
      constants: the numbers of those that are written into the program.
      settings: JAX's configuration.

    Attributes:
      compilations: how many programs were compiled.
      platform: that it runs on, as JAX names it.
    """

    def __init__(
        self, program: Equations, taken: Mapping[int, Any], constants: Collection[int], settings: Any
    ):
        self.program = program
        self.compilations = 0
        self.platform = jax.default_backend()
        self._settings = settings
        self._constants = {number: taken[number] for number in program.taken if number in constants}
        self._single = [number for number in program.taken if number not in self._constants]
        self._arguments = [taken[number] for number in self._single]

    def run(
        self,
        shown: Sequence[int] = (),
        *,
        options: Options | None = None,
        barrier: Equation | None = None,
    ) -> Ran:
        """Compiles the program and runs it.

        Arguments:
          shown: values that are results beside the program's own.
          barrier: an equation that gets its operands through a barrier.
        """
        outputs = list(dict.fromkeys([*self.program.wanted, *shown]))
        jaxpr = as_jaxpr(self.program, self._equations(barrier), outputs)
        lowered = lower(jaxpr, self._arguments, self._settings, self._unpacked)
        settings = jc.settings_now(self._settings)

        def work() -> tuple[Any, list[Any]]:
            with jc.restore_config(settings), jc.no_cache():
                compiled = lowered.compile(compiler_options=dict(options or {}))
                with jc.set_current_trace(jc.eval_trace), jax.debug_nans(False), jax.debug_infs(False):
                    return compiled, jax.block_until_ready(compiled(*self._arguments))

        self.compilations += 1
        compiled, results = wait(in_background(work))
        return Ran(compiled, dict(zip(outputs, results, strict=True)))

    def _unpacked(self, arguments: Sequence[Any]) -> list[Any]:
        given = {**self._constants, **dict(zip(self._single, arguments, strict=True))}
        return [given[number] for number in self.program.taken]

    def _equations(self, barrier: Equation | None) -> Iterable[Equation]:
        if barrier is None:
            return self.program.equations
        return _with_barrier(self.program, barrier)


class Ran:
    """A program that was compiled and run.

    Attributes:
      values: by number.
    """

    def __init__(self, compiled: Any, values: dict[int, Any]):
        self.values = values
        self._compiled = compiled

    def text(self) -> str:
        """The optimised HLO; empty if the backend gives none."""
        return self._compiled.as_text() or ""


def same_bits(first: Any, second: Any) -> bool:
    """Whether two arrays are equal to the bit; any NaN is as good as another."""
    if jc.is_key(first):
        first, second = jax.random.key_data(first), jax.random.key_data(second)
    one, other = np.asarray(first), np.asarray(second)
    if one.tobytes() == other.tobytes():
        return True
    equal = (one == other) & (np.signbit(one) == np.signbit(other)) if one.dtype.kind != "c" else one == other
    return bool(np.all(equal | ((one != one) & (other != other))))


def _barrier() -> tuple[Any, dict[str, Any]]:
    eqn = jax.make_jaxpr(jax.lax.optimization_barrier)(1.0).eqns[0]
    return eqn.primitive, eqn.params


def _with_barrier(program: Equations, equation: Equation) -> Iterable[Equation]:
    """The equations, with a barrier between ``equation`` and what gives its operands."""
    import dataclasses

    with jc.set_current_trace(jc.eval_trace):
        primitive, params = _barrier()
    for each in program.equations:
        if each is not equation:
            yield each
            continue
        read = [value for value in dict.fromkeys(each.operands) if isinstance(value, int)]
        own = {value: -1 - number for number, value in enumerate(read)}
        yield dataclasses.replace(
            each,
            primitive=primitive,
            params=params,
            operands=tuple(read),
            results=tuple(own.values()),
            avals=tuple([program.avals[value] for value in read]),
        )
        operands = [own[value] if isinstance(value, int) else value for value in each.operands]
        yield dataclasses.replace(each, operands=tuple(operands))
