"""The transformer block in PyTorch."""

from __future__ import annotations

import torch

from benchmarks.programs.transformer import HEADS, RATE


def layer_norm(x, scale, shift):
    """Normalises the last axis."""
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-5) * scale + shift


def attention(p, x):
    """Multi-head self-attention: ``(batch, length, width)`` to the same."""
    batch, length, width = x.shape

    def heads(weights):
        return (x @ weights).reshape(batch, length, HEADS, width // HEADS).permute(0, 2, 1, 3)

    query, key, value = heads(p["query"]), heads(p["key"]), heads(p["value"])
    scores = query @ key.permute(0, 1, 3, 2) / (width / HEADS) ** 0.5
    mixed = torch.softmax(scores, dim=-1) @ value
    return mixed.permute(0, 2, 1, 3).reshape(batch, length, width) @ p["out"]


def block(p, x):
    """Attention and an MLP, each with a residual connection and a norm before it."""
    x = x + attention(p, layer_norm(x, p["scale1"], p["shift1"]))
    inner = torch.tanh(layer_norm(x, p["scale2"], p["shift2"]) @ p["up"] + p["up_bias"])
    return x + inner @ p["down"] + p["down_bias"]


def step(params, x, target):
    """One step of gradient descent."""
    params = {name: value.detach().requires_grad_() for name, value in params.items()}
    ((block(params, x) - target) ** 2).mean().backward()
    with torch.no_grad():
        return {name: value - RATE * value.grad for name, value in params.items()}
