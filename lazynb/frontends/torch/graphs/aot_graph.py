"""A graph of PyTorch's operations that is called: traced once for each layout of its inputs."""

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

_MAX_PROGRAMS = 64  # programs of one graph; beyond it, all are forgotten
_PLAIN = frozenset((int, float, bool, str, type(None)))
_ANY_DEVICE: Any = torch._C.DispatchKey.CompositeExplicitAutograd


class _Interpreter(fx.Interpreter):
    """Runs a graph's operations, each below frames at the user's line.

    Attributes:
      constants: the tensors that the graph holds, in place of which others may be put.
    """

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.extra_traceback = False  # which changes the text of errors
        self._lines = {node: lines_of(node) for node in module.graph.nodes if node.op == "call_function"}
        self.held = {
            str(node.target): x
            for node in module.graph.nodes
            if node.op == "get_attr" and isinstance(x := self.fetch_attr(str(node.target)), Tensor)
        }
        self._in_place: dict[str, Any] = {}

    def run_with(self, given: list[Any]) -> Any:
        """The graph's outputs for its inputs and what stands in place of :attr:`held`."""
        count = len(given) - len(self.held)
        run = copy.copy(self)  # which has the values of this run, beside those of other threads
        run._in_place = dict(zip(self.held, given[count:], strict=True))
        return run.run(*given[:count])

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        found = self._in_place.get(target)
        return super().get_attr(target, args, kwargs) if found is None else found

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(target, torch._ops.HigherOrderOperator):  # which knows no tensors of another class
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
    """A graph of PyTorch's operations that write to none of its inputs.

    Each call is one operation of the trace. What cannot be traced is recorded operation by operation.

    Arguments:
      visible: how many outputs the user may see, the first ones; None for all.
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
        """The program for such inputs; None if there is none."""
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
            except Exception:  # recorded as it is, the graph raises what there is to raise
                self._programs[known] = None
        return self._programs[known]


def _is_only_moved(node: fx.Node) -> bool:
    """Whether an input is only copied to device ``jax``: then it may be there before."""
    copies = [user.target is torch.ops.aten._to_copy.default for user in node.users]
    devices = [user.kwargs.get("device") for user in node.users]
    return bool(copies) and all(copies) and all(getattr(one, "type", None) == DEVICE.type for one in devices)


_graphs: weakref.WeakSet[CallableGraph] = weakref.WeakSet()


def clear_programs() -> None:
    """Forgets all programs. Graphs that are still called are traced again."""
    for graph in list(_graphs):
        graph._programs.clear()


def _call_key(given: Sequence[Any]) -> Any:
    """What identifies a call; None if an input is of another kind than the inputs of a program are."""
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


# ---- The backend ``lazynb`` of ``torch.compile``: a graph for the forward pass, one for the backward pass


def compile_graph(module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """What Dynamo calls in place of ``module``.

    PyTorch makes graphs of it that write to nothing, with a backward pass if a gradient is wanted. Where it
    cannot, ``module`` is run as it is.
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
    except Exception:  # an operation that PyTorch has no rule for, without which it can run
        return module.forward


# Dynamo calls it when it forgets what it has compiled. The user's lines hold its code, and that the graphs.
compile_graph.reset = clear_programs  # type: ignore[attr-defined]


class _GraphCompiler:
    """The forward and the backward pass of a graph.

    Attributes:
      visible: how many outputs of the forward pass are not for the backward pass alone, the first ones.
    """

    def __init__(self) -> None:
        self.visible: int | None = None

    def alone(self, module: fx.GraphModule, inputs: Any) -> Any:
        """What is called for a graph without a backward pass."""
        return _boxed(CallableGraph(module, "forward", None))

    def forward(self, module: fx.GraphModule, inputs: Any) -> Any:
        return _boxed(CallableGraph(module, "forward", self.visible))

    def backward(self, module: fx.GraphModule, inputs: Any) -> Any:
        return _boxed(CallableGraph(module, "backward", None))

    def partition(
        self, joint: fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **options: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """The forward and the backward pass of ``joint``.

        What the backward pass takes of an input it takes from the input: PyTorch sees then that somebody has
        written to that in between, and no view of it is a result of the forward pass.
        """
        from torch._functorch.partitioners import default_partition

        self.visible = num_fwd_outputs
        _duplicate_input_views(joint.graph)
        joint.recompile()
        return default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)


def _boxed(graph: CallableGraph) -> Any:
    """``graph`` as a function of a list."""
    from functorch.compile import make_boxed_func

    return make_boxed_func(graph.__call__)


def _duplicate_input_views(graph: fx.Graph) -> None:
    """Puts views of their own in place of the views of inputs that the backward pass takes."""
    nodes = list(graph.nodes)
    last = max((at for at, node in enumerate(nodes) if _is_forward(node)), default=len(nodes) - 1)
    later = set(nodes[last + 1 :])
    again: dict[fx.Node, fx.Node] = {}

    def looked(node: fx.Node) -> fx.Node:
        """The backward pass's own ``node``."""
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
    """Whether a node is a view of its first argument, or one of several."""
    if node.target is operator.getitem:
        return _is_view(node.args[0])  # type: ignore[arg-type]
    return isinstance(node.target, torch._ops.OpOverload) and bool(node.target.is_view)


def _view_base(node: fx.Node) -> fx.Node:
    """What ``node`` is a view of."""
    while _is_view(node):
        node = node.args[0]  # type: ignore[assignment]
    return node
