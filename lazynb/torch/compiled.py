"""Code under ``torch.compile`` on device ``jax``: XLA compiles it.

Dynamo reads the bytecode of all that runs under ``torch.compile``, also of what PyTorch's operations call,
and would take lazynb and JAX apart. So their code, with what they import, is marked as code to leave alone.
What Dynamo makes a graph of for the backend ``lazynb`` is one recorded call (:mod:`lazynb.torch.graphs`).
With another backend the code is recorded as it is.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from lazynb.torch import flex
from lazynb.torch.graphs import backend, reading

_LEFT_ALONE = ("lazynb", "torchax", "jax", "jaxlib", "ml_dtypes", "opt_einsum")
_original: Any = None
_is_ready = False


def _prepare() -> None:
    """Tells Dynamo about lazynb, once."""
    global _is_ready
    reading.heed_modules()
    if _is_ready:
        return
    from torch._dynamo import register_backend, trace_rules

    for name in _LEFT_ALONE:
        trace_rules.add(name)
    register_backend(backend.compile_graph, name="lazynb")
    reading.install(backend.compile_graph)
    _is_ready = True


def _compile(*args: Any, **kwargs: Any) -> Any:
    """``torch.compile``, for which Dynamo, which takes a second to import, is told about lazynb first."""
    _prepare()
    compiled = _original(*args, **kwargs)
    return flex.recorded(compiled) if args and flex.is_attention(args[0]) else compiled


def install() -> None:
    """Has code that ``torch.compile`` is given recorded on device ``jax``."""
    global _original
    _original = torch.compile
    _compile.__doc__ = _original.__doc__
    torch.compile = _compile  # type: ignore[assignment]
    flex.install()
    if "torch._dynamo" in sys.modules:  # code may be compiled already, to run later
        _prepare()


def uninstall() -> None:
    """Undoes :func:`install`. What Dynamo was told stays."""
    torch.compile = _original
    flex.uninstall()
    if _is_ready:
        reading.heed_modules()
