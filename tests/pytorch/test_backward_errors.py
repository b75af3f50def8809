"""An error in a backward pass is an exception. In PyTorch's C++ it would end the process."""

from __future__ import annotations

import pytest
import torch

import lazynb
from lazynb.errors import TraceBreakError
from lazynb.frontends.torch.dispatch import dispatcher

aten = torch.ops.aten


@pytest.fixture
def weight():
    return torch.ones(2, 2, device="jax", requires_grad=True)


@pytest.fixture
def failing(monkeypatch):
    """Lets the derivative of ``sin`` raise."""

    def install(error):
        def handler(func, args, kwargs):
            raise error

        monkeypatch.setitem(dispatcher._handlers, aten.cos.default, handler)

    return install


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), MemoryError()], ids=repr)
@pytest.mark.parametrize("is_lazy", [True, False], ids=["lazy", "eager"])
def test_an_error_of_an_operation_is_raised_by_backward(weight, failing, error, is_lazy):
    failing(error)
    with lazynb.lazy() if is_lazy else lazynb.eager():
        loss = (weight.sin() * weight).sum()
        with pytest.raises(type(error)) as raised:
            loss.backward()
        assert raised.value is error and weight.grad is None
        other = (weight * 3).sum()
        other.backward()
    assert weight.grad.tolist() == [[3.0] * 2] * 2


def test_an_error_is_raised_by_autograd_grad_with_create_graph(weight, failing):
    loss = weight.sin().sum()
    failing(ValueError("mine"))
    with pytest.raises(ValueError, match="mine"):
        torch.autograd.grad(loss, weight, create_graph=True)


def test_an_error_of_a_nested_backward_pass_is_raised_at_its_call(weight, failing):
    failing(ValueError("mine"))
    caught = []

    class Within(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            with torch.enable_grad():
                inner = torch.ones(2, 2, device="jax", requires_grad=True)
                try:
                    inner.sin().sum().backward()
                except ValueError as error:
                    caught.append(error)
                try:
                    inner.cos()  # Python code that autograd calls: its own error, at once
                except ValueError as error:
                    caught.append(error)
            return grad

    Within.apply(weight).sum().backward()
    assert len(caught) == 2 and weight.grad.tolist() == [[1.0] * 2] * 2


def test_strict_mode_refuses_a_break_in_a_hook(weight):
    kept = {}

    def hook(grad):
        kept["norm"] = float(grad.norm())

    with lazynb.lazy(strict=True):
        loss = (weight * 2).sum()
        weight.register_hook(hook)
        with pytest.raises(TraceBreakError):
            loss.backward()
    assert not kept


def fail(*_):
    raise ZeroDivisionError("mine")


@pytest.mark.parametrize("place", ["tensor", "node", "pre-node", "accumulated", "module", "unpacked"])
def test_an_error_of_a_hook_is_raised_by_backward(weight, place):
    linear = torch.nn.Linear(2, 2).to("jax")
    if place == "module":
        linear.register_full_backward_hook(fail)
    unpack = fail if place == "unpacked" else lambda packed: packed
    with lazynb.lazy():
        with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, unpack):
            product = linear(weight * weight)
        if place == "tensor":
            product.register_hook(fail)
        elif place == "node":
            product.grad_fn.register_hook(fail)
        elif place == "pre-node":
            product.grad_fn.register_prehook(fail)
        elif place == "accumulated":
            weight.register_post_accumulate_grad_hook(fail)
        with pytest.raises(ZeroDivisionError, match="mine"):
            product.sum().backward()
