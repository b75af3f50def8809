"""XLA's cost analysis and its profiler."""

from __future__ import annotations

from typing import Any

import jax


def cost_properties(text: str) -> dict[str, float] | None:
    """What XLA's cost analysis says of the HLO module ``text``, by XLA's names; None where this jaxlib or
    backend has none.

    A property that is 0 is left out; one that XLA does not know is -1 (or spoils the sum that it went into by
    -1).

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


def new_profile() -> Any:
    """A running profiler session that records kernels and no Python calls; ``stop()`` ends it and returns the
    profile as bytes.

    ``jax.profiler.trace`` would write the same to a directory, take twice as long, and on 0.10 stay stuck for
    the rest of the process when it cannot write or when another session runs.

    Raises:
      RuntimeError: from ``stop()``, when another session was running already. The other one is none the worse
        for it.
    """
    from jaxlib import _profiler

    jax.local_devices()  # a session started before there is a backend records nothing of it
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.host_tracer_level = 2
    return _profiler.ProfilerSession(options)
