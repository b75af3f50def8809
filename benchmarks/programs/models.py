"""Inference with models of Transformers', unmodified, made from their configurations with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

BATCH, LENGTH, SIDE, WORDS = 1, 64, 64, 1000


def start(model: str) -> np.ndarray:
    """Nothing that counts: a step begins with its input."""
    return np.zeros(1, np.float32)


def each(model: str) -> list[tuple[Any, ...]]:
    """Token numbers, or an image."""
    rng = np.random.default_rng(0)
    if model == "resnet":
        return [(rng.normal(size=(BATCH, 3, SIDE, SIDE)).astype(np.float32),)]
    return [(rng.integers(0, WORDS, (BATCH, LENGTH)),)]


def new_model(model: str) -> Any:
    import torch
    import transformers as t

    torch.manual_seed(0)
    if model == "bert":
        return t.BertForSequenceClassification(
            t.BertConfig(
                vocab_size=WORDS,
                hidden_size=128,
                num_hidden_layers=4,
                num_attention_heads=4,
                intermediate_size=512,
            )
        )
    if model == "gpt2":
        config = t.GPT2Config(
            vocab_size=WORDS, n_embd=128, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=0, use_cache=False
        )
        return t.GPT2LMHeadModel(config)
    config = t.ResNetConfig(
        embedding_size=32, hidden_sizes=[32, 64, 128], depths=[2, 2, 2], layer_type="basic", num_labels=10
    )
    return t.ResNetForImageClassification(config)


def in_torch(model: str) -> Callable[..., Any]:
    """The step: logits of the input."""
    import torch

    made = new_model(model).eval().requires_grad_(False)

    def logits(state: Any, x: Any) -> Any:
        if next(made.parameters()).device != x.device:
            made.to(x.device)
        with torch.no_grad():
            return made(x).logits

    return logits
