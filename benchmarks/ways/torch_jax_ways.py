"""PyTorch code on JAX, two ways: recorded by lazynb, and by torchax at once, an operation at a time."""

from __future__ import annotations

import contextlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.ways import torch_ways


class Lazy(torch_ways.Eager):
    """On device ``jax`` of ``lazynb.torch``, under ``lazynb.lazy()``."""

    def __init__(self) -> None:
        import lazynb
        import lazynb.torch

        lazynb.torch.enable()
        self._lazynb = lazynb

    def arrays(self, tree: Any) -> Any:
        return torch_ways.converted(tree, lambda array: torch.from_numpy(array).to("jax"))

    def ambient(self) -> contextlib.AbstractContextManager[Any]:
        return self._lazynb.lazy()

    def barrier(self, state: Any) -> None:
        self._lazynb.sync(state)

    def wait(self, state: Any) -> None:
        self._lazynb.sync(state)
        for leaf in torch_ways.flat(state):
            leaf.jax().block_until_ready()


class Torchax(torch_ways.Eager):
    """torchax's own device ``jax``."""

    def __init__(self) -> None:
        # lazynb's stand-ins for what PyTorch 2.13 no longer has, without the rest of lazynb.
        place = Path(__file__).resolve().parents[2] / "lazynb" / "torch" / "torchax_import.py"
        spec = importlib.util.spec_from_file_location("torchax_import", place)
        assert spec and spec.loader
        stand_ins = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(stand_ins)
        with stand_ins.removed_overloads():
            import torchax

            self._environment = torchax.default_env()

    def arrays(self, tree: Any) -> Any:
        with self._environment:
            return torch_ways.converted(tree, lambda array: torch.from_numpy(array).to("jax"))

    def ambient(self) -> contextlib.AbstractContextManager[Any]:
        return self._environment

    def wait(self, state: Any) -> None:
        for leaf in torch_ways.flat(state):
            leaf.jax().block_until_ready()

    def leaves(self, state: Any) -> list[np.ndarray]:
        return [np.asarray(leaf.jax()) for leaf in torch_ways.flat(state)]
