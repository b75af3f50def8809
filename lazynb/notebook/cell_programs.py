"""The programs that one cell ran or left pending, and the cell as one function for ``jax.jit``."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from IPython.core.error import UsageError

from lazynb import jax_compat as jc
from lazynb.compare.differences.variant_comparison import listed
from lazynb.notebook.cell_execution import Earlier
from lazynb.recording.break_reasons import REASONS
from lazynb.recording.external_arrays import kept_by_edges
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.recording.snapshot.trace_description import Names
from lazynb.recording.snapshot.variable_names import names_of
from lazynb.report.short_text import clip
from lazynb.running.flush import tensors_in
from lazynb.running.observers import BreakEvent, Observer, RunEvent
from lazynb.user_code.source_lines import Origin, line_of
from lazynb.user_code.text_format import size
from lazynb.xla.compilation import Compilation
from lazynb.xla.compilation_builder import CompilationBuilder, compile_pending_traces, dumping_passes
from lazynb.xla.jit_equivalent import JitProgram, NotOneFunction, leaves_of
from lazynb.xla.targets.target_chip import Target

# ---- The cell as a jitted function -------------------------------------------------------------------------
# Results, arguments and constants of ``%%compile --as-jit``.

NO_RESULT = (
    "the cell ends in no expression, so a jitted function of it would return nothing: end it in one, or name "
    "the results, such as --returns loss,params"
)
_COMPARED = 1 << 20  # bytes; without --as-jit, larger arrays are not compared with host arrays


class JitSignature:
    """The results of a cell, and which arrays the cell itself creates. Holds weak references only.

    Arguments:
      names: variables that are the results; if empty, the value of the cell's last expression.
      namespace: the user's variables before the cell runs.
      is_asked: whether the user gave ``--as-jit``; only then are large arrays compared.
    """

    def __init__(self, names: Sequence[str], namespace: Mapping[str, Any], is_asked: bool = True):
        self._is_asked = is_asked
        self._names = names
        self._namespace = namespace
        with jc.set_current_trace(jc.eval_trace):
            self._arrays = {id(array): weakref.ref(array) for array in jax.live_arrays()}
        leaves = jax.tree.leaves([value for value in namespace.values() if _is_plain(value)])
        self._host = [weakref.ref(leaf) for leaf in leaves if type(leaf) is np.ndarray]

    def is_created_in_cell(self, array: Any) -> bool:
        """Whether the cell created ``array``: it did not exist before the cell, and its values equal those of
        no NumPy array that did."""
        if isinstance(array, LazyTensor):  # pending in another trace
            return False
        if isinstance(array, np.ndarray):
            return not any(one() is array for one in self._host)
        base = jc.base_array(array)
        known = self._arrays.get(id(base))
        if known is not None and known() is base and array not in kept_by_edges:
            return False
        if base is not array:
            return True
        hosts = [host for one in self._host if (host := one()) is not None and host.shape == array.shape]
        if hosts and not self._is_asked and array.nbytes > _COMPARED:
            raise NotOneFunction(
                f"whether the cell itself made an array of {size(array.nbytes)} takes long to find out: "
                "%%compile --as-jit does"
            )
        return not any(_has_values_of(array, host) for host in hosts)

    def leaves(self, value: Any) -> list[Any]:
        """The arrays and numbers that the function returns. Call it after the cell has run.

        Arguments:
          value: value of the cell's last expression.

        Raises:
          UsageError: a variable does not exist or holds no array.
          NotOneFunction: the cell's value is not an array.
        """
        if not self._names:
            return leaves_of(value)
        return [leaf for name in self._names for leaf in self._named(name)]

    def _named(self, name: str) -> list[Any]:
        made = [each for each, value in self._namespace.items() if each[0] != "_" and is_pending(value)]
        there = f"; the cell gave {listed(made)}" if made else ""
        if name not in self._namespace:
            raise UsageError(f"%%compile --returns: there is no {clip(name, 40)}{there}")
        try:
            return leaves_of(self._namespace[name])
        except NotOneFunction:
            kind = type(self._namespace[name]).__name__
            raise UsageError(f"%%compile --returns: {name} is no array, but {kind}{there}") from None


def is_pending(value: Any) -> bool:
    """Whether ``value`` is or contains a pending tensor."""
    return any(tensor._pending is not None for tensor in tensors_in([value]))


def _is_plain(value: Any) -> bool:
    return type(value) in (np.ndarray, dict, list, tuple)


def _has_values_of(array: Any, host: np.ndarray) -> bool:
    """Whether ``array`` equals ``host`` (same shape) after JAX's dtype conversion."""
    taken = host.astype(array.dtype)
    return array.dtype == jax.dtypes.canonicalize_dtype(host.dtype) and np.array_equal(
        taken, np.asarray(array), equal_nan=taken.dtype.kind in "fc"
    )


def has_value(body: str) -> bool:
    """Whether a cell ends in an expression. True for a syntax error, which running the cell reports."""
    try:
        last = ast.parse(body).body[-1:]
    except SyntaxError:
        return True
    return bool(last) and isinstance(last[0], ast.Expr)


def break_reason(broke: BreakEvent) -> str:
    """Why a cell with this trace break is not one jitted function."""
    place = broke.spot.place
    return (
        f"{place.label} needed a value before the cell's end ({REASONS[broke.kind].text}), which a jitted "
        f"function does not have: {clip(place.text, 60)}"
    )


_PROGRAMS = 32  # limit for one cell
_OPERATIONS = 3_000

_Key = tuple[int, int, int]


class CellPrograms(Observer):
    """Collects the programs that a cell runs, each once per line.

    A repeated run of a program in a loop costs one dictionary look-up.

    Arguments:
      earlier: the traces that earlier cells recorded.
      namespace: the user's variables; the inspector shows their names.
      cell: the execution count of the cell, once it is known.
    """

    def __init__(self, earlier: Earlier, namespace: Mapping[str, Any], cell: int | None = None):
        self.cell = cell
        self._earlier = earlier
        self._namespace = namespace
        self._own = CompilationBuilder()
        self._earlier_gatherings: dict[
            int | None, CompilationBuilder
        ] = {}  # by the cell that left the trace pending
        self._runs: dict[_Key, int] = {}
        self._own_keys: list[_Key] = []  # programs of this cell, in order
        self._unlisted = 0
        self._operations = 0
        self._last: Sequence[PendingTrace] = ()  # the last trace that ran
        self._broke: BreakEvent | None = None  # the first trace break

    @property
    def is_empty(self) -> bool:
        """Whether the cell ran no program and left nothing pending."""
        return self._own.is_empty and not self._earlier_gatherings

    @property
    def has_run(self) -> bool:
        """Whether the cell ran a program of its own."""
        return len(self._own) > 0

    def ran(self, event: RunEvent) -> None:
        """Adds the program that ran, if it is new."""
        run, pending = event.run, event.pending
        key = (id(run.binding.executable), *_place(pending))
        self._runs[key] = self._runs.get(key, 0) + 1
        if self._runs[key] > 1:
            return
        gathering = self._gathering(pending)
        if len(self._runs) > _PROGRAMS or self._operations >= _OPERATIONS:
            self._unlisted += gathering is self._own
            return
        if gathering is self._own:
            self._own_keys.append(key)
        self._operations += len(pending)
        self._last = (pending,)
        gathering.describe(pending, self._names())
        gathering.add(pending, event.tensors, run.binding, run.miss is not None)
        gathering.give(pending, event.tensors, event.results)

    def broke(self, event: BreakEvent) -> None:
        self._broke = self._broke or event

    def _names(self) -> Names:
        try:
            return names_of(self._namespace)
        except Exception:  # raised by a container of the user's
            return {}

    def _gathering(self, pending: PendingTrace) -> CompilationBuilder:
        if pending not in self._earlier:
            return self._own
        return self._earlier_gatherings.setdefault(self._earlier[pending], CompilationBuilder())

    # ---- Pending traces ------------------------------------------------------------------------------------

    def describe(self, waiting: Sequence[PendingTrace]) -> None:
        """Adds pending traces to the graphs."""
        names = names_of(self._namespace)
        for pending in waiting:
            self._gathering(pending).describe(pending, names)

    def compile(self, waiting: Sequence[PendingTrace], ahead: bool = True) -> None:
        """Compiles pending traces that :meth:`describe` has added. Runs nothing. For ``ahead`` see
        :func:`lazynb.xla.compilation_builder.dumping_passes`."""
        with dumping_passes(ahead):
            for pending in waiting:
                self._gathering(pending).compile(pending)

    def compile_for(self, waiting: Sequence[PendingTrace], target: Target, ahead: bool = True) -> Compilation:
        """Compiles the cell's pending traces for another chip; those of earlier cells if it has none."""
        own = [pending for pending in waiting if pending not in self._earlier]
        names = names_of(self._namespace)
        return compile_pending_traces(own or waiting, names, ahead, target, cell=self.cell)

    def as_jit(
        self, waiting: Sequence[PendingTrace], leaves: Sequence[Any], is_constant: Callable[[Any], bool]
    ) -> JitProgram:
        """The program that ``jax.jit`` of the cell would compile.

        Arguments:
          leaves: the results.
          is_constant: whether the cell itself created an array.

        Raises:
          NotOneFunction: the cell is not one jitted function; the message gives the reason.
        """
        self._check_whole()
        gathering, names = CompilationBuilder(), names_of(self._namespace)
        for pending in waiting:
            if pending not in self._earlier:
                gathering.describe(pending, names)
        return gathering.as_jit(leaves, is_constant)

    def as_jit_later(
        self, leaves: Sequence[Any], is_constant: Callable[[Any], bool]
    ) -> Callable[[], JitProgram]:
        """Like :meth:`as_jit`, but built when called. Pending traces must be described by then."""
        self._check_whole()
        return self._own.as_jit_later(leaves, is_constant)

    def _check_whole(self) -> None:
        """Raises :class:`NotOneFunction` if a part of the cell has already run."""
        if self._broke is not None:
            raise NotOneFunction(break_reason(self._broke))
        if len(self._own):
            raise NotOneFunction("a part of the cell ran before its end")

    # ---- Results -------------------------------------------------------------------------------------------

    def snapshot(self, shown: Sequence[PendingTrace] = ()) -> Snapshot:
        """The graph that :meth:`compilation` shows."""
        gathering, _ = self._shown(shown)
        return gathering.snapshot()

    def compilation(
        self,
        shown: Sequence[PendingTrace] = (),
        snapshot: Snapshot | None = None,
        asked: Sequence[Any] | None = None,
    ) -> Compilation:
        """The compilation of the cell; programs of earlier cells are in its ``earlier``.

        Arguments:
          shown: traces of earlier cells; the last one is shown if the cell recorded nothing. Default: the
            last trace that ran.
          snapshot: the graph to show, if it was already taken.
          asked: the results of the cell; None if they are not known.
        """
        gathering, cell = self._shown(shown)
        wanted = gathering.values_of(asked) if asked is not None else None
        earlier = [
            left.compilation(cell=number)
            for number, left in self._earlier_gatherings.items()
            if left is not gathering
        ]
        if gathering is not self._own:
            return gathering.compilation(snapshot, cell=cell, earlier=earlier, asked=wanted)
        runs = [self._runs[key] for key in self._own_keys]
        runs += [0] * (len(gathering) - len(runs))
        return gathering.compilation(
            snapshot, cell=cell, earlier=earlier, runs=runs, unlisted=self._unlisted, asked=wanted
        )

    def _shown(self, shown: Sequence[PendingTrace]) -> tuple[CompilationBuilder, int | None]:
        """The builder to show, and the number of the cell that recorded its traces."""
        held = shown or self._last
        if not self._own.is_empty or not held:
            return self._own, self.cell
        return self._gathering(held[-1]), self._earlier[held[-1]]


def _place(pending: PendingTrace) -> tuple[int, int]:
    """Code object and line of the last operation, which distinguish equal programs of different lines. Python
    3.11 specialises instructions, which changes their offsets, so these are not used."""
    for tensor in reversed(pending.records):
        code = tensor._code
        if isinstance(code, Origin):
            return id(code.code), code.line
        if code is not None:
            return id(code), line_of(code, tensor._lasti)
    return 0, 0
