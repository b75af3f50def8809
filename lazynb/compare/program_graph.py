"""The graph form of a program that the comparison works on, built from a compiled trace or from a jaxpr.

A graph's steps are inputs, literals and operations. Operands refer to steps.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from lazynb import jax_compat as jc
from lazynb.jax_compat.jax_names import ARRAY_FUNCTIONS, INTERPRETERS_FOLDER, PRIMITIVE_DISPLAY_NAMES
from lazynb.recording.input_key import HOST, Constant
from lazynb.recording.jaxpr_structure import params_structure
from lazynb.recording.snapshot.snapshot_nodes import display_name
from lazynb.recording.snapshot.trace_description import call_name
from lazynb.running.jaxpr_program import needed_steps
from lazynb.running.miss_log import Miss
from lazynb.user_code.code_ownership import is_user_file
from lazynb.user_code.source_lines import Origin, Place, place

Value = tuple[int, int]
"""Number of a step, and number of the result within that step."""


@dataclasses.dataclass(slots=True, eq=False)
class ProgramStep:
    """An input, a literal or an operation.

    Attributes:
      number: position in its program; for a trace, position in the recorded path.
      primitive: JAX primitive of an operation; None for an input or a literal.
      params: parameters of an operation.
      name: the operation's name in the user's terms; for an input the simplest of ``names``. May be empty.
      names: the user's variables that hold an input.
      operands: the values that the step reads.
      avals: types of the results.
      held: for an input, ``host`` (a number from Python) or its sharding; None if JAX may move it.
      scalar: text of a number or literal.
      needed: whether a value that the program returns depends on the step.
      operation: the operation with its parameters; one object for all equal operations.
      line: file and line of the user's code that requested the step; None if unknown.
      call: the library function that the user called there, and the call's number; None for an operator.
      origin: the bytecode instruction that requested the step; None for inputs and inside traced functions.
    """

    number: int
    primitive: Any = None
    params: dict[str, Any] = dataclasses.field(default_factory=dict)
    name: str = ""
    names: tuple[str, ...] = ()
    operands: tuple[Value, ...] = ()
    avals: tuple[Any, ...] = ()
    held: Any = None
    scalar: str | None = None
    needed: bool = True
    operation: Any = None
    line: tuple[str, int] | None = None
    call: tuple[str, int] | None = None
    origin: Origin | None = None

    @property
    def is_operation(self) -> bool:
        """Whether the step computes something."""
        return self.primitive is not None

    @property
    def place(self) -> Place | None:
        """The user's line that requested the step."""
        return place(*self.line) if self.line is not None else None

    @property
    def label(self) -> str:
        """The step's name in backquotes."""
        return f"`{self.name}`"

    @property
    def content(self) -> Hashable:
        """Key that is equal for steps that apply the same operation to their operands."""
        return self.primitive, params_structure(self.primitive, self.params, nameless=True)

    def same_operation(self, other: ProgramStep) -> bool:
        """Whether both steps apply the same operation to their operands."""
        return self.operation is other.operation or (
            self.primitive is other.primitive and self.content == other.content
        )


class ProgramGraph:
    """A program as a graph of steps.

    Attributes:
      steps: in order.
      operations: the steps that compute something.
      inputs: the other steps, including literals.
      wanted: the values that the program returns.
      names: the user's variables, by value.
    """

    def __init__(
        self, steps: Sequence[ProgramStep], wanted: Sequence[Value], names: dict[Value, tuple[str, ...]]
    ):
        self.steps = steps
        self.operations = [step for step in steps if step.is_operation]
        self.inputs = [step for step in steps if not step.is_operation]
        self.wanted = wanted
        self.names = names
        self._texts: dict[tuple[str, int], str] = {}
        self._positions: dict[int, list[Any]] = {}

    def aval(self, value: Value) -> Any:
        """The type of ``value``."""
        return self.steps[value[0]].avals[value[1]]

    def text(self, step: ProgramStep) -> str:
        """Source text of a step's line."""
        if step.line is None:
            return ""
        text = self._texts.get(step.line)
        if text is None:
            text = self._texts[step.line] = place(*step.line).text
        return text

    def instruction(self, step: ProgramStep) -> Hashable:
        """Source position, with columns, equal in each loop iteration; None if unknown."""
        if step.origin is None:
            return None
        return id(step.origin.code), self.position(step) or step.origin.lasti

    def position(self, step: ProgramStep) -> tuple[Any, ...] | None:
        """First and last line, first and last column of the expression that requested the operation.

        None if the position is unknown; a line or column that Python does not record is None.
        """
        if step.origin is None:
            return None
        code = step.origin.code
        positions = self._positions.get(id(code))
        if positions is None:
            positions = self._positions[id(code)] = list(code.co_positions())
        number = step.origin.lasti // 2
        return positions[number] if 0 <= number < len(positions) else None

    def users(self) -> dict[Value, list[ProgramStep]]:
        """The needed operations that read each value."""
        users: dict[Value, list[ProgramStep]] = {}
        for step in self.operations:
            if step.needed:
                for value in step.operands:
                    users.setdefault(value, []).append(step)
        return users


def graph_of_miss(miss: Miss) -> ProgramGraph:
    """Builds the graph of the trace of ``miss``, in time proportional to its length."""
    steps, owners = _steps_of(miss)
    names = {owners[slot]: names for slot, names in miss.summary.live.items()}
    return ProgramGraph(steps, [owners[slot] for slot in miss.wanted], names)


@functools.lru_cache(maxsize=16)
def _steps_of(miss: Miss) -> tuple[Sequence[ProgramStep], Sequence[Value]]:
    """The steps of a trace, and the value of each slot; cached, because a miss is compared several times."""
    summary = miss.summary
    path = summary.end.path()
    needed = set(map(id, needed_steps(path, miss.wanted)))
    owners: list[Value] = []
    steps: list[ProgramStep] = []
    lines = _InstructionLines()
    inputs = iter(summary.inputs)
    for number, (state, origin) in enumerate(zip(path, summary.origins, strict=True)):
        is_needed = id(state) in needed
        operation = state.operation
        if operation is None:
            value = next(inputs)
            assert isinstance(state.key, tuple)
            step = ProgramStep(
                number,
                name=value.names[0] if value.names else "",
                names=value.names,
                avals=state.avals,
                held=state.key[1],
                scalar=value.scalar,
                needed=is_needed,
            )
        else:
            step = ProgramStep(
                number,
                operation.primitive,
                operation.params,
                operation_name(operation.name),
                operands=tuple([owners[slot] for slot in state.operands]),
                avals=state.avals,
                needed=is_needed,
                operation=operation,
                line=lines.of(origin),
                call=_call(origin),
                origin=origin,
            )
        steps.append(step)
        owners.extend((number, result) for result in range(len(state.avals)))
    return steps, owners


class _InstructionLines:
    """Source lines of instructions, each computed once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[str, int]] = {}

    def of(self, origin: Origin | None) -> tuple[str, int] | None:
        if origin is None:
            return None
        key = (id(origin.code), origin.lasti)
        line = self._known.get(key)
        if line is None:
            line = self._known[key] = (origin.file, origin.line)
        return line


def _call(origin: Origin | None) -> tuple[str, int] | None:
    if origin is None or origin.callee is None or INTERPRETERS_FOLDER in origin.callee.co_filename:
        return None
    name = call_name(origin, origin.scope)
    return (ARRAY_FUNCTIONS.get(name, name), origin.call_id) if name else None


def operation_name(name: str) -> str:
    """The operation name that users know: ``sum`` for ``reduce_sum``."""
    name = display_name(name)
    return PRIMITIVE_DISPLAY_NAMES.get(name, name)


def graph_of_jaxpr(jaxpr: Any) -> ProgramGraph:
    """Builds the graph of a jaxpr. Its arguments have no names; each literal becomes a separate step."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    steps: list[ProgramStep] = []
    values: dict[Any, Value] = {}

    def given(aval: Any, scalar: str | None = None, operation: Any = None) -> Value:
        steps.append(ProgramStep(len(steps), avals=(aval,), scalar=scalar, operation=operation))
        return len(steps) - 1, 0

    def value_of(atom: Any) -> Value:
        if isinstance(atom, jc.Literal):
            return _literal(given, atom)
        return values[atom]

    for var in jc.jaxpr_inputs(jaxpr):
        values[var] = given(var.aval)
    for eqn in inner.eqns:
        operands = tuple(map(value_of, eqn.invars))
        step = ProgramStep(
            len(steps),
            eqn.primitive,
            eqn.params,
            operation_name(_name_in(eqn)),
            operands=operands,
            avals=tuple([var.aval for var in eqn.outvars]),
            operation=eqn,
            line=_line_in(eqn),
        )
        steps.append(step)
        values.update((var, (step.number, result)) for result, var in enumerate(eqn.outvars))
    return ProgramGraph(steps, [value_of(atom) for atom in inner.outvars], {})


def _name_in(eqn: Any) -> str:
    """The name of an equation's primitive, or the function's name for a jitted function."""
    name: str = eqn.primitive.name
    if name in jc.JIT_PRIMITIVES:
        return str(eqn.params.get("name") or name)
    return name


def _literal(given: Callable[..., Value], literal: Any) -> Value:
    value = literal.val
    if np.ndim(value) == 0 and not hasattr(value, "sharding"):
        text = str(np.asarray(value)[()])
        return given(literal.aval, text, ("literal", text))
    return given(literal.aval, None, ("literal", id(value)))


def _line_in(eqn: Any) -> tuple[str, int] | None:
    """The innermost user line in the traceback of ``eqn``."""
    traceback = eqn.source_info.traceback
    for frame in traceback.frames if traceback is not None else ():
        if is_user_file(frame.file_name):
            return frame.file_name, frame.line_num
    return None


def is_users(jaxpr: Any) -> bool:
    """Whether the function behind ``jaxpr`` is user code, not library code."""
    function = jc.traced_function(jaxpr)
    return function is not None and is_user_file(function[1])


def is_number(step: ProgramStep) -> bool:
    """Whether an input is a number from Python or NumPy."""
    return step.held is HOST or is_constant(step)


def is_constant(step: ProgramStep) -> bool:
    """Whether an input is a number written in the code."""
    return step.held.__class__ is Constant
