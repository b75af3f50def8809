"""From a recorded path to a jaxpr: the part of a trace that somebody wants, each operation under its
number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from lazynb import _jax as jc
from lazynb.record.trie import State

SCOPE = "n{}"
"""Name scope of step number k. It comes back in the ``op_name`` of each HLO instruction made from that
step."""


def needed_steps(path: Sequence[State], wanted: Sequence[int]) -> list[State]:
    """The steps that the slots ``wanted`` depend on, in order; the rest is dead code."""
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
      inputs: variables of the inputs.
      eqns: equations, each under the scope of its step.
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
          copies: by number of a step, that of another one which is computed once more for it alone.
        """
        variables: dict[int, Any] = dict(given or {})
        for state in path:
            if state.operation is None:
                if state.first not in variables:
                    variables[state.first] = var = jc.new_var(state.avals[0])
                    self.inputs.append(var)
            elif copies and state.depth - 1 in copies:
                own = dict(variables)
                self._append(path[copies[state.depth - 1]], own)
                self._append(state, own)
                variables.update((slot, own[slot]) for slot in range(state.first, state.slots))
            else:
                self._append(state, variables)
        return variables

    def add_with_inputs(self, step: State, avals: dict[int, Any]) -> dict[int, Any]:
        """Appends one step with its operands as inputs; ``avals`` are theirs, by slot. Returns variables by
        slot."""
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
                operation.params,
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
) -> jax.stages.Lowered:
    """Lowers ``jaxpr`` for arguments like ``arguments``, under the configuration it was recorded with.

    Arguments:
      unpack: makes the jaxpr's inputs from the arguments, as part of the program.
      donated: positions of the arguments whose memory the results may take.

    Raises what JAX raises for an operation that cannot be lowered.
    """
    run = jc.as_function(jaxpr)

    def lazynb(*args: Any) -> list[Any]:
        return run(*unpack(args))

    with jc.restore_config(config), jc.lowering_settings():
        return jax.jit(lazynb, donate_argnums=donated).lower(*arguments)
