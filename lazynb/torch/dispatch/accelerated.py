"""The short way of operations in C (lazynb/torch/_short.c), where that was built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from lazynb import _jax as jc
from lazynb.record.fast import accelerator
from lazynb.record.fast.built import loaded
from lazynb.record.pending import Pending
from lazynb.record.trace import LazyTrace
from lazynb.torch import tensor
from lazynb.torch.dispatch import around, dispatch, keys, layout, storage

SOURCE = Path(__file__).parents[1] / "_short.c"


def _loaded() -> tuple[Any, str | None]:
    """The module and None, or None and why there is none."""
    if accelerator.again is None:
        return None, accelerator.why_not
    return loaded("lazynb.torch._short", SOURCE, _parts())


def _parts() -> dict[str, Any]:
    """What it works with, by the names that it asks for."""
    return {
        "Tensor": tensor.Tensor,
        "Storage": storage.Storage,
        "Layout": layout.Layout,
        "Results": layout.Results,
        "Changes": type(jc.changes),
        "Pending": Pending,
        "LazyTrace": LazyTrace,
        "ambient": jc.ambient,
        "changes": jc.changes,
        "recallable": dispatch.recallable,
        "results_of": layout.results_of,
        "plain": keys.PLAIN,
        "around": around.here,
        "open": around.open_here,
        "again": accelerator.again,
        "make": torch.Tensor._make_wrapper_subclass,
        "strided": torch.strided,
        "device": tensor.DEVICE,
        "same": storage.SAME,
        "writers": dispatch.writers,
        "writing": dispatch.writing,
        "copy": id(torch.ops.aten.clone.default),
        "slow": tensor.called,
    }


_short, why_not = _loaded()


def install() -> None:
    """Lets PyTorch call the short way at once."""
    if _short is not None:
        tensor.Tensor.__torch_dispatch__ = staticmethod(_short.dispatch)
