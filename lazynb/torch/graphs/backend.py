"""The backend ``lazynb`` of ``torch.compile``: a graph for the forward pass, one for the backward pass."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from lazynb.torch.graphs.graph import Graph, forget


def compile_graph(module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """What Dynamo calls in place of ``module``.

    PyTorch makes graphs of it that write to nothing, with a backward pass if a gradient is wanted. Where it
    cannot, ``module`` is run as it is.
    """
    from torch._dynamo.backends.common import aot_autograd

    parts = _Parts()
    backend = aot_autograd(
        fw_compiler=parts.forward,
        bw_compiler=parts.backward,
        inference_compiler=parts.alone,
        partition_fn=parts.divide,
    )
    try:
        return backend(module, inputs)
    except Exception:  # an operation that PyTorch has no rule for, without which it can run
        return module.forward


# Dynamo calls it when it forgets what it has compiled. The user's lines hold its code, and that the graphs.
compile_graph.reset = forget  # type: ignore[attr-defined]


class _Parts:
    """The forward and the backward pass of a graph.

    Attributes:
      visible: how many outputs of the forward pass are not for the backward pass alone, the first ones.
    """

    def __init__(self) -> None:
        self.visible: int | None = None

    def alone(self, module: fx.GraphModule, inputs: Any) -> Any:
        """What is called for a graph without a backward pass."""
        return _boxed(Graph(module, "forward", None))

    def forward(self, module: fx.GraphModule, inputs: Any) -> Any:
        return _boxed(Graph(module, "forward", self.visible))

    def backward(self, module: fx.GraphModule, inputs: Any) -> Any:
        return _boxed(Graph(module, "backward", None))

    def divide(
        self, joint: fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **options: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """The forward and the backward pass of ``joint``.

        What the backward pass takes of an input it takes from the input: PyTorch sees then that somebody has
        written to that in between, and no view of it is a result of the forward pass.
        """
        from torch._functorch.partitioners import default_partition

        self.visible = num_fwd_outputs
        _look_again(joint.graph)
        joint.recompile()
        return default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)


def _boxed(graph: Graph) -> Any:
    """``graph`` as a function of a list."""
    from functorch.compile import make_boxed_func

    return make_boxed_func(graph.__call__)


def _look_again(graph: fx.Graph) -> None:
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
            if users and _is_view(node) and _origin(node).op == "placeholder":
                for user in users:
                    user.replace_input_with(node, looked(node))


def _is_forward(node: fx.Node) -> bool:
    return bool(node.meta.get("partitioner_tag") == "is_forward")


def _is_view(node: fx.Node) -> bool:
    """Whether a node is a view of its first argument, or one of several."""
    if node.target is operator.getitem:
        return _is_view(node.args[0])  # type: ignore[arg-type]
    return isinstance(node.target, torch._ops.OpOverload) and bool(node.target.is_view)


def _origin(node: fx.Node) -> fx.Node:
    """What ``node`` is a view of."""
    while _is_view(node):
        node = node.args[0]  # type: ignore[assignment]
    return node
