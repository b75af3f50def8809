"""What an operation gives, compared."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as tree

TOLERANCES = {
    torch.float32: (1e-3, 1e-4),
    torch.complex64: (1e-3, 1e-4),
    torch.bfloat16: (3e-2, 2e-2),
    torch.float16: (1e-2, 1e-2),
}
"""Relative and absolute, by dtype. The CPU itself is as far from exact sums of such numbers."""


def difference(got: Any, wanted: Any, comparison: str = "values") -> str | None:
    """How ``got`` differs from ``wanted``, in a line; None if it does not.

    Arguments:
      comparison: what is compared, see :meth:`torchsuite.table.Table.comparison`.
    """
    values = comparison != "shapes"
    ours, theirs = tree.tree_leaves(got), tree.tree_leaves(wanted)
    if len(ours) != len(theirs):
        return f"{len(ours)} results in place of {len(theirs)}"
    for a, b in zip(ours, theirs, strict=True):
        found = _of_one(a, b, values)
        if found:
            return found
    return None


def _of_one(a: Any, b: Any, values: bool) -> str | None:
    if not isinstance(b, torch.Tensor):
        return None if _is_same(a, b) or not values else f"{a!r} in place of {b!r}"
    if not isinstance(a, torch.Tensor):
        return f"{type(a).__name__} in place of a tensor"
    if a.layout != b.layout:
        return f"{a.layout} in place of {b.layout}"
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype} {tuple(a.shape)} in place of {b.dtype} {tuple(b.shape)}"
    plain = a.detach().cpu()
    if not values:
        return None
    rtol, atol = TOLERANCES.get(b.dtype, (1e-5, 1e-6))
    atol += _rounding(b)
    try:
        torch.testing.assert_close(plain, b.detach(), rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        return " ".join(str(error).split())
    return None


def _rounding(x: torch.Tensor) -> float:
    """What sums of numbers such as the largest of ``x`` may differ by in the order of their terms."""
    if x.layout is not torch.strided:
        x = x._values() if x.layout is torch.sparse_coo else x.values()
    finite = x.detach().abs()[x.detach().isfinite()] if x.is_floating_point() or x.is_complex() else None
    if finite is None or not finite.numel():
        return 0.0
    return _ROUNDING.get(x.dtype, 4e-6) * float(finite.max())


_ROUNDING = {torch.bfloat16: 8e-3, torch.float16: 1e-3}


def _is_same(a: Any, b: Any) -> bool:
    return bool(a == b) or (a != a and b != b)


def chosen(x: torch.Tensor, result: Any) -> Any:
    """The ``result`` of an operation that chooses elements of ``x``, with these in place of where they lie."""
    if not isinstance(result, tuple) or len(result) != 2 or not x.dim():
        return result
    values, places = result
    for dim in range(x.dim()):
        whole = places if places.dim() == x.dim() else places.unsqueeze(dim)
        others = [n for axis, n in enumerate(whole.shape) if axis != dim]
        if others == [n for axis, n in enumerate(x.shape) if axis != dim] and _within(whole, x.shape[dim]):
            there = x.gather(dim, whole).reshape(places.shape)
            if torch.equal(there.detach().cpu(), values.detach().cpu()):
                return values, there, places.dtype
    return values, places


def _within(places: torch.Tensor, size: int) -> bool:
    return not places.numel() or bool(((places >= 0) & (places < size)).all())


def strides(got: Any, wanted: Any) -> str | None:
    """How the strides of results differ; None if they do not. Those of axes of length 1 say nothing."""
    for a, b in zip(tree.tree_leaves(got), tree.tree_leaves(wanted), strict=False):
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or not b.numel():
            continue
        if b.layout is not torch.strided:  # it has none
            continue
        if any(n > 1 and s != t for n, s, t in zip(b.shape, a.stride(), b.stride(), strict=True)):
            return f"strides {a.stride()} in place of {b.stride()} (shape {tuple(b.shape)})"
    return None
