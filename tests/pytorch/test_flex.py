"""FlexAttention: PyTorch's formula, recorded, with the gradients that PyTorch has on GPUs alone."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import lazynb


def causal(b, h, i, j):
    return i >= j


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


PROGRAMS = {
    "plain": lambda q: flex_attention(q, q, q),
    "scores": lambda q: flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: s + (i - j)),
    "blocks": lambda q: flex_attention(
        q, q, q, block_mask=create_block_mask(causal, None, None, 8, 8, device=q.device, BLOCK_SIZE=4)
    ),
    "groups": lambda q: flex_attention(q, q[:, :1], q[:, :1], enable_gqa=True, scale=0.3),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_the_cpu(name):
    q = drawn(1, 2, 8, 4)
    with lazynb.lazy():
        got = PROGRAMS[name](q.to("jax") * 1)
        assert not lazynb.breaks()
    torch.testing.assert_close(got.cpu(), PROGRAMS[name](q))


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_include_the_tensors_captured_by_the_score_function(compiled):
    attention = torch.compile(flex_attention) if compiled else flex_attention

    def given(device):
        shapes = (1, 2, 8, 4), (1, 2, 8, 4), (8, 8)
        return [drawn(*shape).to(device).requires_grad_() for shape in shapes]

    q, k, bias = given("cpu")
    scores = q @ k.transpose(-1, -2) / 2 + bias
    wanted = torch.where(torch.ones(8, 8).tril() > 0, scores, -torch.inf).softmax(-1) @ k
    wanted.square().sum().backward()
    with lazynb.lazy():
        query, key, added = given("jax")
        mask = create_block_mask(causal, None, None, 8, 8, device="jax")
        got = attention(query, key, key, score_mod=lambda s, b, h, i, j: s + added[i, j], block_mask=mask)
        got.square().sum().backward()
        assert not lazynb.breaks()
    for a, b in zip(
        (got, query.grad, key.grad, added.grad), (wanted, q.grad, k.grad, bias.grad), strict=True
    ):
        torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=1e-4, atol=1e-5)


def test_backward_on_the_cpu_is_still_refused_by_pytorch():
    q = drawn(1, 2, 8, 4).requires_grad_()
    with pytest.raises(NotImplementedError, match="does not support backward on CPU"):
        flex_attention(q, q, q)


def test_higher_derivatives_of_functions_are_recorded():
    with lazynb.lazy():
        x = torch.arange(3.0, device="jax") * 1
        got = torch.func.hessian(lambda x: (x.sin() * x).sum())(x)
        assert not lazynb.breaks()
    wanted = torch.func.hessian(lambda x: (x.sin() * x).sum())(torch.arange(3.0))
    torch.testing.assert_close(got.cpu(), wanted)
