"""What ``jax.grad`` makes at top level: each operation leads to the line it differentiates, and to the line that
asked for the gradient."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import pytest

import lazynb

X, W = jnp.ones((8, 4)), jnp.ones((4, 4))


def long(w):
    h = X @ w  # dot
    y = jnp.tanh(h)  # tanh
    z = jax.nn.softmax(y, -1)  # softmax
    return (z * y).sum()  # sum


def long_elsewhere(w):
    # The same operations on other lines: one backward pass is remembered for both.

    h = X @ w  # dot

    y = jnp.tanh(h)  # tanh
    z = jax.nn.softmax(y, -1)  # softmax

    return (z * y).sum()  # sum


def short(w):
    y = jnp.tanh(w)  # tanh
    return y.sum()  # sum


@jax.checkpoint
def layer(w, h):
    return jnp.sin(jnp.tanh(h @ w))  # layer


def checkpointed(w):
    h = layer(w, X)
    return (h * h).sum()  # sum


def helped(w):
    return long(w * 2.0)  # double


def backward(gradient):
    """The marks of the lines that the pending operations of ``gradient`` differentiate, and those that asked."""
    lines, asked = [], set()
    for node in lazynb.graph(gradient).nodes:
        if node.gradient is not None:
            asked.add(node.gradient.asked.text)
            if not node.gradient.again and node.gradient.line is not None:
                lines.append(node.gradient.line.text.rpartition("# ")[2])
    return list(dict.fromkeys(lines)), asked


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize(
    "loss, lines",
    [
        (long, ["sum", "softmax", "tanh", "dot"]),
        (long_elsewhere, ["sum", "softmax", "tanh", "dot"]),
        (short, ["sum", "tanh"]),
        (checkpointed, ["sum", "layer"]),
        (helped, ["sum", "softmax", "tanh", "dot", "double"]),
        (jax.jit(long), ["sum", "softmax", "tanh", "dot"]),
    ],
    ids=["long", "elsewhere", "short", "checkpointed", "helped", "jitted"],
)
def test_an_operation_leads_to_the_line_it_differentiates(clean, loss, lines, times):
    """Recorded anew, and recalled."""
    with lazynb.lazy():
        for _ in range(times):
            found = jax.grad(loss)(W)  # asked
            order, asked = backward(found)
            lazynb.sync()
    assert order == lines and asked == {"found = jax.grad(loss)(W)  # asked"}


def test_lines_are_those_of_this_call_and_not_of_the_one_that_was_remembered(clean):
    with lazynb.lazy():
        for loss in (long, long_elsewhere, long):
            nodes = lazynb.graph(jax.grad(loss)(W)).nodes
            found = {node.gradient.line.line for node in nodes if node.gradient and node.gradient.line}
            source, first = inspect.getsourcelines(loss)
            assert found == {
                first + number
                for number, line in enumerate(source)
                if line.count("# ") and "=" in line or "return" in line
            }


def test_fates_name_the_backward_pass_and_its_line(clean):
    @jax.jit
    def step(w):
        return w - 0.1 * jax.grad(long)(w)

    made = lazynb.compile(step, W)
    texts = [made.fates[node.id].text for node in made.snapshot.nodes if node.gradient is not None]
    assert texts and all("it is the backward pass of test_gradients.py:" in text for text in texts)
