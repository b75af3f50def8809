"""The user's variable names of values, searched only for a display or a cache miss."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import jax

from lazynb import jax_compat as jc
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.user_code.call_stack import calling_frame, user_frame
from lazynb.user_code.code_ownership import is_user_code
from lazynb.user_code.instructions import locals_of

_MAX_LEAVES = 20_000
_HIDDEN_IN_NOTEBOOKS = {"In", "exit", "quit", "get_ipython", "open"}


namespaces: list[Callable[[], Mapping[str, Any]]] = []
"""More namespaces of the user: a notebook's, as IPython displays results outside of any user frame."""


def user_namespace() -> dict[str, Any]:
    """Returns the variables visible to the user's running line: the notebook's, globals, then locals."""
    frame, _, _ = user_frame(calling_frame(1))
    seen: dict[str, Any] = {}
    for namespace in namespaces:
        seen.update(namespace())
    if is_user_code(frame.f_code):
        seen.update(frame.f_globals)
        seen.update(locals_of(frame))
    return seen


def names_of(namespace: Mapping[str, Any]) -> dict[int, tuple[str, ...]]:
    """Returns the names of each array and tensor in ``namespace``, the simplest first, by ``id`` of the
    value.

    Containers are searched too: ``params['Dense_0']['kernel']``.
    """
    searching.active = True
    try:
        return _names_of(namespace)
    finally:
        searching.active = False


class _Searching(threading.local):
    """Whether this thread searches names. A container that creates its arrays lazily then has none."""

    active = False


searching = _Searching()


def _names_of(namespace: Mapping[str, Any]) -> dict[int, tuple[str, ...]]:
    names: dict[int, list[str]] = {}
    leaves = 0
    for name, value in namespace.items():
        if name.startswith("_") or name in _HIDDEN_IN_NOTEBOOKS or isinstance(value, (ModuleType, type)):
            continue
        for path, leaf in _leaves(value):
            leaves += 1
            if leaves > _MAX_LEAVES:
                break
            for identity in _identities(leaf):
                names.setdefault(identity, []).append(name + path)
    return {identity: _best(paths) for identity, paths in names.items()}


def _best(names: list[str]) -> tuple[str, ...]:
    """Returns the user's names, the simplest first; without any, a notebook's such as ``Out[3]``."""
    own = [name for name in names if not name.startswith("Out[")]
    return tuple(sorted(own or names, key=lambda name: (name.count("["), len(name))))


def _identities(leaf: Any) -> Iterator[int]:
    yield id(leaf)
    if isinstance(leaf, LazyTensor) and leaf._value is not None:
        yield id(leaf._value)


def _leaves(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, jax.Array):
        yield "", value
    elif jc.is_container(value):
        if value.base is None and value.held is not None:
            yield "", value.held
    elif _is_container(value):
        yield from _walk(value)


def _is_container(value: Any) -> bool:
    if isinstance(value, (dict, list, tuple)) or hasattr(type(value), "tree_flatten"):
        return True
    return _is_registered(value)


def _walk(tree: Any) -> Iterator[tuple[str, Any]]:
    """Yields the arrays in a container, with their paths. A node that cannot be flattened (a dict with
    unordered keys) is skipped, as is a container inside of itself. JAX flattens one level at a time, because
    jaxlib does not decrement its recursion count after an error at a deeper level (0.10, 0.12). After some
    hundred such errors nothing runs in the thread."""
    stack: list[tuple[str, Any, tuple[int, ...]]] = [("", tree, ())]
    visited = 0
    while stack and visited < _MAX_LEAVES:
        path, node, above = stack.pop()
        visited += 1
        if isinstance(node, jax.Array) or jc.is_container(node):
            yield from ((path, leaf) for _, leaf in _leaves(node))
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
    if type(value).__module__ in ("builtins", "types"):
        return False
    if callable(value) and not hasattr(value, "__dataclass_fields__"):
        return False
    return not jax.tree_util.all_leaves([value])
