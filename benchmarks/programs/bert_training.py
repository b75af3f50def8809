"""A training step of a BERT of Transformers', unmodified: forward, backward and AdamW, random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

WORDS = 30_522


def start(batch: int, **size: int) -> np.ndarray:
    """Nothing that counts: a step begins with its input."""
    return np.zeros(1, np.float32)


def each(batch: int, **size: int) -> list[tuple[Any, ...]]:
    """Token numbers and labels."""
    rng = np.random.default_rng(0)
    return [(rng.integers(0, WORDS, (batch, size["length"])), rng.integers(0, 2, batch))]


def in_torch(batch: int, length: int, width: int, layers: int) -> Callable[..., Any]:
    """The step: the loss. The weights and the optimizer's state are PyTorch's, and are written to."""
    import torch
    import transformers as t

    torch.manual_seed(0)
    config = t.BertConfig(
        vocab_size=WORDS,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = t.BertForSequenceClassification(config).train()
    optimizer: Any = None

    def step(state: Any, x: Any, labels: Any) -> Any:
        nonlocal optimizer
        if optimizer is None:
            model.to(x.device)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
        loss = model(x, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step
