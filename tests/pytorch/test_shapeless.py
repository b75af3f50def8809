"""Parameters whose shape is not known yet, on device ``jax``."""

from __future__ import annotations

import pytest
import torch

import lazynb
import lazynb.torch

nn = torch.nn
X = torch.rand(3, 5)


def model():
    return nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.LazyLinear(2))


def test_parameters_are_made_on_the_device_the_module_was_moved_to():
    m, plain = model().to("jax"), model()
    parameters = list(m.parameters())
    with lazynb.lazy():
        m(X.to("jax")).sum().backward()
    plain(X)
    plain.load_state_dict({name: value.cpu() for name, value in m.state_dict().items()})
    assert all(one.device.type == "jax" and type(one) is type(m[0].weight) for one in m.parameters())
    assert [id(one) for one in m.parameters()] == [id(one) for one in parameters]
    assert all(one.requires_grad and one.grad is not None for one in m.parameters())
    torch.testing.assert_close(m.eval()(X.to("jax")).cpu(), plain.eval()(X))


def test_parameters_are_made_with_the_dtype_of_the_module():
    m = nn.LazyLinear(3).to("jax").double()
    assert m(X.double().to("jax")).dtype == m.weight.dtype == torch.float64
    assert nn.LazyLinear(3).to("jax", torch.bfloat16)(X.bfloat16().to("jax")).dtype == torch.bfloat16


@pytest.mark.parametrize(
    "around", [lambda: nn.LazyConv2d(4, 3, device="jax"), lambda: _inside(nn.LazyConv2d, 4, 3)]
)
def test_parameters_are_made_on_the_device_of_construction(around):
    m = around()
    assert m(torch.rand(1, 2, 5, 5).to("jax")).device.type == m.weight.device.type == "jax"


def _inside(kind, *args):
    with torch.device("jax"):
        return kind(*args)


def test_parameters_are_made_when_a_state_is_loaded():
    m, other = nn.LazyLinear(3).to("jax"), nn.Linear(5, 3)
    m.load_state_dict(other.state_dict())
    torch.testing.assert_close(m(X.to("jax")).cpu(), other(X))


def test_parameters_are_made_on_the_cpu_after_moving_back():
    m = nn.LazyLinear(3).to("jax").to("cpu")
    assert m(X).device.type == m.weight.device.type == "cpu"


def test_parameters_are_those_of_pytorch_after_disable():
    lazynb.torch.disable()
    try:
        assert nn.LazyLinear(3)(X).shape == (3, 3)
        assert "made" not in nn.UninitializedParameter.__new__.__qualname__
    finally:
        lazynb.torch.enable()
