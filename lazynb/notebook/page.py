"""Which page asked for the cell that runs."""

from __future__ import annotations

from IPython import get_ipython


def lab() -> tuple[str, str] | None:
    """The cell that JupyterLab or Notebook runs, and which run of it this is; None elsewhere. Only these two
    say with a cell whether its notebook is trusted."""
    kernel = getattr(get_ipython(), "kernel", None)  # type: ignore[no-untyped-call]
    parent = kernel.get_parent("shell") if kernel is not None else {}
    metadata = parent.get("metadata", {})
    return (str(metadata.get("cellId")), str(parent["header"]["msg_id"])) if "trusted" in metadata else None
