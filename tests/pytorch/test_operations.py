"""PyTorch's operations one by one, with their gradients, against the CPU: a table; all of PyTorch's own
samples on request."""

from __future__ import annotations

import os
import sys
import types
import unittest

import pytest
import torch
import torch.masked
import torch.utils._pytree as tree

import lazynb
from lazynb.torch.dispatch.registry import WRONG

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
def test_value_and_gradient(name):
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
def test_conjugates_inside_of_what_pytorch_does_on_the_cpu(name):
    torch.manual_seed(0)
    x = torch.randn(3, 3, dtype=torch.complex64)
    with lazynb.lazy():
        got = PSEUDO_INVERSES[name](x.to("jax") * 1)
    torch.testing.assert_close(got.cpu(), PSEUDO_INVERSES[name](x), rtol=1e-3, atol=1e-4)


def test_each_of_torchax_errors_has_its_reason():
    assert all(reason and isinstance(packet, torch._ops.OpOverloadPacket) for packet, reason in WRONG.items())


# ---- PyTorch's own samples of each operation: a quarter of an hour, so only when everything is asked for ----

# Random; uninitialised memory; of several right answers another one; memory that is not the CPU's (as on
# CUDA).
OTHERWISE = {
    "as_strided": "looks beyond the tensor into memory that was not moved",
    "svd_lowrank": "random",
    "pca_lowrank": "random",
    "cauchy": "random",
    "exponential": "random",
    "geometric": "random",
    "log_normal": "random",
    "normal": "random",
    "uniform": "random",
    "randn": "random",
    "randn_like": "random",
    "rand_like": "random",
    "randint": "random",
    "randint_like": "random",
    "multinomial": "random",
    "bernoulli": "random",
    "nn.functional.rrelu": "random",
    "nn.functional.dropout": "random",
    "nn.functional.dropout2d": "random",
    "nn.functional.dropout3d": "random",
    "nn.functional.alpha_dropout": "random",
    "nn.functional.feature_alpha_dropout": "random",
    "nn.functional.multi_head_attention_forward": "random: the samples have dropout",
    "nn.functional.scaled_dot_product_attention": "random: the samples have dropout",
    "nn.functional.fractional_max_pool3d": "random",
    "nn.functional.fractional_max_pool2d": "random",
    "empty": "uninitialised",
    "empty_like": "uninitialised",
    "empty_permuted": "uninitialised",
    "empty_strided": "uninitialised",
    "new_empty": "uninitialised",
    "new_empty_strided": "uninitialised",
    "resize_": "uninitialised",
    "resize_as_": "uninitialised",
    "linalg.eigh": "eigenvectors have a sign of their own",
    "linalg.eig": "eigenvectors have a phase of their own",
    "tensor_split": "wants its indices on the CPU, as on CUDA",
    "chalf": "JAX has no complex32",
    "to_sparse": "no sparse tensors",
    "sparse.sampled_addmm": "no sparse tensors",
    "sparse.mm": "no sparse tensors",
}


def operations():
    if not os.environ.get("LAZYNB_FULL"):
        return []
    if "expecttest" not in sys.modules:  # of which PyTorch's list of samples needs the name alone
        sys.modules["expecttest"] = types.SimpleNamespace(
            TestCase=unittest.TestCase, assert_expected_inline=None
        )  # type: ignore
    from torch.testing._internal.common_methods_invocations import op_db

    return [one for one in op_db if one.name not in OTHERWISE and one.supports_dtype(torch.float32, "cpu")]


@pytest.mark.slow
@pytest.mark.parametrize("operation", operations(), ids=lambda one: f"{one.name}-{one.variant_test_name}")
def test_samples_of_pytorchs_own(operation):
    for sample in list(operation.sample_inputs("cpu", torch.float32))[:8]:
        call = sample.input, sample.args, sample.kwargs
        try:
            wanted = operation.op(call[0], *call[1], **call[2])
        except Exception:
            continue
        there = tree.tree_map(
            lambda one: one.detach().to("jax") if isinstance(one, torch.Tensor) else one, call
        )
        there = tree.tree_map(
            lambda one: torch.device("jax") if one == "cpu" or one == torch.device("cpu") else one, there
        )
        with lazynb.lazy():
            got = operation.op(there[0], *there[1], **there[2])
        for a, b in zip(tree.tree_leaves(got), tree.tree_leaves(wanted), strict=True):
            if isinstance(b, torch.Tensor):
                torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-4, equal_nan=True)
            else:
                assert a == b
