"""One step of an LSTM and of a GRU, with gradients. PyTorch has these operations, except on the CPU."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import torch

from lazynb.frontends.torch.dispatch import op_rules, tensor_layout as layouts
from lazynb.frontends.torch.dispatch.result_layouts import to_arrays
from lazynb.frontends.torch.torch_tensor import Tensor, wrap

aten = torch.ops.aten
sigmoid = jax.nn.sigmoid


def _new(value: Any, like: Tensor) -> Tensor | None:
    if value is None:
        return None
    return wrap(value, layouts.contiguous(tuple(value.shape), like.dtype))


def _handler(function: Any, like: int) -> Any:

    def handler(func: Any, args: Any, kwargs: Any) -> Any:
        others = [kwargs.get(argument.name) for argument in func._schema.arguments[len(args) :]]
        bound = [*args, *others]
        model = bound[like]
        if model is None:
            model = next(x for x in bound if isinstance(x, Tensor))
        results = function(*to_arrays(bound))
        return tuple([_new(result, model) for result in results])

    return handler


def _gates(gates: Any, bias: Any) -> Any:
    return gates if bias is None else gates + bias


def lstm(
    given: Any, hidden: Any, cell: Any, given_bias: Any = None, hidden_bias: Any = None
) -> tuple[Any, ...]:
    """The new hidden state and cell, and the four gates."""
    i, f, g, o = jnp.split(_gates(given, given_bias) + _gates(hidden, hidden_bias), 4, axis=1)
    i, f, g, o = sigmoid(i), sigmoid(f), jnp.tanh(g), sigmoid(o)
    new = f * cell + i * g
    return o * jnp.tanh(new), new, jnp.concatenate([i, f, g, o], axis=1)


def lstm_backward(
    grad_hidden: Any, grad_cell: Any, cell: Any, new: Any, gates: Any, has_bias: bool
) -> tuple[Any, ...]:
    """The gradients of the gates (before activation), of the cell, and of a bias."""
    i, f, g, o = jnp.split(gates, 4, axis=1)
    squashed = jnp.tanh(new)
    inner: Any = 0
    outer: Any = 0
    if grad_hidden is not None:
        outer = grad_hidden * squashed
        inner = grad_hidden * o * (1 - squashed * squashed)
    if grad_cell is not None:
        inner = inner + grad_cell
    inner = inner + jnp.zeros_like(cell)
    parts = [
        inner * g * i * (1 - i),
        inner * cell * f * (1 - f),
        inner * i * (1 - g * g),
        outer * o * (1 - o),
    ]
    grad_gates = jnp.concatenate(parts, axis=1)
    return grad_gates, inner * f, grad_gates.sum(axis=0) if has_bias else None


def gru(
    given: Any, hidden: Any, state: Any, given_bias: Any = None, hidden_bias: Any = None
) -> tuple[Any, ...]:
    """The new state, and the workspace for the gradient."""
    given_r, given_z, given_n = jnp.split(_gates(given, given_bias), 3, axis=1)
    hidden_r, hidden_z, hidden_n = jnp.split(_gates(hidden, hidden_bias), 3, axis=1)
    r, z = sigmoid(given_r + hidden_r), sigmoid(given_z + hidden_z)
    n = jnp.tanh(given_n + r * hidden_n)
    return n + z * (state - n), jnp.concatenate([r, z, n, state, hidden_n], axis=1)


def gru_backward(grad: Any, kept: Any, has_bias: bool) -> tuple[Any, ...]:
    """The gradients of both kinds of gates, of the state, and of the two biases."""
    r, z, n, state, hidden_n = jnp.split(kept, 5, axis=1)
    new = grad * (1 - z) * (1 - n * n)
    reset = new * hidden_n * r * (1 - r)
    update = grad * (state - n) * z * (1 - z)
    given = jnp.concatenate([reset, update, new], axis=1)
    hidden = jnp.concatenate([reset, update, new * r], axis=1)
    biases = (given.sum(axis=0), hidden.sum(axis=0)) if has_bias else (None, None)
    return given, hidden, grad * z, *biases


op_rules.special.update(
    {
        aten._thnn_fused_lstm_cell.default: _handler(lstm, 0),
        aten._thnn_fused_lstm_cell_backward_impl.default: _handler(lstm_backward, 2),
        aten._thnn_fused_gru_cell.default: _handler(gru, 0),
        aten._thnn_fused_gru_cell_backward.default: _handler(gru_backward, 0),
    }
)
