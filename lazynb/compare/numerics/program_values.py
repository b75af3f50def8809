"""Results and intermediate values of a program, computed by eager JAX and by the compiled program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.compare.numerics.equation_list import (
    Equation,
    Equations,
    JittedCall,
    as_jaxpr,
    single_equation_function,
)
from lazynb.running.background_thread import in_background, wait
from lazynb.running.jaxpr_program import lower

Options = Mapping[str, Any]
"""XLA options for one compilation."""


class CompiledProgram:
    """A recorded program, compiled again for each set of values to observe.

    Arguments:
      taken: values from outside, by number.
      constants: numbers of the values that are constants of the program.
      settings: JAX's configuration.

    Attributes:
      compilations: number of compilations so far.
      platform: its platform, as JAX names it.
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
    ) -> CompiledRun:
        """Compiles the program and runs it.

        Arguments:
          shown: values to return in addition to the program's results.
          barrier: an equation whose operands pass through an optimization barrier.
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
        return CompiledRun(compiled, dict(zip(outputs, results, strict=True)))

    def _unpacked(self, arguments: Sequence[Any]) -> list[Any]:
        given = {**self._constants, **dict(zip(self._single, arguments, strict=True))}
        return [given[number] for number in self.program.taken]

    def _equations(self, barrier: Equation | None) -> Iterable[Equation]:
        if barrier is None:
            return self.program.equations
        return _with_barrier(self.program, barrier)


class CompiledRun:
    """A program that was compiled and run, with its values by number."""

    def __init__(self, compiled: Any, values: dict[int, Any]):
        self.values = values
        self._compiled = compiled

    def text(self) -> str:
        """The optimised HLO; empty if the backend returns none."""
        return self._compiled.as_text() or ""


def same_bits(first: Any, second: Any) -> bool:
    """Whether two arrays are bit-identical; all NaNs are equal."""
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
    """The equations, with a barrier before the operands of ``equation``."""
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


# ---- Eager values -----------------------------------------------------------------------------------------
# Operations run one at a time, and a jitted function as one program.


def eager_values(
    program: Equations, taken: Mapping[int, Any], settings: Any
) -> tuple[dict[int, Any], dict[int, Any]]:
    """Computes all values of ``program`` by number: as eager JAX does, and one operation at a time.

    The two differ for the results of a function that eager JAX compiles. Values inside such a function come
    from operations run one at a time in both.

    Arguments:
      taken: values from outside.
      settings: JAX's configuration, see :func:`lazynb.jax_compat.snapshot_config`.
    """
    values: dict[int, Any] = dict(taken)
    single: dict[int, Any] = {}
    ends: dict[int, list[JittedCall]] = {}
    for unit in program.units:
        ends.setdefault(unit.last, []).append(unit)
    for unit in ends.get(-1, ()):  # before the first equation
        _run(program, unit.equation, values, settings)
    for equation in program.equations:
        _run(program, equation, values, settings)
        single.update((value, values[value]) for value in equation.results)
        for unit in ends.get(equation.number, ()):
            _run(program, unit.equation, values, settings)
    return values, {**values, **single}


def operands_of(equation: Equation, values: Mapping[int, Any]) -> list[Any]:
    """The operands of ``equation``."""
    return [
        operand.val if isinstance(operand, jc.Literal) else values[operand] for operand in equation.operands
    ]


def types_of(equation: Equation, program: Equations) -> list[Any]:
    """The types of the operands of ``equation``."""
    return [
        operand.aval if isinstance(operand, jc.Literal) else program.avals[operand]
        for operand in equation.operands
    ]


def _run(program: Equations, equation: Equation, values: dict[int, Any], settings: Any) -> None:
    results = [value for value in equation.results if isinstance(value, int)]
    if not results:
        return
    function = single_equation_function(
        equation, types_of(equation, program), equation.avals, equation.params
    )
    given = wait(in_background(_under(settings, function, operands_of(equation, values))))
    for value, array in zip(equation.results, given, strict=True):
        if isinstance(value, int) and value not in program.taken:
            values[value] = array


def _under(settings: Any, function: Callable[..., Any], operands: Sequence[Any]) -> Callable[[], Any]:
    """Wraps ``function(*operands)`` to run under the user's settings, without NaN checks."""

    def run() -> Any:
        unchecked = (jax.debug_nans(False), jax.debug_infs(False))
        with jc.restore_config(settings), jc.set_current_trace(jc.eval_trace), unchecked[0], unchecked[1]:
            return jax.block_until_ready(function(*operands))

    return run


# ---- Intermediate values of the compiled program ----------------------------------------------------------
# Values inside a kernel are never written to memory. Returning one makes another program, in which XLA may
# fuse differently. So one program first returns all values. If its results are bit-identical to those of the
# original program, its values count as those of the original. If not, further programs return some values
# each, those of neighbouring operations in different programs, and finally those of one operation each.

RESULT, KEPT, CHANGED = "result", "seen", "changed"
"""How a value is known: a result; an extra result that left the others bit-identical, or changed them."""

_TOGETHER = 10
"""Number of programs that return the values of some operations each."""

_SINGLY = 16
"""Maximum number of programs that return the values of one operation each."""


@dataclasses.dataclass
class ObservedValues:
    """The values of a compiled program.

    Attributes:
      ran: the run of the program.
      values, how: by number, the values, and how each is known.
    """

    ran: CompiledRun
    values: dict[int, Any]
    how: dict[int, str]


def observed_values(compiled: CompiledProgram, taken: Mapping[int, Any]) -> ObservedValues:
    """All values of the compiled program."""
    program = compiled.program
    ran = compiled.run()
    found = ObservedValues(ran, {**taken, **ran.values}, dict.fromkeys(program.wanted, RESULT))
    inside = [each for each in program.equations if set(each.results) - set(program.wanted)]
    if inside and not _observe(compiled, inside, found):
        changed = [group for group in _strided(inside) if not _observe(compiled, group, found)]
        left = [[equation] for group in changed for equation in group if len(group) > 1]
        for one in left[:_SINGLY]:
            _observe(compiled, one, found)
    return found


def _strided(equations: Sequence[Equation]) -> Iterator[Sequence[Equation]]:
    """Groups of equations without neighbours."""
    for first in range(min(_TOGETHER, len(equations))):
        yield equations[first::_TOGETHER]


def _observe(compiled: CompiledProgram, equations: Sequence[Equation], found: ObservedValues) -> bool:
    """Records the results of ``equations`` and returns whether the program's results stayed bit-identical."""
    shown = [value for each in equations for value in each.results]
    ran = compiled.run(shown)
    kept = all(same_bits(ran.values[value], found.ran.values[value]) for value in compiled.program.wanted)
    for value in shown:
        if found.how.get(value) != RESULT and (kept or found.how.get(value) != KEPT):
            found.values[value] = ran.values[value]
            found.how[value] = KEPT if kept else CHANGED
    return kept
