"""What PyTorch says of an operation's results before anything is computed: shape, strides, dtype, and the
errors.

An operation is run once on PyTorch's own ``meta`` tensors, which have no values. So results have PyTorch's
dtypes, whatever JAX's promotion says, and a wrong call raises what PyTorch raises. What was found is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch

from lazynb.torch.torchax_import import import_torchax

MOST = 20_000  # kept calls; then all are forgotten


class Layout:
    """Shape, strides and offset (in elements) and dtype of a tensor. Equal ones are the same object."""

    __slots__ = ("_dummy", "dtype", "offset", "shape", "stride")

    def __init__(
        self, shape: tuple[int, ...], stride: tuple[int, ...], offset: int, dtype: torch.dtype
    ) -> None:
        self.shape, self.stride, self.offset, self.dtype = shape, stride, offset, dtype
        self._dummy: torch.Tensor | None = None

    def dummy(self, fresh: bool = False) -> torch.Tensor:
        """A ``meta`` tensor of this layout; a ``fresh`` one may be written to."""
        if fresh or self._dummy is None:
            end = (
                self.offset
                + sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))
                + 1
            )
            flat = torch.empty(0 if 0 in self.shape else end, dtype=self.dtype, device="meta")
            made = flat.as_strided(self.shape, self.stride, 0 if 0 in self.shape else self.offset)
            if fresh:
                return made
            self._dummy = made
        return self._dummy

    def zeros(self) -> Any:
        """An array of zeros."""
        with jax.enable_x64(True):
            return jnp.zeros(self.shape, import_torchax().ops.mappings.t2j_dtype(self.dtype))

    @property
    def count(self) -> int:
        """How many elements."""
        found = 1
        for size in self.shape:
            found *= size
        return found


_layouts: dict[tuple[Any, ...], Layout] = {}


def layout(shape: tuple[int, ...], stride: tuple[int, ...], offset: int, dtype: torch.dtype) -> Layout:
    """The layout with these figures."""
    key = (shape, stride, offset, dtype)
    found = _layouts.get(key)
    if found is None:
        if len(_layouts) > 10 * MOST:
            _layouts.clear()
        found = _layouts[key] = Layout(*key)
    return found


def layout_of(tensor: torch.Tensor) -> Layout:
    """The layout of any tensor of PyTorch's."""
    return layout(tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()), tensor.dtype)


def contiguous(shape: tuple[int, ...], dtype: torch.dtype) -> Layout:
    """The layout of a new tensor: row by row."""
    stride: list[int] = []
    step = 1
    for size in reversed(shape):
        stride.append(step)
        step *= max(size, 1)
    return layout(tuple(shape), tuple(reversed(stride)), 0, dtype)


class Unknown(Exception):
    """Only the values can tell the shape of the result, or PyTorch has no rule for it."""


class Results:
    """What an operation gives.

    Attributes:
      tree: a :class:`Layout` for each tensor, in a tuple or list where there are several; else the plain
        value.
      written: for an operation that writes to its first argument, whether the call is allowed (an error is
        raised else).
    """

    __slots__ = ("tree",)

    def __init__(self, tree: Any) -> None:
        self.tree = tree


_known: dict[Any, Results] = {}


def results(
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    key_of: Callable[[Any, bool], Any],
    dummy_of: Callable[[Any, bool], Any],
    writes: bool,
    values_matter: bool,
) -> Results:
    """What ``func`` gives for ``args``.

    Arguments:
      key_of: what identifies an argument, given whether the value of a float matters.
      dummy_of: an argument with ``meta`` tensors in place of tensors, given whether they are written to.
      writes: whether ``func`` writes to an argument.
      values_matter: whether the shape may depend on the value of a float.

    Raises:
      Unknown: PyTorch cannot tell.
      Exception: what PyTorch raises for such a call.
    """
    try:
        key = (func, key_of(args, values_matter), key_of(kwargs, values_matter) if kwargs else None)
        found = _known.get(key)
    except TypeError:  # something that cannot be a key
        key, found = None, None
    if found is not None:
        return found
    try:
        given = func(*dummy_of(args, writes), **(dummy_of(kwargs, writes) if kwargs else {}))
    except (
        NotImplementedError,
        AttributeError,
    ) as error:  # AttributeError: PyTorch's own rule does not know of None
        raise Unknown(str(func)) from error
    except RuntimeError as error:
        if type(error) is not RuntimeError or "meta tensor" in str(
            error
        ):  # the shape, or more, depends on values
            raise Unknown(str(func)) from error
        raise
    found = Results(_layouts_in(given))
    if key is not None:
        if len(_known) > MOST:
            _known.clear()
        _known[key] = found
    return found


def _layouts_in(given: Any) -> Any:
    if isinstance(given, torch.Tensor):
        return layout_of(given)
    if isinstance(given, (tuple, list)):
        return [_layouts_in(one) for one in given]
    return given
