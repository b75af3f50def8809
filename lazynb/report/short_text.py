"""Short forms of types, scopes and counts for drawings and reports."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from lazynb.jax_compat.jax_names import BACKWARD_SCOPE, TRANSFORMATION_SCOPES
from lazynb.running.record_table import plural as plural
from lazynb.user_code.text_format import escape_invisible as escape_invisible

_DTYPES = (("bfloat", "bf"), ("float", "f"), ("complex", "c"), ("uint", "u"), ("int", "i"))
_TRANSFORMS = re.compile(rf"\b(?:{'|'.join(TRANSFORMATION_SCOPES)})\(")


def short_aval(aval: str) -> str:
    """``'float32[128,64]'`` → ``'f32[128,64]'``; drops the empty brackets of a scalar."""
    for long, brief in _DTYPES:
        if aval.startswith(long):
            aval = brief + aval[len(long) :]
            break
    return aval.replace("[]", "", 1)


def short_avals(avals: Iterable[str], most: int = 2) -> str:
    """Several types as one phrase that spells out at most ``most`` of them."""
    shorts = [short_aval(aval) for aval in avals]
    if len(shorts) > 1 and len(set(shorts)) == 1:
        return f"{len(shorts)} × {shorts[0]}"
    rest = len(shorts) - most
    phrase = ", ".join(shorts[:most])
    return f"{phrase} +{rest} more" if rest > 0 else phrase


def clip(text: str, width: int) -> str:
    """``text`` on one line, cut to ``width`` characters."""
    text = " ".join(text[: 4 * width].split())
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def module_path(scope: str) -> str:
    """A name stack as the user's module path.

    ``'transpose(jvp(MLP))/Dense_0'`` → ``'MLP/Dense_0 (backward)'``.
    """
    path = _TRANSFORMS.sub("", scope)
    if path != scope:
        path = path.replace(")", "")
    return f"{path} (backward)" if f"{BACKWARD_SCOPE}(" in scope else path


def counts_text(names: Iterable[str], most: int = 3) -> str:
    """Counts of names, most frequent first: ``'add ×3, exp, +2 kinds'``."""
    counts = Counter(names)
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    parts = [name if count == 1 else f"{name} ×{count:,}" for name, count in ranked[:most]]
    rest = len(ranked) - most
    if rest > 0:
        parts.append(f"+{plural(rest, 'kind')}")
    return ", ".join(parts)
