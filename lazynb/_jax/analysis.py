"""XLA's cost analysis and its profiler."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax


def cost_properties(text: str) -> dict[str, float] | None:
    """The costs of the HLO module ``text`` by XLA's analysis, by XLA's names. Returns None if this jaxlib or
    backend has no such analysis.

    A property that is 0 is left out. One that XLA does not know is -1, and makes a sum that it is part of too
    small by 1.

    Raises:
      ValueError: XLA cannot read ``text``.
    """
    try:
        from jaxlib import _hlo, _jax

        analyse, read = _jax.hlo_module_cost_analysis, _hlo.hlo_module_from_text
    except (ImportError, AttributeError):
        return None
    try:
        module = read(text)
    except Exception as error:  # RuntimeError or one of XLA's own classes, by release
        raise ValueError(str(error).partition("\n")[0]) from None
    try:
        return dict(analyse(jax.local_devices()[0].client, module))
    except Exception:  # each backend has its own error for "not implemented"
        return None


Figures = dict[str, float] | str | None
"""Costs by XLA's names; None if there is no such analysis; a sentence if XLA cannot read the module."""


def cost_figures(texts: Iterable[str]) -> list[Figures]:
    """What XLA says that each of these HLO modules costs."""
    return list(map(_figures, texts))


def _figures(text: str) -> Figures:
    try:
        return cost_properties(text)
    except ValueError as error:
        return str(error)


def new_profile() -> Any:
    """A running profiler session that records kernels and no Python calls. Its ``stop()`` ends it and returns
    the profile as bytes.

    ``jax.profiler.trace`` writes the same to a directory and takes twice as long. On 0.10 it stays stuck for
    the rest of the process if it cannot write or if another session runs.

    Raises:
      RuntimeError: from ``stop()``, if another session was running already. That one is not disturbed.
    """
    from jaxlib import _profiler

    jax.local_devices()  # a session started before there is a backend records nothing of it
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.host_tracer_level = 2
    return _profiler.ProfilerSession(options)
