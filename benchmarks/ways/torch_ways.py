"""PyTorch, three ways: eagerly, TorchScript, ``torch.compile``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from benchmarks.rows import Row


def converted(tree: Any, convert: Callable[[np.ndarray], Any]) -> Any:
    """The NumPy arrays in nested dicts, lists and tuples, converted."""
    if isinstance(tree, dict):
        return {key: converted(value, convert) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(converted(value, convert) for value in tree)
    return convert(tree) if isinstance(tree, np.ndarray) else tree


def flat(tree: Any) -> Iterator[Any]:
    """The leaves, in JAX's order: a dict's by key."""
    if isinstance(tree, dict):
        for key in sorted(tree):
            yield from flat(tree[key])
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from flat(value)
    else:
        yield tree


class Eager:
    """PyTorch as it is."""

    library = "torch"

    def arrays(self, tree: Any) -> Any:
        """The NumPy arrays in ``tree`` as tensors."""
        return converted(tree, torch.from_numpy)

    def program(self, step: Callable[..., Any], row: Row, example: tuple[Any, ...]) -> Callable[..., Any]:
        """What a user makes of the step before calling it."""
        return step

    def ambient(self) -> contextlib.AbstractContextManager[Any]:
        """What a user's calls stand in."""
        return contextlib.nullcontext()

    def barrier(self, state: Any) -> None:
        """Nothing: what is computed is computed at once."""

    def wait(self, state: Any) -> None:
        """Nothing, likewise."""

    def leaves(self, state: Any) -> list[np.ndarray]:
        """The state's arrays."""
        return [np.asarray(leaf.detach().cpu().numpy()) for leaf in flat(state)]


class Script(Eager):
    """TorchScript: traced, or scripted where a Python value picks a branch."""

    def program(self, step: Callable[..., Any], row: Row, example: tuple[Any, ...]) -> Callable[..., Any]:
        return torch.jit.script(step) if row.static else torch.jit.trace(step, example)


class Compile(Eager):
    """``torch.compile`` with its default backend."""

    def program(self, step: Callable[..., Any], row: Row, example: tuple[Any, ...]) -> Callable[..., Any]:
        return torch.compile(step)
