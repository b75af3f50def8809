"""The program of a trace: its wanted part as a jaxpr, the packing of its arguments, and its lowering."""

from __future__ import annotations

import collections
import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.python_numbers import constant_candidates, inputs_of
from lazynb.recording.trie import State
from lazynb.user_code.source_lines import Origin

# ---- Packing of scalar inputs ---------------------------------------------------------------------------
# A number written in the code is a constant of the program, as under ``jax.jit``. A number held by a variable
# is an input (another learning rate is not another program), and a trace can have thousands. Each argument
# costs a transfer when the program is called. The compile time of XLA:CPU grows faster than the number of
# arguments (1,000 operations on 1,000 scalar arguments compile in 2.9 s, on one argument in 0.6 s: 2 cores,
# JAX 0.10.2). So the scalars of one dtype are packed into one array, which the program splits.

_FEW = 8  # scalars of a dtype that are passed one by one: packing so few costs more than it saves


class ArgumentPacking:
    """The packing of a program's inputs into arguments: first arrays, then one array of scalars for each
    dtype. Constants are no arguments.

    Arguments:
      inputs: the steps of the inputs.
      constants: the values of the inputs that are constants of the program, by number of the input.
      packs: whether scalars are packed.
    """

    def __init__(self, inputs: Sequence[State], constants: Mapping[int, Any], packs: bool = True):
        self._avals = [state.avals[0] for state in inputs]
        self._constants = {
            number: _number(value, self._avals[number]) if inputs[number].is_host_scalar else value
            for number, value in constants.items()
        }
        scalars: dict[np.dtype, list[int]] = collections.defaultdict(list)
        for number, state in enumerate(inputs):
            if packs and state.is_host_scalar and number not in constants:
                scalars[np.dtype(state.avals[0].dtype)].append(number)
        self._groups = [(dtype, numbers) for dtype, numbers in scalars.items() if len(numbers) > _FEW]
        left_out = set(constants)
        for _, numbers in self._groups:
            left_out.update(numbers)
        self._single = [number for number in range(len(inputs)) if number not in left_out]

    @property
    def single(self) -> list[int]:
        """The numbers of the inputs that are separate arguments."""
        return self._single

    def __len__(self) -> int:
        """Number of arguments."""
        return len(self._single) + len(self._groups)

    def positions(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """The argument positions of the array inputs ``numbers``."""
        return tuple([self._single.index(number) for number in numbers])

    def taken(self, position: int) -> list[int]:
        """The numbers of the inputs in the argument at ``position``."""
        if position < len(self._single):
            return [self._single[position]]
        return self._groups[position - len(self._single)][1]

    def arguments(self, values: Sequence[Any]) -> Sequence[Any]:
        """The arguments for input ``values``."""
        if not self._groups and not self._constants:
            return values
        arguments = [values[number] for number in self._single]
        for dtype, numbers in self._groups:
            packed = np.empty(len(numbers), dtype)  # lazynb replaces ``np.array`` while a thread is lazy
            packed[:] = [values[number] for number in numbers]
            arguments.append(packed)
        return arguments

    def inputs(self, arguments: Sequence[Any]) -> list[Any]:
        """The inputs, unpacked from ``arguments`` while JAX traces the program."""
        values: list[Any] = [None] * len(self._avals)
        for number, value in self._constants.items():
            values[number] = value
        for number, argument in zip(self._single, arguments, strict=False):
            values[number] = argument
        for (_, numbers), packed in zip(self._groups, arguments[len(self._single) :], strict=True):
            weak_types = {self._avals[number].weak_type for number in numbers}
            elements = {weak: jc.split_elements(packed, weak) for weak in weak_types}
            for position, number in enumerate(numbers):
                values[number] = elements[self._avals[number].weak_type][position]
        return values


def program_packing(path: Sequence[State]) -> ArgumentPacking:
    """The packing of a program in which numbers written in the code are constants.

    Arguments:
      path: the steps of the program.
    """
    inputs = inputs_of(path)
    written = {number: inputs[number].constant for number in constant_candidates(path)}
    return ArgumentPacking(
        inputs, {number: known.value for number, known in written.items() if known is not None}
    )


def constant_packing(path: Sequence[State], values: Sequence[Any]) -> ArgumentPacking:
    """The packing of a program in which all candidate numbers are constants, as under ``jax.jit``.

    Arguments:
      path: the steps of the program.
      values: the values of all inputs.
    """
    return ArgumentPacking(
        inputs_of(path), {number: values[number] for number in constant_candidates(path)}, packs=False
    )


def _number(value: Any, aval: Any) -> Any:
    """``value`` as a scalar with the type ``aval``: a Python number if it is weakly typed."""
    number = np.asarray(value, aval.dtype)[()]
    return number.item() if aval.weak_type and np.dtype(aval.dtype).kind in "bifc" else number


SCOPE = "n{}"
"""The name scope of a step, with its number. XLA keeps it in ``op_name`` of the step's HLO instructions."""


def needed_steps(path: Sequence[State], wanted: Sequence[int]) -> list[State]:
    """The steps on which the slots ``wanted`` depend, in order. All other steps are dead code."""
    slots = set(wanted)
    needed = []
    for state in reversed(path):
        if any(slot in slots for slot in range(state.first, state.slots)):
            needed.append(state)
            slots.update(state.operands)
    needed.reverse()
    return needed


class Program:
    """A builder of a closed jaxpr from recorded steps.

    Attributes:
      inputs: the variables of the inputs.
      eqns: the equations, each with the name scope of its step.
    """

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self.eqns: list[Any] = []

    def add(
        self, path: Sequence[State], given: dict[int, Any] | None = None, copies: dict[int, int] | None = None
    ) -> dict[int, Any]:
        """Appends the steps of ``path``. Returns variables by slot.

        Arguments:
          given: variables for some input slots.
          copies: by number of a step, the number of the step to compute again for its operands.
        """
        variables: dict[int, Any] = dict(given or {})
        for state in path:
            if state.operation is None:
                self._add_input(state, variables)
            elif copies and state.depth - 1 in copies:
                own = dict(variables)
                self._append(path[copies[state.depth - 1]], own)
                self._append(state, own)
                variables.update((slot, own[slot]) for slot in range(state.first, state.slots))
            else:
                self._append(state, variables)
        return variables

    def _add_input(self, state: State, variables: dict[int, Any]) -> None:
        if state.first in variables:
            return
        variable = jc.new_var(state.avals[0])
        variables[state.first] = variable
        self.inputs.append(variable)

    def add_with_inputs(self, step: State, avals: dict[int, Any]) -> dict[int, Any]:
        """Appends one step whose operands become inputs. Returns variables by slot.

        Arguments:
          avals: the types of the operands, by slot.
        """
        variables = {slot: jc.new_var(aval) for slot, aval in avals.items()}
        self.inputs.extend(variables.values())
        self._append(step, variables)
        return variables

    def _append(self, state: State, variables: dict[int, Any]) -> None:
        operation = state.operation
        assert operation is not None
        results = [jc.new_var(aval) for aval in state.avals]
        variables.update(enumerate(results, state.first))
        self.eqns.append(
            jc.new_eqn(
                [variables[slot] for slot in state.operands],
                results,
                operation.primitive,
                operation.params_with_positions,
                jc.no_effects,
                operation.context,
                SCOPE.format(state.depth - 1),
            )
        )

    def jaxpr(self, outputs: Sequence[Any]) -> Any:
        """The closed jaxpr that returns ``outputs``."""
        return jc.closed_jaxpr(self.inputs, outputs, self.eqns)


def lower(
    jaxpr: Any,
    arguments: Sequence[Any],
    config: Any,
    unpack: Callable[[Sequence[Any]], Sequence[Any]] = list,
    donated: tuple[int, ...] = (),
    platform: str | None = None,
    placed: Sequence[Any] | None = None,
) -> jax.stages.Lowered:
    """Lowers ``jaxpr`` for the types of ``arguments``, under the configuration of the recorded trace.

    Arguments:
      unpack: makes the inputs of the jaxpr from the arguments, as a part of the program.
      donated: positions of the donated arguments.
      platform: the platform to lower for; it need not exist here, for example ``tpu``.
      placed: the requested sharding of each result, ``jc.UNSPECIFIED`` where XLA chooses it.

    Raises JAX's error if an operation cannot be lowered.
    """
    run = jc.as_function(jaxpr)

    def lazynb(*args: Any) -> list[Any]:
        return run(*unpack(args))

    traced = jc.set_current_trace(jc.eval_trace)
    with jc.settings_preserved(), jc.restore_config(config), jc.lowering_settings(), traced:
        shardings = jc.UNSPECIFIED if placed is None else placed
        program = jax.jit(lazynb, donate_argnums=donated, out_shardings=shardings)
        if platform is None:
            with _no_warning() if donated else contextlib.nullcontext():
                return program.lower(*arguments)
        with jc.without_mesh():  # the mesh has devices of this platform
            return program.trace(*arguments).lower(lowering_platforms=(platform,))


@contextlib.contextmanager
def _no_warning() -> Iterator[None]:
    """Hides JAX's warning about donated buffers that fit no result, such as that of an array that moves to
    other devices. The user did not request the donation."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some donated buffers were not usable")
        yield


# ---- Requests -------------------------------------------------------------------------------------------


class Request:
    """The wanted results of a pending trace. The request does not change when the trace grows.

    Attributes:
      pending: the trace.
      state: the end of the trace.
      wanted: slots of the results.
      values: the values of the trace's inputs, in order. While donation is decided, the caller must not hold
        them in another list, because references are counted.
      donated: numbers of the donated inputs; None if they are not known without waiting.
    """

    __slots__ = ("_origins", "_path", "_steps", "donated", "pending", "state", "values", "wanted")

    def __init__(
        self,
        pending: PendingTrace,
        wanted: tuple[int, ...],
        values: Sequence[Any],
        donated: tuple[int, ...] | None = (),
    ):
        self.pending = pending
        self.state = pending.state
        self.wanted = wanted
        self.values = values
        self.donated = donated
        self._path: list[State] | None = None
        self._steps: list[State] | None = None
        self._origins: list[Origin | None] | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """The key of the binding for the request at the end of the trace."""
        return key_of(self.wanted, self.donated or ())

    @property
    def path(self) -> list[State]:
        """All steps of the trace."""
        if self._path is None:
            self._path = self.state.path()
        return self._path

    @property
    def steps(self) -> list[State]:
        """The steps that the results need."""
        if self._steps is None:
            self._steps = needed_steps(self.path, self.wanted)
        return self._steps

    @property
    def origins(self) -> list[Origin | None]:
        """The origin of each step; None for an input."""
        if self._origins is None:
            self._origins = self.pending.origins()
        return self._origins

    def numbers(self) -> dict[int, int]:
        """The number of each input, by its slot."""
        slots = [step.first for step in self.path if step.operation is None]
        return {slot: number for number, slot in enumerate(slots)}


def key_of(wanted: tuple[int, ...], donated: tuple[int, ...]) -> tuple[Any, ...]:
    """The cache key of a program that computes ``wanted`` and takes the buffers of ``donated``."""
    return (wanted, donated) if donated else wanted
