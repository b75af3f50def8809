"""What a page may ask about a pending value that it shows: how it stands, its value, and its compilation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax

from lazynb.execute.flush import execution
from lazynb.notebook.lab.messages import Standing
from lazynb.record.mode import eager
from lazynb.record.tensor import LazyTensor
from lazynb.view.graph.pending import graph_of
from lazynb.view.graph.shown import is_ours, shown
from lazynb.view.inspection.show import remember
from lazynb.xla.compilation import Compilation
from lazynb.xla.gathering import compile_tensors

GONE = "This value is gone: nothing refers to it any more."
FOREIGN = "This was drawn by another kernel: run its cell again."


def standing(
    key: Any,
    what: Any,
    namespace: Mapping[str, Any],
    keep: Callable[[Compilation], int],
) -> Standing:
    """The answer of the value of ``key``.

    Arguments:
      what: ``run`` runs what it needs and gives its text; ``compile`` compiles that and runs nothing;
        anything else says how it stands, and neither compiles nor runs.
      keep: takes a compilation, and gives the number by which the page asks for it.

    Raises what running and compiling raise.
    """
    tensor = shown(key)
    if tensor is None:
        return _said("gone", GONE if is_ours(key) else FOREIGN)
    if what == "run":
        return _run(tensor)
    if what == "compile" and tensor.is_pending:
        number = keep(remember(compile_tensors([tensor], namespace)))
        return {**_pending(tensor, namespace), "compilation": number}
    return _pending(tensor, namespace)


def _pending(tensor: LazyTensor, namespace: Mapping[str, Any]) -> Standing:
    if not tensor.is_pending:
        return _said("computed", "It has been computed since.")
    outlook = graph_of([tensor], namespace).outlook
    return _said("pending", outlook.text if outlook is not None else "")


def _run(tensor: LazyTensor) -> Standing:
    """The value, waited for. Its text is what eager JAX shows."""
    was_pending = tensor.is_pending
    began = time.perf_counter()
    execution.sync(tensor)
    with eager():
        jax.block_until_ready(tensor._value)
        seconds = time.perf_counter() - began
        text = repr(tensor)
    return {**_said("value", text), "seconds": seconds if was_pending else None}


def _said(state: str, text: str) -> Standing:
    return {"state": state, "text": text, "seconds": None, "compilation": None}
