"""The interface of an inspectable program, and its inputs for a later run. Inputs are held by weak
references; those that no longer exist are replaced by synthetic ones."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.errors import LazynbError
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.pending_trace import PendingTrace
from lazynb.running.compiler_dump import Dump
from lazynb.running.jaxpr_program import ArgumentPacking

# ---- The interface of a program ----------------------------------------------------------------------------


class InspectableProgram(Protocol):
    """What an inspection needs of a program, recorded or external. See
    :class:`lazynb.running.trace_executable.Executable`."""

    operations: int
    origin: str
    compile_seconds: float
    lowering_seconds: float | None
    compiled: Any
    dump: Dump | None
    donated: tuple[int, ...]
    elsewhere: bool

    @property
    def _packing(self) -> ArgumentPacking:
        """How inputs are packed into arguments."""

    @property
    def numbers(self) -> int:
        """Number of Python scalars among the inputs."""

    @property
    def result_types(self) -> Sequence[Any]:
        """JAX's type of each result."""

    @property
    def wanted(self) -> tuple[int, ...]:
        """The slots that it computes."""

    @property
    def state(self) -> Any:
        """The last state of the trace."""

    @property
    def platform(self) -> str:
        """The platform of the compilation, as JAX names it."""

    def stablehlo(self) -> str:
        """The program as JAX lowers it."""

    def lowered(self) -> jax.stages.Lowered | None:
        """JAX's stage before compilation; None for a program from a file."""

    def compile_again(
        self,
        *,
        wanted: tuple[int, ...] | None = None,
        copies: dict[int, int] | None = None,
        options: dict[str, Any] | None = None,
    ) -> Any:
        """Compiles the program again; returns JAX's compiled object."""

    def compile_hlo(self, text: str) -> str:
        """Compiles an HLO module; returns the optimised HLO."""

    def cost_figures(self, texts: Sequence[str]) -> list[jc.Figures]:
        """XLA's cost analysis of HLO modules, one for each text."""

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The results for ``inputs``."""


class InputsGone(LazynbError):
    """An input of a program no longer exists, so the program cannot be run again."""


class RunInputs(Protocol):
    """The inputs of a program, for a run."""

    def own_values(self) -> list[Any]:
        """The user's own arrays or scalars."""

    def values(self) -> list[Any]:
        """One value for each input, synthetic where needed."""


class Inputs:
    """The inputs of one program.

    Arguments:
      inputs: the type of each, and a function that returns its value while that exists.

    Attributes:
      made_up: number of synthetic inputs in the last :meth:`values`.
    """

    def __init__(self, inputs: Sequence[tuple[Any, Callable[[], Any]]]):
        self._inputs = list(inputs)
        self.made_up = 0

    @classmethod
    def of(cls, pending: PendingTrace, numbers: Sequence[int]) -> Inputs:
        """The inputs of a trace that a program reads, by their numbers, in the program's order."""
        steps = [state for state in pending.state.path() if state.operation is None]
        return cls([(steps[number].avals[0], weak_getter(pending.inputs[number])) for number in numbers])

    def __getitem__(self, number: int) -> tuple[Any, Callable[[], Any]]:
        return self._inputs[number]

    def own_values(self) -> list[Any]:
        """The user's own arrays and host scalars. Raises InputsGone if one no longer exists, or is still
        pending."""
        values = [_available_array(held()) for _, held in self._inputs]
        gone = [aval.str_short() for (aval, _), value in zip(self._inputs, values) if value is None]
        if gone:
            more = f", and {len(gone) - 1} more are" if len(gone) > 1 else " is"
            raise InputsGone(
                f"an input of type {gone[0]}{more} gone or not computed yet: keep what the program takes in "
                "variables, compute it, and compile again"
            )
        return values

    def values(self) -> list[Any]:
        """An array (or a host scalar) for each input: the user's own while it exists, else a synthetic one.
        Raises InputsGone if an input no longer exists and cannot be replaced."""
        values = [(aval, _available_array(held())) for aval, held in self._inputs]
        self.made_up = sum(value is None for _, value in values)
        return [synthetic_array(aval) if value is None else value for aval, value in values]


def weak_getter(value: Any) -> Any:
    """A function that returns ``value`` while it exists. It holds arrays by weak reference."""
    if isinstance(value, (LazyTensor, jax.Array)):
        return weakref.ref(value)
    if isinstance(value, jax.ShapeDtypeStruct):  # a type has no value
        return lambda: None
    return lambda: value


def _available_array(value: Any) -> Any | None:
    """The array behind ``value``; None if it no longer exists, is deleted or still pending."""
    if isinstance(value, LazyTensor):
        value = value._value
    if isinstance(value, jax.Array) and value.is_deleted():
        return None
    return value


def synthetic_array(aval: Any) -> Any:
    """An array of random normal numbers, or zeros for integers. Raises InputsGone if the type is a random
    key."""
    with jc.set_current_trace(jc.eval_trace):
        if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended):
            raise InputsGone(
                f"an input of type {aval.str_short()} is gone, and lazynb makes up no random keys; "
                "compile again while the key is in reach"
            )
        random = np.random.default_rng(0)
        if jax.dtypes.issubdtype(aval.dtype, np.inexact):
            return jax.numpy.asarray(random.standard_normal(aval.shape), aval.dtype)
        return jax.numpy.zeros(aval.shape, aval.dtype)


def copy_of_array(value: Any) -> Any:
    """A copy of an array, for a run that may donate it."""
    with jc.set_current_trace(jc.eval_trace):
        return value.copy() if isinstance(value, jax.Array) else value
