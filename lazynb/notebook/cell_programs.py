"""The programs of one cell: those that it ran and those that it left to run, apart from earlier cells'."""

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
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.recording.snapshot.trace_description import Names
from lazynb.recording.snapshot.variable_names import names_of
from lazynb.report.short_text import clip
from lazynb.running.flush import tensors_in
from lazynb.running.observers import BreakEvent, Observer, RunEvent
from lazynb.user_code.call_stack import Origin, line_of
from lazynb.user_code.text_format import size
from lazynb.xla.compilation import Compilation
from lazynb.xla.compilation_builder import CompilationBuilder, compile_pending_traces, dumping_passes
from lazynb.xla.jit_equivalent import JitProgram, NotOneFunction, leaves_of
from lazynb.xla.targets.target_chip import Target

# ---- What ``%%compile --as-jit`` takes for the results, the arguments and the constants of a cell ---------

NO_RESULT = (
    "the cell ends in no expression, so a jitted function of it would return nothing: end it in one, or name "
    "the results, such as --returns loss,params"
)
_COMPARED = 1 << 20  # bytes of an array that is compared with others unasked


class JitSignature:
    """What a cell returns, and which arrays it makes itself. Keeps no array alive.

    Arguments:
      names: variables that are the results; without any, the cell's value.
      namespace: the user's variables, before the cell runs.
      is_asked: whether the user asked for it, who waits then for large arrays to be compared.
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
        """Whether the cell made ``array``: it was not there before, nor does it hold what an array of NumPy's
        held that was."""
        if isinstance(array, LazyTensor):  # pending in another trace
            return False
        if isinstance(array, np.ndarray):
            return not any(one() is array for one in self._host)
        base = jc.base_array(array)
        known = self._arrays.get(id(base))
        if known is not None and known() is base:
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
        """The arrays and numbers that the function returns, once the cell has run.

        Arguments:
          value: of the cell's last expression.

        Raises:
          UsageError: a name is not there, or holds no array.
          NotOneFunction: the cell's value is no array.
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
    """Whether a variable holds, perhaps in a container, what was recorded and has not run."""
    return any(tensor._pending is not None for tensor in tensors_in([value]))


def _is_plain(value: Any) -> bool:
    return type(value) in (np.ndarray, dict, list, tuple)


def _has_values_of(array: Any, host: np.ndarray) -> bool:
    """Whether ``array`` is ``host``, of the same shape, as JAX takes it."""
    taken = host.astype(array.dtype)
    return array.dtype == jax.dtypes.canonicalize_dtype(host.dtype) and np.array_equal(
        taken, np.asarray(array), equal_nan=taken.dtype.kind in "fc"
    )


def has_value(body: str) -> bool:
    """Whether a cell ends in an expression. A cell that is no Python may: who runs it says what is wrong."""
    try:
        last = ast.parse(body).body[-1:]
    except SyntaxError:
        return True
    return bool(last) and isinstance(last[0], ast.Expr)


def break_reason(broke: BreakEvent) -> str:
    """Why a cell with a trace break is no jitted function."""
    place = broke.spot.place
    return (
        f"{place.label} needed a value before the cell's end ({REASONS[broke.kind].text}), which a jitted "
        f"function does not have: {clip(place.text, 60)}"
    )


_PROGRAMS = 32  # of one cell
_OPERATIONS = 3_000

_Key = tuple[int, int, int]


class CellPrograms(Observer):
    """Notes each program that a cell runs, once a line.

    A loop that runs a program a thousand times costs a look-up each time.

    Arguments:
      earlier: the traces that earlier cells recorded.
      namespace: the user's variables, whose names the inspector shows.
      cell: the number of the cell, once it is known.
    """

    def __init__(self, earlier: Earlier, namespace: Mapping[str, Any], cell: int | None = None):
        self.cell = cell
        self._earlier = earlier
        self._namespace = namespace
        self._own = CompilationBuilder()
        self._earlier_gatherings: dict[
            int | None, CompilationBuilder
        ] = {}  # by the cell that left it pending
        self._runs: dict[_Key, int] = {}
        self._own_keys: list[_Key] = []  # of this cell, in their order
        self._unlisted = 0
        self._operations = 0
        self._last: Sequence[PendingTrace] = ()  # that ran
        self._broke: BreakEvent | None = None  # the first trace break

    @property
    def is_empty(self) -> bool:
        """Whether the cell ran nothing, and left nothing."""
        return self._own.is_empty and not self._earlier_gatherings

    @property
    def has_run(self) -> bool:
        """Whether a program of the cell ran."""
        return len(self._own) > 0

    def ran(self, event: RunEvent) -> None:
        """Notes the program that ran, if it is new."""
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
        """Notes the first trace break."""
        self._broke = self._broke or event

    def _names(self) -> Names:
        try:
            return names_of(self._namespace)
        except Exception:  # one of the user's containers
            return {}

    def _gathering(self, pending: PendingTrace) -> CompilationBuilder:
        if pending not in self._earlier:
            return self._own
        return self._earlier_gatherings.setdefault(self._earlier[pending], CompilationBuilder())

    # ---- what was not run ----------------------------------------------------------------------------------

    def describe(self, waiting: Sequence[PendingTrace]) -> None:
        """Adds what is pending to the graphs."""
        names = names_of(self._namespace)
        for pending in waiting:
            self._gathering(pending).describe(pending, names)

    def compile(self, waiting: Sequence[PendingTrace], ahead: bool = True) -> None:
        """Makes the programs of what is pending, which is described already. Runs nothing.

        Arguments:
          ahead: see :func:`lazynb.xla.compilation_builder.dumping_passes`.
        """
        with dumping_passes(ahead):
            for pending in waiting:
                self._gathering(pending).compile(pending)

    def compile_for(self, waiting: Sequence[PendingTrace], target: Target, ahead: bool = True) -> Compilation:
        """What is pending of this cell as programs for another chip; of earlier cells if there is no more."""
        own = [pending for pending in waiting if pending not in self._earlier]
        names = names_of(self._namespace)
        return compile_pending_traces(own or waiting, names, ahead, target, cell=self.cell)

    def as_jit(
        self, waiting: Sequence[PendingTrace], leaves: Sequence[Any], is_constant: Callable[[Any], bool]
    ) -> JitProgram:
        """What ``jax.jit`` of the cell would compile, with ``leaves`` for its results.

        Arguments:
          is_constant: whether the cell itself made an array.

        Raises:
          NotOneFunction: the cell is no jitted function; the message says why.
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
        """As :meth:`as_jit`, once what is pending is described, made when it is called."""
        self._check_whole()
        return self._own.as_jit_later(leaves, is_constant)

    def _check_whole(self) -> None:
        """
        Raises:
          NotOneFunction: some of the cell ran already.
        """
        if self._broke is not None:
            raise NotOneFunction(break_reason(self._broke))
        if len(self._own):
            raise NotOneFunction("a part of the cell ran before its end")

    # ---- what is shown -------------------------------------------------------------------------------------

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
        """What the cell recorded, and beside it what earlier cells had left.

        Arguments:
          shown: traces of earlier cells, of which the last is shown if the cell recorded nothing; by default
            the last that ran.
          snapshot: the graph that is shown, if it was taken before.
          asked: what the cell gives; None if nobody knows.
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
        """What is shown, and the cell that recorded it."""
        held = shown or self._last
        if not self._own.is_empty or not held:
            return self._own, self.cell
        return self._gathering(held[-1]), self._earlier[held[-1]]


def _place(pending: PendingTrace) -> tuple[int, int]:
    """Where the last operation was asked for: it tells apart equal programs of different lines.

    It is the line, since Python 3.11 replaces instructions by faster ones, which changes their offsets.
    """
    for tensor in reversed(pending.records):
        code = tensor._code
        if isinstance(code, Origin):
            return id(code.code), code.line
        if code is not None:
            return id(code), line_of(code, tensor._lasti)
    return 0, 0
