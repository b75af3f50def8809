"""Programs: the wanted part of a recorded trace as a jaxpr, with each operation under its number."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from lazynb import _jax as jc
from lazynb.record.trie import State

SCOPE = "n{}"
"""The name scope of a step, with its number. XLA keeps it in ``op_name`` of the step's HLO instructions."""


def needed_steps(path: Sequence[State], wanted: Sequence[int]) -> list[State]:
    """The steps that the slots ``wanted`` depend on, in order. All other steps are dead code."""
    slots = set(wanted)
    needed = []
    for state in reversed(path):
        if any(slot in slots for slot in range(state.first, state.slots)):
            needed.append(state)
            slots.update(state.operands)
    needed.reverse()
    return needed


class Program:
    """A closed jaxpr put together from recorded steps.

    Attributes:
      inputs: the variables of the inputs.
      eqns: the equations, each under the scope of its step.
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
          copies: by number of a step, the number of another step that is computed again for it alone.
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
        """Appends an input, unless it has a variable already."""
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
                operation.positioned,
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
      donated: positions of the arguments whose memory the results may take.
      platform: lower for this one, which need not be there, such as ``tpu``.
      placed: the sharding of each result that is asked for, ``jc.UNSPECIFIED`` where XLA chooses it.

    Raises JAX's error if an operation cannot be lowered.
    """
    run = jc.as_function(jaxpr)

    def lazynb(*args: Any) -> list[Any]:
        return run(*unpack(args))

    traced = jc.set_current_trace(jc.eval_trace)
    with jc.settings_kept(), jc.restore_config(config), jc.lowering_settings(), traced:
        shardings = jc.UNSPECIFIED if placed is None else placed
        program = jax.jit(lazynb, donate_argnums=donated, out_shardings=shardings)
        if platform is None:
            with _no_warning() if donated else contextlib.nullcontext():
                return program.lower(*arguments)
        with jc.without_mesh():  # its devices are others
            return program.trace(*arguments).lower(lowering_platforms=(platform,))


@contextlib.contextmanager
def _no_warning() -> Iterator[None]:
    """JAX warns of memory that fits no result, as that of an array that is moved to other devices. To give it
    was not the user's wish."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some donated buffers were not usable")
        yield
