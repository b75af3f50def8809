"""A graph of PyTorch's operations that is called: traced once for each layout of its inputs."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from lazynb import _jax as jc
from lazynb.torch.dispatch.lines import lines_of
from lazynb.torch.dispatch.traced import here
from lazynb.torch.graphs.outputs import is_token
from lazynb.torch.graphs.program import Program
from lazynb.torch.tensor import DEVICE, Tensor

_MOST = 64  # programs of one graph; beyond it, all are forgotten
_PLAIN = frozenset((int, float, bool, str, type(None)))
_DENSE: Any = torch._C.DispatchKey.CompositeExplicitAutograd


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
            target = target.py_kernels.get(_DENSE, target)
        return target(*args, **kwargs)

    def run_node(self, n: fx.Node) -> Any:
        lines = self._lines.get(n)
        if lines is None:
            return super().run_node(n)
        if here.graph is not None:
            here.graph.lines = lines
        run = super().run_node
        return lines.run(lambda: run(n))


class Graph:
    """A graph of PyTorch's operations that write to none of its inputs.

    Each call is one operation of the trace. What cannot be traced is recorded operation by operation.

    Arguments:
      visible: how many outputs the user may see, the first ones; None for all.
    """

    def __init__(self, module: fx.GraphModule, name: str, visible: int | None) -> None:
        self._interpreter = _Interpreter(module)
        self._name, self._visible = name, visible
        self._programs: dict[Any, Program | None] = {}
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        self._moved = [number for number, node in enumerate(placeholders) if _is_moved(node)]
        _graphs.add(self)

    def __call__(self, *inputs: Any) -> Any:
        given = [*inputs, *self._interpreter.held.values()]
        for number in self._moved:
            if given[number].__class__ is torch.Tensor and given[number].device.type == "cpu":
                given[number] = given[number].to(DEVICE)
        key = _key(given)
        program = None if key is None else self._program(key, given)
        if program is not None:
            return program(given)
        with torch.no_grad():
            return self._interpreter.run_with(given)

    def _program(self, key: Any, given: Sequence[Any]) -> Program | None:
        """The program for such inputs; None if there is none."""
        program = self._traced(key, given, True)
        if program is None or program.holds(given):
            return program
        return self._traced(key, given, False)

    def _traced(self, key: Any, given: Sequence[Any], assumes: bool) -> Program | None:
        known = (assumes, key)
        if known not in self._programs:
            if len(self._programs) >= _MOST:
                self._programs.clear()
            try:
                run = self._interpreter.run_with
                self._programs[known] = Program(run, self._name, given, assumes, self._visible)
            except Exception:  # recorded as it is, the graph raises what there is to raise
                self._programs[known] = None
        return self._programs[known]


def _is_moved(node: fx.Node) -> bool:
    """Whether an input is only copied to device ``jax``: then it may be there before."""
    copies = [user.target is torch.ops.aten._to_copy.default for user in node.users]
    devices = [user.kwargs.get("device") for user in node.users]
    return bool(copies) and all(copies) and all(getattr(one, "type", None) == DEVICE.type for one in devices)


_graphs: weakref.WeakSet[Graph] = weakref.WeakSet()


def forget() -> None:
    """Forgets all programs. Graphs that are still called are traced again."""
    for graph in list(_graphs):
        graph._programs.clear()


def _key(given: Sequence[Any]) -> Any:
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
