"""The ``torch.compile`` backend ``lazynb``: callable graphs, traced once per layout of their inputs."""

from __future__ import annotations

import copy
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from lazynb import jax_compat as jc
from lazynb.frontends.torch.graph_tracing import graph_context, lines_of
from lazynb.frontends.torch.graphs.traced_graph import TracedProgram, is_token
from lazynb.frontends.torch.torch_tensor import DEVICE, Tensor

_MAX_PROGRAMS = 64  # programs per graph; beyond it, all are dropped
_PLAIN = frozenset((int, float, bool, str, type(None)))
_ANY_DEVICE: Any = torch._C.DispatchKey.CompositeExplicitAutograd


class _Interpreter(fx.Interpreter):
    """Runs a graph's operations, each below frames at the user's line.

    Attributes:
      held: the constant tensors of the graph, by name; :meth:`run_with` can replace them.
    """

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.extra_traceback = False  # it would change error texts
        self._lines = {node: lines_of(node) for node in module.graph.nodes if node.op == "call_function"}
        self.held = {
            str(node.target): x
            for node in module.graph.nodes
            if node.op == "get_attr" and isinstance(x := self.fetch_attr(str(node.target)), Tensor)
        }
        self._in_place: dict[str, Any] = {}

    def run_with(self, given: list[Any]) -> Any:
        """The graph's outputs for its inputs, followed by the replacements for :attr:`held`."""
        count = len(given) - len(self.held)
        run = copy.copy(self)  # one copy per run, for thread safety
        run._in_place = dict(zip(self.held, given[count:], strict=True))
        return run.run(*given[:count])

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        found = self._in_place.get(target)
        return super().get_attr(target, args, kwargs) if found is None else found

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(target, torch._ops.HigherOrderOperator):  # it rejects tensor subclasses
            target = target.py_kernels.get(_ANY_DEVICE, target)
        return target(*args, **kwargs)

    def run_node(self, n: fx.Node) -> Any:
        lines = self._lines.get(n)
        if lines is None:
            return super().run_node(n)
        if graph_context.graph is not None:
            graph_context.graph.lines = lines
        run = super().run_node
        return lines.run(lambda: run(n))


class CallableGraph:
    """A graph of PyTorch operations that writes to none of its inputs.

    Each call is one operation of the trace. A graph that cannot be traced is recorded operation by operation.

    Arguments:
      visible: the number of leading outputs that the user may see; None for all.
    """

    def __init__(self, module: fx.GraphModule, name: str, visible: int | None) -> None:
        self._interpreter = _Interpreter(module)
        self._name, self._visible = name, visible
        self._programs: dict[Any, TracedProgram | None] = {}
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        self._moved = [number for number, node in enumerate(placeholders) if _is_only_moved(node)]
        _graphs.add(self)

    def __call__(self, *inputs: Any) -> Any:
        given = [*inputs, *self._interpreter.held.values()]
        for number in self._moved:
            if given[number].__class__ is torch.Tensor and given[number].device.type == "cpu":
                given[number] = given[number].to(DEVICE)
        key = _call_key(given)
        program = None if key is None else self._program(key, given)
        if program is not None:
            return program(given)
        with torch.no_grad():
            return self._interpreter.run_with(given)

    def _program(self, key: Any, given: Sequence[Any]) -> TracedProgram | None:
        """The program for such inputs, or None."""
        program = self._traced(key, given, True)
        if program is None or program.holds(given):
            return program
        return self._traced(key, given, False)

    def _traced(self, key: Any, given: Sequence[Any], assumes: bool) -> TracedProgram | None:
        known = (assumes, key)
        if known not in self._programs:
            if len(self._programs) >= _MAX_PROGRAMS:
                self._programs.clear()
            try:
                run = self._interpreter.run_with
                self._programs[known] = TracedProgram(run, self._name, given, assumes, self._visible)
            except Exception:  # the untraced graph then raises the proper error
                self._programs[known] = None
        return self._programs[known]


def _is_only_moved(node: fx.Node) -> bool:
    """Whether the graph only copies the input to device ``jax``, so that it can be copied before the call."""
    copies = [user.target is torch.ops.aten._to_copy.default for user in node.users]
    devices = [user.kwargs.get("device") for user in node.users]
    return bool(copies) and all(copies) and all(getattr(one, "type", None) == DEVICE.type for one in devices)


_graphs: weakref.WeakSet[CallableGraph] = weakref.WeakSet()


def clear_programs() -> None:
    """Drops all programs. Graphs that are called again are traced again."""
    for graph in list(_graphs):
        graph._programs.clear()


def _call_key(given: Sequence[Any]) -> Any:
    """The key of a call; None if an input has an unsupported type."""
    parts: list[Any] = [jc.raw_context()]
    for x in given:
        if x.__class__ is Tensor:
            parts.append(x._layout)
        elif x.__class__ in _PLAIN:
            parts.append((x.__class__, x))
        elif is_token(x):
            parts.append(None)
        else:
            return None
    return tuple(parts)


# ---- The ``torch.compile`` backend ``lazynb`` --------------------------------------------------------------


def compile_graph(module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Compiles ``module`` for Dynamo, with a backward graph if a gradient is needed.

    PyTorch (AOTAutograd) makes graphs without writes. If that fails, ``module`` runs unchanged.
    """
    from torch._dynamo.backends.common import aot_autograd

    parts = _GraphCompiler()
    backend = aot_autograd(
        fw_compiler=parts.forward,
        bw_compiler=parts.backward,
        inference_compiler=parts.alone,
        partition_fn=parts.partition,
    )
    try:
        return backend(module, inputs)
    except Exception:  # PyTorch lacks a rule for an operation
        return module.forward


# Called by Dynamo's reset. The user's code objects keep the compiled code alive, which keeps the graphs.
compile_graph.reset = clear_programs  # type: ignore[attr-defined]


class _GraphCompiler:
    """The forward and backward graphs of one compilation.

    Attributes:
      visible: the number of leading forward outputs that are not only for the backward pass.
    """

    def __init__(self) -> None:
        self.visible: int | None = None

    def alone(self, module: fx.GraphModule, inputs: Any) -> Any:
        """Compiles a graph without a backward pass."""
        return _boxed(CallableGraph(module, "forward", None))

    def forward(self, module: fx.GraphModule, inputs: Any) -> Any:
        return _boxed(CallableGraph(module, "forward", self.visible))

    def backward(self, module: fx.GraphModule, inputs: Any) -> Any:
        return _boxed(CallableGraph(module, "backward", None))

    def partition(
        self, joint: fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **options: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Splits ``joint`` into the forward and the backward pass.

        The backward pass recomputes views of inputs from the inputs. So PyTorch detects writes to an input
        between the passes, and the forward pass returns no view of it.
        """
        from torch._functorch.partitioners import default_partition

        self.visible = num_fwd_outputs
        _duplicate_input_views(joint.graph)
        joint.recompile()
        return default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)


def _boxed(graph: CallableGraph) -> Any:
    from functorch.compile import make_boxed_func

    return make_boxed_func(graph.__call__)


def _duplicate_input_views(graph: fx.Graph) -> None:
    """Gives the backward pass its own copies of the views of inputs that it uses."""
    nodes = list(graph.nodes)
    last = max((at for at, node in enumerate(nodes) if _is_forward(node)), default=len(nodes) - 1)
    later = set(nodes[last + 1 :])
    again: dict[fx.Node, fx.Node] = {}

    def looked(node: fx.Node) -> fx.Node:
        """The backward pass's copy of ``node``."""
        if node in later or not _is_view(node):
            return node
        if node not in again:
            again[node] = graph.node_copy(node, looked)
            again[node].meta["partitioner_tag"] = "is_backward"
        return again[node]

    with graph.inserting_before(nodes[last + 1] if later else None):
        for node in nodes[: last + 1]:
            users = [user for user in node.users if user in later and user.op != "output"]
            if users and _is_view(node) and _view_base(node).op == "placeholder":
                for user in users:
                    user.replace_input_with(node, looked(node))


def _is_forward(node: fx.Node) -> bool:
    return bool(node.meta.get("partitioner_tag") == "is_forward")


def _is_view(node: fx.Node) -> bool:
    """Whether a node is a view of its first argument, or an item of a list of views."""
    if node.target is operator.getitem:
        return _is_view(node.args[0])  # type: ignore[arg-type]
    return isinstance(node.target, torch._ops.OpOverload) and bool(node.target.is_view)


def _view_base(node: fx.Node) -> fx.Node:
    """The tensor of which ``node`` is a view, through all view nodes."""
    while _is_view(node):
        node = node.args[0]  # type: ignore[assignment]
    return node
