"""Numbers, distances and places as numerics write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazynb.source import Place


def number_text(value: Any) -> str:
    """A number, short: ``'2.69e+43'``, ``'inf'``, ``'True'``."""
    if isinstance(value, bool | np.bool_) or value is None:
        return "" if value is None else str(bool(value))
    value = value.item() if isinstance(value, np.generic | np.ndarray) else value
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def ulps_text(ulps: float | None) -> str:
    """A distance in ULPs, short; empty for a type that has none."""
    if ulps is None:
        return ""
    if ulps == 0 or ulps == float("inf"):
        return "0" if ulps == 0 else "∞"
    return f"{ulps:.2g}" if ulps < 10 else f"{ulps:,.0f}" if ulps < 1e7 else f"{ulps:.1e}"


def line_text(place: Place | None) -> str:
    if place is None:
        return ""
    return place.in_full


def title(name: str, within: tuple[str, ...]) -> str:
    return f"{name} in {within[-1]}" if within and within[-1] != name else name
