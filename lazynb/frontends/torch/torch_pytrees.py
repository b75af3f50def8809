"""Registers tensors of device ``jax`` and their containers as JAX pytrees, for ``lazynb.sync(output)`` and
``lazynb.graph(output)``."""

from __future__ import annotations

from typing import Any

import jax
import torch.utils._pytree as torch_tree

from lazynb.frontends.torch.dispatch.tensor_layout import contiguous
from lazynb.frontends.torch.sparse_tensor import Sparse, SparseParts
from lazynb.frontends.torch.torch_tensor import Tensor, mark_held_outside, wrap
from lazynb.recording.snapshot.variable_names import searching

_registered: set[type] = {list, tuple, dict, type(None)}


class _ArrayKey:
    """The pytree key from a PyTorch tensor to its array; its text is empty."""

    def __str__(self) -> str:
        return ""

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, _ArrayKey)

    def __hash__(self) -> int:
        return 0


def _unflattened(dtype: Any, children: Any) -> Any:
    (value,) = children
    if not isinstance(value, jax.Array):  # a placeholder of JAX
        return value
    return wrap(mark_held_outside(value), contiguous(tuple(value.shape), dtype))


def _array(tensor: Tensor) -> Any:
    """The array of a tensor; during a search for variable names, only an array that exists already."""
    if not searching.active:
        return mark_held_outside(tensor._elem)
    storage = tensor._storage
    if not tensor._steps:
        return storage.value
    return tensor._value if tensor._value_version == storage.version else None


def install() -> None:
    """Registers tensors as pytrees. This cannot be undone and is harmless."""
    if Tensor not in _registered:
        _registered.add(Tensor)
        jax.tree_util.register_pytree_with_keys(
            Tensor,
            lambda tensor: (((_ArrayKey(), _array(tensor)),), tensor.dtype),
            _unflattened,
            lambda tensor: ((_array(tensor),), tensor.dtype),
        )

    if Sparse not in _registered:
        _registered.add(Sparse)
        jax.tree_util.register_pytree_node(Sparse, _parts_of, _unflatten_sparse)


def _parts_of(tensor: Sparse) -> tuple[list[Tensor], Any]:
    parts = tensor._parts
    return parts.all(), (parts.layout, parts.is_coalesced, tuple(tensor.shape))


def _unflatten_sparse(about: Any, children: Any) -> Any:
    layout, is_coalesced, shape = about
    *places, values = children
    if not all(isinstance(part, Tensor) for part in (*places, values)):  # placeholders of JAX
        return list(children)
    return Sparse(SparseParts(layout, places, values, is_coalesced), shape)


def register_container(kind: type) -> None:
    """Registers a container (such as a Transformers output) with JAX, using PyTorch's flatten functions."""
    if kind in _registered:
        return
    _registered.add(kind)
    node = torch_tree.SUPPORTED_NODES.get(kind)
    if node is None:
        return
    try:
        jax.tree_util.register_pytree_node(
            kind, node.flatten_fn, lambda context, children: node.unflatten_fn(list(children), context)
        )
    except ValueError:
        pass  # already registered with JAX
