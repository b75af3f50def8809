"""Gradients of gradients, against the CPU."""

from __future__ import annotations

import pytest
import torch

import lazynb

F = torch.nn.functional

# Each takes a matrix of 4 x 6.
FUNCTIONS = {
    "exp": lambda x: x.exp() + x.expm1(),
    "log": lambda x: (x.abs() + 0.1).log(),
    "sqrt": lambda x: (x.abs() + 0.1).sqrt(),
    "sin": lambda x: x.sin() * x.cos(),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "power": lambda x: x**3 + (x.abs() + 0.1) ** 1.5,
    "division": lambda x: x / (x.abs() + 1),
    "matmul": lambda x: x @ x.T @ x,
    "linear": lambda x: F.linear(x, x, x[:, 0]) ** 2,
    "softmax": lambda x: F.softmax(x, -1) ** 2,
    "log_softmax": lambda x: F.log_softmax(x, -1) ** 2,
    "cross_entropy": lambda x: F.cross_entropy(x, torch.tensor([0, 2, 1, 5], device=x.device)),
    "mse_loss": lambda x: F.mse_loss(x, x.flip(0) * 2),
    "layer_norm": lambda x: F.layer_norm(x, (6,), x[0], x[1]) ** 2,
    "group_norm": lambda x: F.group_norm(x, 2) ** 2,
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True) ** 3,
    "gelu": F.gelu,
    "silu": F.silu,
    "softplus": F.softplus,
    "elu": F.elu,
    "conv1d": lambda x: F.conv1d(x.view(1, 4, 6), x[:2, :4].reshape(1, 4, 2)) ** 2,
    "max_pool": lambda x: F.max_pool2d((x * x)[None, None], 2),
    "avg_pool": lambda x: F.avg_pool2d((x * x)[None, None], 2),
    "interpolate": lambda x: F.interpolate((x * x)[None, None], (7, 5), mode="bilinear"),
    "embedding": lambda x: F.embedding(torch.tensor([0, 3, 3], device=x.device), x) ** 2,
    "norm": lambda x: torch.linalg.norm(x, dim=-1),
    "var": lambda x: x.var(1) * x.std(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "cumsum": lambda x: x.cumsum(0) ** 2 + x.cumprod(1),
    "inverse": lambda x: torch.linalg.inv(x[:, :4] + 4 * torch.eye(4, device=x.device)),
    "determinant": lambda x: torch.linalg.det(x[:, :4]) + torch.logdet(x @ x.T),
    "gather": lambda x: (x * x).gather(1, torch.tensor([[0, 5]] * 4, device=x.device)),
    "index": lambda x: x[torch.tensor([0, 0, 2], device=x.device)] ** 3,
    "where": lambda x: torch.where(x > 0, x**2, -(x**3)),
    "sort": lambda x: x.sort(1).values * x.pow(2).topk(6, 1).values,
}


def both(function, x):
    (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    weights = torch.linspace(-1, 1, first.numel(), device=x.device).reshape(first.shape)
    if not first.requires_grad:
        return (first,)
    return first, torch.autograd.grad((first * weights).sum(), x)[0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_first_and_second_gradients_equal_the_cpu(name):
    torch.manual_seed(4)
    x = torch.randn(4, 6, requires_grad=True)
    wanted = both(FUNCTIONS[name], x)
    with lazynb.lazy():
        got = both(FUNCTIONS[name], x.detach().to("jax").requires_grad_())
        assert not lazynb.breaks()
    assert len(got) == len(wanted) == 2
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=2e-3, atol=2e-4)
