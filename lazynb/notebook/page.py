"""Which page asked for the cell that runs, and whether it may show widgets."""

from __future__ import annotations

import sys
from typing import Any


def lab() -> tuple[str, str] | None:
    """The cell that JupyterLab or Notebook runs, and which run of it this is; None elsewhere. Only these two
    say with a cell whether its notebook is trusted."""
    parent = _request()
    metadata = parent.get("metadata") or {}
    return (str(metadata.get("cellId")), str(parent["header"]["msg_id"])) if "trusted" in metadata else None


def somebody_looks() -> bool:
    """Whether a person may look at what the running cell shows: then the output holds the widget's view
    beside the static form, and the page takes what it can show.

    A program that runs a notebook (nbclient, for nbconvert, papermill and others) cannot be asked for input.
    It would store the widget's state in the notebook, where only a page with a network could show it.
    """
    if _marimo_runs():
        return True
    parent = _request()
    return bool(parent.get("metadata")) or bool((parent.get("content") or {}).get("allow_stdin"))


def _request() -> dict[str, Any]:
    """The message with which the page asked for the cell; empty where no page did."""
    if sys.modules.get("IPython") is None:
        return {}
    from IPython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)  # type: ignore[no-untyped-call]
    try:
        return dict(kernel.get_parent("shell")) if kernel is not None else {}
    except Exception:  # a kernel that is none of ipykernel's
        return {}


def _marimo_runs() -> bool:
    """Whether a cell of marimo runs, which has no IPython."""
    marimo = sys.modules.get("marimo")
    try:
        return marimo is not None and bool(marimo.running_in_notebook())
    except Exception:
        return False
