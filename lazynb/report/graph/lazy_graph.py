"""``lazynb.graph`` and `Graph`: pending graphs, their displays, and the keys of displayed tensors."""

from __future__ import annotations

import itertools
import secrets
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lazynb import jax_compat as jc
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.pending_trace import PendingTrace, pending_dependencies
from lazynb.recording.snapshot.snapshot_nodes import Node, Snapshot
from lazynb.recording.snapshot.trace_description import SnapshotBuilder
from lazynb.recording.snapshot.variable_names import names_of, user_namespace
from lazynb.report.graph.graph_boxes import build
from lazynb.report.graph.graph_html import to_html
from lazynb.report.graph.graph_json import MIME_TYPE, to_json
from lazynb.report.graph.graph_svg import to_svg
from lazynb.report.graph.graph_text import to_dot, to_text
from lazynb.report.graph.graph_view import GraphView
from lazynb.running.flush import execution, tensors_in
from lazynb.running.jaxpr_program import Program, lower
from lazynb.running.read_cost import ReadCost, read_cost
from lazynb.running.record_table import plural
from lazynb.running.time_log import analysis
from lazynb.user_code.text_format import escape_invisible

DISPLAYED_BOXES = 40
"""Default limit of boxes in a display: fits a screen."""

_JSON_NODES = 500  # most nodes in a display's JSON, which is saved with the notebook

_DRAWN_OPERATIONS = 5_000  # most in a drawing that the user did not ask for: about a second


class Graph:
    """A snapshot of a pending graph. No method runs an operation.

    Arguments:
        snapshot: the trace.
        title: such as ``'y: float32[128,10]'``.
        jaxpr, stablehlo: functions that make the graph's jaxpr and StableHLO text.
        pending: returns the tensors of the graph that are still pending.
        outlook: what reading these tensors would have run at the time of the snapshot; None if nothing, or if
          unknown.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        title: str = "",
        *,
        jaxpr: Callable[[], Any] | None = None,
        stablehlo: Callable[[], str] | None = None,
        pending: Callable[[], list[Any]] | None = None,
        outlook: ReadCost | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.title = title
        self._jaxpr = jaxpr
        self._stablehlo = stablehlo
        self._pending = pending
        self.outlook = outlook
        self.hint = ""  # the code that gives the value
        self.shown = ""  # the key by which a page requests the value
        self._views: dict[tuple[int | None, bool], GraphView] = {}

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Inputs and operations, in the order in which they were recorded."""
        return self.snapshot.nodes

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The input arrays and scalars of the operations."""
        return tuple(node for node in self.nodes if node.kind == "input")

    @property
    def outputs(self) -> tuple[Node, ...]:
        """The operations with a result that the user can still reach."""
        return tuple(node for node in self.nodes if node.kind == "op" and node.output)

    def __len__(self) -> int:
        """The number of operations."""
        return self.snapshot.operations()

    def __bool__(self) -> bool:
        return True  # an empty graph is a graph

    def pending(self) -> list[Any]:
        """The tensors of the graph that are still alive and pending."""
        return self._pending() if self._pending is not None else []

    def view(self, *, limit: int | None = 150, expand: bool = False) -> GraphView:
        """The view model: at most ``limit`` boxes; single operations if ``expand``."""
        key = limit, expand
        if key not in self._views:  # a display uses one view for text, HTML and JSON
            self._views[key] = build(self.snapshot, limit=limit, expand=expand)
        return self._views[key]

    def to_jaxpr(self) -> Any:
        """The graph as a ``jax.extend.core.ClosedJaxpr``."""
        return _call(self._jaxpr, "jaxpr")

    def to_stablehlo(self) -> str:
        """The graph as StableHLO text, before XLA's passes."""
        return str(_call(self._stablehlo, "StableHLO"))

    def to_dot(self, *, limit: int | None = 150, expand: bool = False) -> str:
        """DOT source. Raises ImportError without the ``graphviz`` package."""
        return to_dot(self.view(limit=limit, expand=expand))

    def to_svg(self, *, limit: int | None = 150, expand: bool = False) -> str:
        """An SVG document. Raises `LayoutUnavailable` without a working layout engine."""
        return to_svg(self.view(limit=limit, expand=expand))

    def to_json(self, *, limit: int | None = 150, expand: bool = False) -> dict[str, Any]:
        """Plain data with all nodes; ``"version"`` increases with each incompatible change."""
        return to_json(self.view(limit=limit, expand=expand), title=self.title, outlook=self.outlook)

    def __str__(self) -> str:
        heading = f"{escape_invisible(self.title)}\n" if self.title else ""
        return heading + to_text(self.view(limit=DISPLAYED_BOXES), outlook=self._read_cost_text)

    @property
    def _read_cost_text(self) -> str:
        if self.outlook is None:
            return ""
        return f"{self.outlook.text} {self.hint}".rstrip()

    def __repr__(self) -> str:
        # Debuggers and loggers call this, so it returns text even if drawing fails.
        return _or_none(self.__str__) or f"<Graph of {plural(len(self), 'operation')}>"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        """IPython's rich display: text, HTML, and the data for lazynb's own renderer."""
        forms: dict[str, Callable[[], Any]] = {
            "text/plain": self.__repr__,
            "text/html": lambda: to_html(
                self.view(limit=DISPLAYED_BOXES), heading=self.title, outlook=self._read_cost_text
            ),
            MIME_TYPE: lambda: {
                **to_json(
                    self.view(limit=DISPLAYED_BOXES),
                    title=self.title,
                    nodes=_JSON_NODES,
                    outlook=self.outlook,
                ),
                **({"hint": self.hint} if self.hint else {}),
                **({"key": self.shown} if self.shown else {}),
            },
        }
        wanted = set(include or forms).difference(exclude or ())
        bundle = {mime: _or_none(make) for mime, make in forms.items() if mime in wanted}
        return {mime: form for mime, form in bundle.items() if form is not None}


def _call(thunk: Callable[[], Any] | None, form: str) -> Any:
    if thunk is None:
        raise ValueError(f"this graph was made without its {form}")
    return thunk()


def _or_none(make: Callable[[], Any]) -> Any:
    """The result of ``make``, or None if it fails: a display never raises into the user's cell."""
    try:
        return make()
    except Exception:
        return None


# ---- Keys of displayed tensors -----------------------------------------------------------------------------
# A page requests a pending value by its key. Keys contain a random token of the kernel, so a drawing that
# another kernel stored finds no tensor.


class _PageConnection:
    """``active``: whether a page may request values. Otherwise drawings get no keys, to be reproducible."""

    active = False


page_connection = _PageConnection()

_KERNEL = secrets.token_hex(8)
_numbers = itertools.count(1)
_shown: dict[str, weakref.ref[LazyTensor]] = {}
_keys: dict[int, str] = {}  # by id of a tensor in _shown


def key_of(tensor: LazyTensor) -> str:
    """The key of ``tensor``, held by a weak reference; empty without a page."""
    if not page_connection.active:
        return ""
    known = _keys.get(id(tensor))
    if known is not None:
        return known
    key, number = f"{_KERNEL}-{next(_numbers)}", id(tensor)

    def forget(_: object) -> None:
        _shown.pop(key, None)
        _keys.pop(number, None)

    _shown[key], _keys[number] = weakref.ref(tensor, forget), key
    return key


def tensor_of_key(key: object) -> LazyTensor | None:
    """The tensor of a key; None if the user cannot reach it, or if the key is from another kernel."""
    reference = _shown.get(key) if isinstance(key, str) else None
    pending = _pending_of(reference) if reference is not None else None
    if pending is not None:  # the trace refers to it, so check that the user does too
        return next((tensor for tensor in pending.live() if tensor is reference()), None)  # type: ignore[misc]
    return reference() if reference is not None else None


def _pending_of(reference: weakref.ref[LazyTensor]) -> PendingTrace | None:
    """The pending trace of a tensor. A caller must hold no strong reference to the tensor."""
    tensor = reference()
    return tensor._pending if tensor is not None else None


def is_own_key(key: object) -> bool:
    """Whether this kernel made the key."""
    return isinstance(key, str) and key.startswith(f"{_KERNEL}-")


# ---- Graphs of pending tensors -----------------------------------------------------------------------------


@analysis
def graph_of(tensors: Sequence[Any], namespace: Mapping[str, Any]) -> Graph:
    """The graph of pytrees of tensors, or without any, of all pending operations of this thread.

    Arguments:
      namespace: the user's variables, for the names in the drawing.
    """
    leaves = tensors_in(tensors)
    names = names_of(namespace)
    traces = execution.waiting(tensors)
    if tensors:
        wanted = _pending_ones(leaves)
        outputs = wanted
        cost = read_cost(wanted) if wanted else None
    else:
        wanted = None
        outputs = [tensor for trace in traces for tensor in trace.live()]
        cost = read_cost([])
    recorded = _TracePrograms(traces, outputs)
    description = SnapshotBuilder(traces, names, opens=True)
    return Graph(
        description.snapshot(wanted),
        _title(tensors, leaves, names),
        jaxpr=recorded.jaxpr,
        stablehlo=recorded.stablehlo,
        outlook=_with_nested_operations(cost, description) if cost is not None else None,
        pending=partial(_still_pending, [weakref.ref(tensor) for tensor in outputs]),
    )


def _with_nested_operations(cost: ReadCost, description: SnapshotBuilder) -> ReadCost:
    """``cost`` with the operations inside jitted functions and loops counted, as the graph shows them."""
    nodes = description.snapshot().nodes
    if not any(node.calls for node in nodes):
        return cost
    return replace(cost, operations=sum(node.kind == "op" and not node.dead for node in nodes))


def _pending_ones(tensors: Sequence[LazyTensor]) -> list[LazyTensor]:
    return [tensor for tensor in tensors if tensor._pending is not None]


def _still_pending(references: Sequence[weakref.ref[LazyTensor]]) -> list[LazyTensor]:
    living = [reference() for reference in references]
    return _pending_ones([tensor for tensor in living if tensor is not None])


def _title(tensors: Sequence[Any], leaves: Sequence[LazyTensor], names: Mapping[int, tuple[str, ...]]) -> str:
    if not tensors or len(leaves) != 1:
        return ""
    tensor = leaves[0]
    title = tensor.aval.str_short()
    if not tensor.is_pending:
        title += " (computed)"
    own_names = names.get(id(tensor), ())
    return f"{own_names[0]}: {title}" if own_names else title


class _TracePrograms:
    """The traces behind a graph, without references to tensors: a kept graph keeps no value alive."""

    def __init__(self, traces: Sequence[PendingTrace], outputs: Sequence[LazyTensor]):
        number = {id(pending): index for index, pending in enumerate(traces)}
        self._ends = [pending.state for pending in traces]
        self._inputs = [[self._input(value, number) for value in pending.inputs] for pending in traces]
        self._outputs = [(number[id(tensor._pending)], tensor._slot) for tensor in outputs]
        self._config = traces[-1].root.config if traces else None

    @staticmethod
    def _input(value: Any, number: Mapping[int, int]) -> Any:
        """The (trace, slot) that computes an input, or its abstract value."""
        if isinstance(value, LazyTensor) and value._pending is not None:
            return number[id(value._pending)], value._slot
        return jc.abstract(value._value if isinstance(value, LazyTensor) else value)

    def _assemble(self) -> tuple[Any, list[Any]]:
        program, arguments = Program(), []
        variables: list[dict[int, Any]] = []
        for end, inputs in zip(self._ends, self._inputs, strict=True):
            path = end.path()
            slots = [state.first for state in path if state.operation is None]
            given = {}
            for slot, source in zip(slots, inputs, strict=True):
                if isinstance(source, tuple):
                    trace, result = source
                    given[slot] = variables[trace][result]
                else:
                    arguments.append(source)
            variables.append(program.add(path, given))
        return program.jaxpr([variables[trace][slot] for trace, slot in self._outputs]), arguments

    def jaxpr(self) -> Any:
        """All traces as one closed jaxpr."""
        return self._assemble()[0]

    def stablehlo(self) -> str:
        """All traces as one StableHLO module, with name stacks as locations."""
        if not self._ends:
            return ""
        jaxpr, arguments = self._assemble()
        return lower(jaxpr, arguments, self._config).as_text(debug_info=True)


def mime_bundle_of(tensor: LazyTensor) -> dict[str, Any]:
    """The MIME bundle of a pending tensor: its graph, with the variables in scope as names."""
    namespace = user_namespace()
    names = [name for name in names_of(namespace).get(id(tensor), ()) if name.isidentifier()]
    hint = value_hint(names[0] if names else "")
    count = sum(map(len, pending_dependencies([tensor])))
    if count > _DRAWN_OPERATIONS:
        title = escape_invisible(_title([tensor], [tensor], names_of(namespace)))
        draws = f"%graph {names[0] if names else '_'} draws them."
        return {"text/plain": f"{title}\n{count:,} operations pending. {hint} {draws}"}
    graph = graph_of([tensor], namespace)
    if tensor.is_pending:
        graph.hint = hint
        graph.shown = key_of(tensor)
    return graph._repr_mimebundle_()


def value_hint(name: str) -> str:
    """A sentence on how to get the value of variable ``name``, or of ``_`` without a name."""
    return f"print({name or '_'}) gives its value; %%compile shows what XLA makes of its cell."


def graph(*tensors: Any) -> Graph:
    """The graph of the operations that ``tensors`` (or pytrees of them) depend on. Runs no operation.

    Without arguments, the graph of all pending operations.

    Returns:
      A :class:`Graph`: ``nodes``, ``inputs``, ``outputs``, ``len()``, ``to_jaxpr()``, ``to_stablehlo()``,
      ``to_dot()``, ``to_svg()``, ``to_json()``; a notebook displays it as a drawing.
    """
    return graph_of(tensors, user_namespace())
