"""Names of the user's variables for values, found when somebody looks; recording never searches for them."""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FrameType, ModuleType
from typing import Any

import jax

from lazynb.record.tensor import LazyTensor
from lazynb.source import is_user_file, user_frame

_MAX_LEAVES = 20_000
_HIDDEN_IN_NOTEBOOKS = {"In", "exit", "quit", "get_ipython", "open"}


namespaces: list[Callable[[], Mapping[str, Any]]] = []
"""Further places to look for variables: a notebook's namespace, which no frame shows while IPython displays a
result."""


def user_namespace() -> dict[str, Any]:
    """The variables that the user's running line can see: a notebook's, globals, then locals."""
    frame, _ = user_frame(sys._getframe(1))
    seen: dict[str, Any] = {}
    for namespace in namespaces:
        seen.update(namespace())
    if is_user_file(frame.f_code.co_filename):
        seen.update(frame.f_globals)
        seen.update(_locals(frame))
    return seen


def _locals(frame: FrameType) -> dict[str, Any]:
    """The frame's local variables. Until Python 3.13, reading them leaves a copy in the frame, which would
    keep the values alive: it is emptied, unless the function or a debugger may look at it too."""
    copy = frame.f_locals
    found = dict(copy)
    if (
        sys.version_info < (3, 13)
        and frame.f_code.co_flags & inspect.CO_OPTIMIZED
        and frame.f_trace is None
        and not _sees_locals(frame.f_code)
    ):
        copy.clear()
    return found


def _sees_locals(code: CodeType) -> bool:
    """Whether ``code`` uses a function that gives the copy. (What is only an attribute of that name, as in
    the assertions that pytest rewrites, keeps nothing.)"""
    names = {"locals", "vars", "dir", "eval", "exec"}
    return not names.isdisjoint(code.co_names) and any(
        one.argval in names
        for one in dis.get_instructions(code)
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    )


def names_of(namespace: Mapping[str, Any]) -> dict[int, tuple[str, ...]]:
    """By ``id`` of an array or tensor, the names under which ``namespace`` reaches it, the simplest first.

    Containers are looked into: ``params['Dense_0']['kernel']``.
    """
    found: dict[int, list[str]] = {}
    leaves = 0
    for name, value in namespace.items():
        if name.startswith("_") or name in _HIDDEN_IN_NOTEBOOKS or isinstance(value, (ModuleType, type)):
            continue
        for path, leaf in _leaves(value):
            leaves += 1
            if leaves > _MAX_LEAVES:
                break
            for identity in _identities(leaf):
                found.setdefault(identity, []).append(name + path)
    return {identity: _best(names) for identity, names in found.items()}


def _best(names: list[str]) -> tuple[str, ...]:
    own = [
        name for name in names if not name.startswith("Out[")
    ]  # a notebook's Out[3] is better than no name
    return tuple(sorted(own or names, key=lambda name: (name.count("["), len(name))))


def _identities(leaf: Any) -> Iterator[int]:
    yield id(leaf)
    if isinstance(leaf, LazyTensor) and leaf._value is not None:
        yield id(leaf._value)


def _leaves(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, jax.Array):
        yield "", value
    elif (
        isinstance(value, (dict, list, tuple))
        or hasattr(type(value), "tree_flatten")
        or _is_registered(value)
    ):
        yield from _walk(value)


def _walk(tree: Any) -> Iterator[tuple[str, Any]]:
    """The arrays in a container, with the path of each. What cannot be flattened (a dict whose keys have no
    order) has no names to give, nor has what a container that holds itself would repeat.

    JAX flattens one level at a time: where something further in raises, jaxlib forgets to count a level of
    recursion down (0.10, 0.12), and after some hundred times nothing runs any more in the thread.
    """
    stack: list[tuple[str, Any, tuple[int, ...]]] = [("", tree, ())]
    visited = 0
    while stack and visited < _MAX_LEAVES:
        path, node, above = stack.pop()
        visited += 1
        if isinstance(node, jax.Array):
            yield path, node
            continue
        if id(node) in above:
            continue
        asked = iter((False,))  # the node itself, then its children
        try:
            children = jax.tree_util.tree_leaves_with_path(
                node, is_leaf=lambda _, asked=asked: next(asked, True)
            )
        except Exception:
            continue
        stack.extend(
            (path + jax.tree_util.keystr(key), child, (*above, id(node)))
            for key, child in reversed(children)
            if child is not node
        )


def _is_registered(value: Any) -> bool:
    """Whether ``value`` is a pytree node of a user's class (a Flax state, an Equinox module)."""
    kind = type(value)
    if kind.__module__ in ("builtins", "types") or (
        callable(value) and not hasattr(value, "__dataclass_fields__")
    ):
        return False
    return not jax.tree_util.all_leaves([value])
