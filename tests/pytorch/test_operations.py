"""PyTorch's operations one by one, with their gradients, against the CPU: a table."""

from __future__ import annotations

import pytest
import torch

import lazynb
from lazynb.frontends.torch.dispatch.op_rules import TORCHAX_WRONG

F = torch.nn.functional

# Each takes one matrix of 4 x 6; dimensions also counted from the end, where lowerings go wrong.
CASES = {
    "narrow": lambda x: x.narrow(-1, 1, 2) / x.narrow(-1, -1, 1),
    "select": lambda x: x.select(-1, -2) * x.select(0, -1).sum(),
    "slice_scatter": lambda x: torch.slice_scatter(x, x[:, :2] * 3, -1, 2, 4),
    "select_scatter": lambda x: torch.select_scatter(x, x[:, 0] * 3, -1, -2),
    "take": lambda x: x.take(torch.tensor([0, 5, 5], device=x.device)),
    "diagonal": lambda x: torch.linalg.diagonal(x * x),
    "pinv": lambda x: torch.linalg.pinv(x[:, :4], hermitian=True),
    "eigvalsh": lambda x: torch.linalg.eigvalsh(x[:, :4]),
    "nanmedian": lambda x: torch.where(x > 0.3, x, torch.nan).nanmedian(1).values.nan_to_num(),
    "polygamma": lambda x: torch.polygamma(1, x.abs() + 0.1),
    "softmax": lambda x: F.softmax(x, -1) * F.log_softmax(x, 0),
    "norms": lambda x: F.layer_norm(x, (6,), x[0], x[1]) + F.normalize(x, dim=-1) + F.group_norm(x, 2),
    "losses": lambda x: (
        F.cross_entropy(x, torch.tensor([0, -100, 2, 5], device=x.device))
        + F.mse_loss(x, x.flip(0))
        + F.smooth_l1_loss(x, x * 0)
    ),
    "convolution": lambda x: F.conv1d(x.view(1, 4, 6), x.view(4, 2, 3), stride=2, padding=1, groups=2),
    "pools": lambda x: (
        F.max_pool2d(x[None, None], 2).sum()
        + F.avg_pool2d(x[None, None], 2, ceil_mode=True).sum()
        + F.adaptive_avg_pool1d(x[None], 3).sum()
    ),
    "embedding": lambda x: F.embedding(torch.tensor([[0, 3], [3, 1]], device=x.device), x, padding_idx=1),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.view(1, 2, 4, 3)] * 3, is_causal=True),
    "activations": lambda x: (
        F.gelu(x)
        + F.silu(x)
        + F.elu(x)
        + F.leaky_relu(x)
        + F.softplus(x)
        + F.hardswish(x)
        + F.gelu(x, approximate="tanh")
    ),
    "sorting": lambda x: x.sort(-1, descending=True)[0] + x.topk(6, -1)[0] + x.cummax(1)[0],
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x) + torch.linalg.norm(x, dim=-1, keepdim=True),
    "scatter": lambda x: (
        torch.zeros(4, 6, device=x.device).scatter_add(1, (x > 0).long(), x)
        + x.index_add(0, torch.tensor([1], device=x.device), x[:1])
    ),
    "interpolate": lambda x: F.interpolate(x[None, None], size=(8, 9), mode="bilinear"),
    "solve": lambda x: (
        torch.linalg.solve(x[:, :4] + 5 * torch.eye(4, device=x.device), x) + torch.logdet(x @ x.T)
    ),
    "lstm": lambda x: torch.lstm_cell(
        x[:1, :3], [x[1:2, :2], x[2:3, :2]], x.new_ones(8, 3), x.new_ones(8, 2)
    )[0],
    "gru": lambda x: torch.gru_cell(x[:1, :3], x[1:2, :2], x.new_ones(6, 3), x.new_ones(6, 2), x[3], x[2]),
    "masks": lambda x: (
        x.masked_fill(x > 0, -1.0).tril(-1) + torch.triu(x, 1) + x.clamp(-0.5, 0.5) + x.roll(1, -1)
    ),
    "powers": lambda x: x**2 + x.abs() ** 0.5 + 2**x + x.abs().pow(x) + x.abs().rsqrt(),
}


@pytest.mark.parametrize("name", CASES)
def test_each_operation_has_value_and_gradient_of_the_cpu(name):
    torch.manual_seed(3)
    x = torch.randn(4, 6, requires_grad=True)
    wanted = CASES[name](x)
    (gradient,) = torch.autograd.grad(wanted.sum(), x)
    y = x.detach().to("jax").requires_grad_()
    with lazynb.lazy():
        got = CASES[name](y)
        (found,) = torch.autograd.grad(got.sum(), y)
    torch.testing.assert_close(got.detach().cpu(), wanted.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.cpu(), gradient, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "function", [torch.tanh, torch.sigmoid, F.tanhshrink, lambda x: F.linear(x, x, x[0])]
)
def test_gradients_of_complex_functions_equal_the_cpu(function):
    torch.manual_seed(3)
    x = torch.randn(4, 4, dtype=torch.complex64, requires_grad=True)
    (wanted,) = torch.autograd.grad(function(x).abs().sum(), x)
    y = x.detach().to("jax").requires_grad_()
    with lazynb.lazy():
        (got,) = torch.autograd.grad(function(y).abs().sum(), y)
    torch.testing.assert_close(got.cpu(), wanted, rtol=1e-3, atol=1e-4)


def test_integer_powers_are_pytorchs():
    x = torch.tensor([-3, -1, 0, 1, 2])
    y = x.to("jax")
    assert (
        (2**y).tolist() == (2**x).tolist()
        and ((-1) ** y).tolist() == ((-1) ** x).tolist()
        and (y**3).tolist() == (x**3).tolist()
    )


PSEUDO_INVERSES = {
    "plain": lambda x: torch.linalg.pinv(x),
    "wide": lambda x: torch.linalg.pinv(x[:2]),
    "cut off": lambda x: torch.linalg.pinv(x, rtol=0.3),
    "Hermitian": lambda x: torch.linalg.pinv(x @ x.mH, hermitian=True),
    "written to": lambda x: torch.linalg.pinv(x, out=torch.empty_like(x)),
}


@pytest.mark.parametrize("name", PSEUDO_INVERSES)
def test_complex_pseudo_inverses_equal_the_cpu(name):
    torch.manual_seed(0)
    x = torch.randn(3, 3, dtype=torch.complex64)
    with lazynb.lazy():
        got = PSEUDO_INVERSES[name](x.to("jax") * 1)
    torch.testing.assert_close(got.cpu(), PSEUDO_INVERSES[name](x), rtol=1e-3, atol=1e-4)


# What PyTorch's rules for ``meta``, or its decompositions, promote and its CPU does not.
OF_TWO_DTYPES = {
    "huber_loss": F.huber_loss,
    "huber_loss of each": lambda x, y: F.huber_loss(x, y, reduction="none"),
    "soft_margin_loss": F.soft_margin_loss,
    "select_scatter": lambda x, y: x.select_scatter(y[0], 0, 1),
}


@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float64), (torch.float64, torch.float32)])
@pytest.mark.parametrize("name", OF_TWO_DTYPES)
def test_tensors_of_two_dtypes_give_the_cpus(name, dtypes):
    x, y = (torch.tensor([[1.0, -0.5], [3.0, 0.25]], dtype=dtype) for dtype in dtypes)
    y = 1 - y
    with lazynb.lazy():
        got = OF_TWO_DTYPES[name](x.to("jax") * 1, y.to("jax") * 1)
        assert not lazynb.breaks()
    torch.testing.assert_close(got.cpu(), OF_TWO_DTYPES[name](x, y))


def test_each_of_torchax_errors_has_its_reason():
    assert all(
        reason and isinstance(packet, torch._ops.OpOverloadPacket) for packet, reason in TORCHAX_WRONG.items()
    )
