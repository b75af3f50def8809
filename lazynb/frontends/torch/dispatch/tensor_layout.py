"""Tensor layouts, and the inference of an operation's results and errors before anything is computed.

Each operation runs once on PyTorch's ``meta`` tensors, which have no values. So results have PyTorch's dtypes
rather than JAX's, and a wrong call raises PyTorch's error. The results are cached by the call's key.

The ``meta`` rules differ from the CPU kernels in two ways. They accept mixed dtypes and booleans where the
CPU raises (``f32 @ f64``, ``f32 - True``), and their error texts differ. In these rare cases the operation
also runs on the CPU, on ones and zeros, and the result dtypes come from there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import torch
from torch.utils._pytree import tree_leaves

from lazynb.frontends.torch.dispatch.complex32 import jax_dtype

# ---- Tensors that device ``jax`` does not support ----------------------------------------------------------


class NotDense(NotImplementedError):
    """A dense tensor of device ``jax`` is needed, but the tensor is sparse, quantised or nested."""


_HINTS = {
    "sparse": "call .to_dense() first",
    "quantised": "call .dequantize() before a tensor is moved, or leave it on the CPU",
    "nested": "pad it (torch.nested.to_padded_tensor), or leave it on the CPU",
}


def raise_not_dense(kind: str) -> NoReturn:
    """Raises :class:`NotDense` for a tensor of this ``kind``."""
    raise NotDense(f"lazynb.torch: an array of JAX's is dense, and this tensor is {kind}: {_HINTS[kind]}")


def check_dense(tensor: torch.Tensor) -> None:
    """
    Raises:
      NotDense: ``tensor`` is sparse, quantised or nested.
    """
    if tensor.is_nested:
        raise_not_dense("nested")
    if tensor.is_quantized:
        raise_not_dense("quantised")
    if tensor.layout is not torch.strided:
        raise_not_dense("sparse")


def _quantised(*args: Any, **kwargs: Any) -> NoReturn:
    raise_not_dense("quantised")


def install(library: Any) -> None:
    """Registers kernels that raise :class:`NotDense` for quantised tensors that are moved or created."""
    for name in ("empty_quantized", "_empty_affine_quantized", "_empty_per_channel_affine_quantized"):
        library.impl(name, _quantised, "QuantizedPrivateUse1")


# ---- Conjugate and negative bits in CPU calls --------------------------------------------------------------
# PyTorch keeps ``x.conj()`` as ``x`` with a mark, and resolves the mark in the dispatch keys ``Conjugate``,
# ``Negative`` and ``ZeroTensor``. When an operation reaches Python, it has passed these keys, so PyTorch
# excludes them while our code runs. A CPU operation that makes a marked tensor internally (``linalg.pinv``)
# would then ignore the mark.

C: Any = torch._C
_KEYS = (C.DispatchKey.Conjugate, C.DispatchKey.Negative, C.DispatchKey.ZeroTensor)


def conj_neg_dispatch() -> Any:
    """Context manager in which CPU operations resolve the marks of their tensors."""
    excluded = C._dispatch_tls_local_exclude_set()
    for key in _KEYS:
        excluded = excluded.remove(key)
    return C._ForceDispatchKeyGuard(C._dispatch_tls_local_include_set(), excluded)


MAX_CACHED_RESULTS = 20_000  # cached calls; the cache is cleared beyond this number


class Layout:
    """The shape, strides, offset (in elements) and dtype of a tensor. Layouts are interned."""

    __slots__ = ("_dummy", "dtype", "offset", "shape", "stride")

    def __init__(
        self, shape: tuple[int, ...], stride: tuple[int, ...], offset: int, dtype: torch.dtype
    ) -> None:
        self.shape, self.stride, self.offset, self.dtype = shape, stride, offset, dtype
        self._dummy: torch.Tensor | None = None

    def meta(self, fresh: bool = False) -> torch.Tensor:
        """A ``meta`` tensor of this layout. Only a ``fresh`` one may be written to."""
        if fresh:
            return self._new_dummy()
        if self._dummy is None:
            self._dummy = self._new_dummy()
        return self._dummy

    def _new_dummy(self) -> torch.Tensor:
        end, offset = self.end, self.offset
        if 0 in self.shape:
            end, offset = 0, 0
        flat = torch.empty(end, dtype=self.dtype, device="meta")
        return flat.as_strided(self.shape, self.stride, offset)

    def plain(self) -> torch.Tensor:
        """A CPU tensor of this layout: ones if inexact, zeros if integer (valid indices)."""
        fill = torch.ones if self.dtype.is_floating_point or self.dtype.is_complex else torch.zeros
        if 0 in self.shape:
            return fill(self.shape, dtype=self.dtype)
        return fill(self.end, dtype=self.dtype).as_strided(self.shape, self.stride, self.offset)

    def cpu_one_element(self) -> torch.Tensor:
        """A CPU tensor of ones with the same rank, where each axis has length 1 (or 0)."""
        return torch.ones([min(size, 1) for size in self.shape], dtype=self.dtype)

    @property
    def end(self) -> int:
        """The memory position after the last element, in elements. The shape must not contain 0."""
        last = self.offset
        for size, stride in zip(self.shape, self.stride, strict=True):
            last += (size - 1) * stride
        return last + 1

    def zeros(self) -> Any:
        with jax.enable_x64(True):
            return jnp.zeros(self.shape, jax_dtype(self.dtype))

    @property
    def count(self) -> int:
        """The number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count


_layouts: dict[tuple[Any, ...], Layout] = {}


def layout(shape: tuple[int, ...], stride: tuple[int, ...], offset: int, dtype: torch.dtype) -> Layout:
    """The interned layout with these values."""
    key = (shape, stride, offset, dtype)
    kept = _layouts.get(key)
    if kept is None:
        if len(_layouts) > 10 * MAX_CACHED_RESULTS:
            _layouts.clear()
        kept = _layouts[key] = Layout(*key)
    return kept


def layout_of(tensor: torch.Tensor) -> Layout:
    """The layout of any PyTorch tensor.

    Raises:
      NotDense: the tensor is sparse or nested.
    """
    try:
        return layout(tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()), tensor.dtype)
    except RuntimeError:
        check_dense(tensor)
        raise


def contiguous(shape: tuple[int, ...], dtype: torch.dtype) -> Layout:
    """The row-major layout of a new tensor."""
    stride: list[int] = []
    step = 1
    for size in reversed(shape):
        stride.append(step)
        step *= max(size, 1)
    return layout(tuple(shape), tuple(reversed(stride)), 0, dtype)


class LayoutUnknown(Exception):
    """The shape of the result depends on values, or PyTorch has no rule for it."""


class OpResults:
    """The inferred results of an operation.

    Attributes:
      func: the operation; kept alive because its ``id`` is in cache keys.
      tree: the :class:`Layout` of a tensor, a list for several results, or a plain value.
      name: the replay name, see :class:`.torch_replay.ReplayNames`; None if the call is not replayed.
      steps: the view step of each result; empty if it is not a view, None if not determined yet.
      is_replayed: whether a lowering executed the call and it can be replayed by its name.
      copies: whether the only result copies the first argument into new memory.
      range: the only check of values, see :func:`.value_checks.range_of`; None if there is none or another.
      bounds: the least and largest possible number of the only result; None if unknown.
      whole: whether a result may be an integer tensor; only these can run on the host, see
        :mod:`.host_operations`.
    """

    __slots__ = ("bounds", "copies", "func", "is_replayed", "name", "range", "steps", "tree", "whole")

    def __init__(self, func: Any, tree: Any, name: object | None) -> None:
        self.func = func
        self.tree = tree
        self.name = name
        is_inexact = tree.__class__ is Layout and (tree.dtype.is_floating_point or tree.dtype.is_complex)
        self.whole = not is_inexact
        self.steps: list[Any] | None = None
        self.is_replayed = False
        self.copies = False
        self.range: tuple[int, int, int] | None = None
        self.bounds: tuple[int, int] | None = None


results_of: dict[Any, OpResults] = {}
"""Inferred results, by call key."""


class Asker(NamedTuple):
    """Callbacks for :func:`infer_results`.

    Attributes:
      key_of_call: the key of a call (first result), given whether its numbers are operands.
      dummy_of: an argument with ``meta`` tensors, given whether they are written to.
      plain_of: an argument with CPU tensors, given whether they have one element.
      is_elementwise: whether an operation is elementwise, for any shape.
      fills: whether an operation overwrites its argument regardless of the old values.
      check: raises if the tensors are on incompatible devices.
      refuse: raises for options that PyTorch rejects but its ``meta`` rule accepts.
      name: the replay name of a call, see :class:`OpResults`.
      is_ours: whether an operation has a lowering of our own.
    """

    key_of_call: Callable[[Any, Any, Any, bool], tuple[Any, Any]]
    dummy_of: Callable[[Any, bool], Any]
    plain_of: Callable[[Any, bool], Any]
    is_elementwise: Callable[[Any], bool]
    fills: Callable[[Any], bool]
    check: Callable[[Any, Any], None]
    refuse: Callable[[Any, Any, Any], None]
    name: Callable[[Any, Any, Any], object | None]
    is_ours: Callable[[Any], bool]


def infer_results(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], asker: Asker, writes: bool, values_matter: bool
) -> OpResults:
    """The results of ``func`` for ``args``.

    Arguments:
      writes: whether ``func`` writes to an argument.
      values_matter: whether the shape may depend on the value of a float.

    Raises:
      LayoutUnknown: PyTorch cannot infer the results without values.
      Exception: PyTorch's error for such a call.
    """
    try:
        key = asker.key_of_call(func, args, kwargs, not values_matter)[0]
        kept = results_of.get(key)
    except TypeError:  # an argument is not hashable
        key, kept = None, None
    if kept is not None:
        return kept
    if not writes:
        asker.check(func, args)
    outcome = _meta_results(func, args, kwargs, asker, writes)
    asker.refuse(func, args, kwargs)
    kept = OpResults(func, outcome, asker.name(func, args, kwargs) if key is not None else None)
    if key is not None:
        if len(results_of) > MAX_CACHED_RESULTS:
            results_of.clear()
        results_of[key] = kept
    return kept


def _meta_results(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], asker: Asker, writes: bool
) -> Any:
    """The layouts of the results of ``func`` on ``meta`` tensors. See :func:`infer_results`."""
    try:
        dummies = asker.dummy_of(args, writes)
        named_dummies = asker.dummy_of(kwargs, writes) if kwargs else {}
        outcome = func(*dummies, **named_dummies)
    except (NotImplementedError, AttributeError) as error:  # AttributeError: the rule does not accept None
        if isinstance(error, NotImplementedError) and asker.is_ours(func):  # no meta rule, but a CPU kernel
            return _layouts_in(_cpu_results(func, args, kwargs, asker))
        raise LayoutUnknown(str(func)) from error
    except Exception as error:
        needs_values = isinstance(error, RuntimeError) and (
            type(error) is not RuntimeError or "meta tensor" in str(error)
        )
        if needs_values:
            raise LayoutUnknown(str(func)) from error
        return _layouts_in(_cpu_results(func, args, kwargs, asker))
    leaves = tree_leaves((args, kwargs))
    dtypes = {leaf.dtype for leaf in leaves if isinstance(leaf, torch.Tensor)}
    is_plain = _is_one_float_dtype(dtypes) and not any(isinstance(leaf, bool) for leaf in leaves)
    said = None
    if asker.fills(func) or (asker.is_elementwise(func) and not is_plain):
        said = _cpu_check_small(func, args, kwargs, asker)
    elif not asker.is_elementwise(func) and (
        func.overloadpacket in _UNCHECKED_ON_META or not _is_one_float_dtype(dtypes)
    ):
        said = _check_on_cpu(func, args, kwargs, asker)
    return _layouts_in(outcome, said)


def _cpu_results(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], asker: Asker) -> Any:
    """Runs ``func`` on CPU stand-ins; returns its results or raises its error."""
    if func.overloadpacket in _REJECTS_ZEROS:
        raise LayoutUnknown(str(func))
    try:
        with conj_neg_dispatch():
            return func(*asker.plain_of(args, False), **asker.plain_of(kwargs, False))
    except NotImplementedError as error:
        if _UNSUPPORTED_DTYPE.search(str(error)):
            raise
        raise LayoutUnknown(str(func)) from error


def _cpu_check_small(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], asker: Asker) -> Any:
    """Runs ``func`` on one-element CPU stand-ins to get dtypes and errors; None if the CPU has no kernel. The
    shapes are already checked."""
    try:
        return func(*asker.plain_of(args, True), **asker.plain_of(kwargs, True))
    except NotImplementedError as error:
        if _UNSUPPORTED_DTYPE.search(str(error)):
            raise
    return None


def _check_on_cpu(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], asker: Asker) -> Any:
    """Runs ``func`` on CPU stand-ins to get dtypes and errors; None if the CPU gives no answer."""
    if func.overloadpacket in _REJECTS_ZEROS:
        return None
    try:
        with conj_neg_dispatch():
            return func(*asker.plain_of(args, False), **asker.plain_of(kwargs, False))
    except NotImplementedError as error:
        if _UNSUPPORTED_DTYPE.search(str(error)):
            raise
    except (RuntimeError, IndexError) as error:
        if func.overloadpacket in _UNCHECKED_ON_META or _LAYOUT_ERROR.search(str(error)):
            raise
    return None


_LAYOUT_ERROR = re.compile(r"type|Float|Double|Half|Long|bool|complex|shape|size", re.IGNORECASE)
# The CPU has no kernel for these dtypes because the operation is not defined for them. For small float dtypes
# a kernel may merely be missing.
_UNSUPPORTED_DTYPE = re.compile(
    r"not implemented for '(Complex|Bool|Long|Int|Short|Char|Byte)|complex|bool tensor is not supported", re.I
)
# Operations whose ``meta`` rule accepts shapes and indices that the CPU refuses.
_UNCHECKED_ON_META = {
    torch.ops.aten.index_add,
    torch.ops.aten.index_reduce,
    torch.ops.aten.index_copy,
    torch.ops.aten.index_select,
    torch.ops.aten.select_scatter,
    torch.ops.aten.slice_scatter,
    torch.ops.aten.diagonal_scatter,
    torch.ops.aten.multinomial,
}
# Operations that refuse zeros, the values of the CPU stand-ins.
_REJECTS_ZEROS = {torch.ops.aten.lu_unpack, torch.ops.aten.segment_reduce, torch.ops.aten.repeat_interleave}


def _is_one_float_dtype(dtypes: set[torch.dtype]) -> bool:
    """Whether all tensors have the same floating-point dtype."""
    return not dtypes or (len(dtypes) == 1 and next(iter(dtypes)).is_floating_point)


def _layouts_in(outcome: Any, said: Any = None) -> Any:
    """``outcome`` with tensors replaced by layouts.

    Arguments:
      said: the results on the CPU, whose dtypes take precedence: some ``meta`` rules promote where the CPU
        does not (``huber_loss`` of float32 and float64).
    """
    if isinstance(outcome, torch.Tensor):
        found = layout_of(outcome)
        if isinstance(said, torch.Tensor) and said.dtype != found.dtype:
            found = layout(found.shape, found.stride, found.offset, said.dtype)
        return found
    if isinstance(outcome, (tuple, list)):
        several = said if isinstance(said, (tuple, list)) else [None] * len(outcome)
        return [_layouts_in(item, of_cpu) for item, of_cpu in zip(outcome, several, strict=True)]
    return outcome


# ---- Storage bounds of views -------------------------------------------------------------------------------


def check_storage_bounds(memory: Layout, wanted: Layout) -> None:
    """Raises PyTorch's error if a view of layout ``wanted`` exceeds the memory."""
    if 0 in wanted.shape:
        return
    there = 0 if 0 in memory.shape else memory.end * memory.dtype.itemsize
    bytes_wanted = wanted.end * wanted.dtype.itemsize
    if bytes_wanted > there:
        raise RuntimeError(
            f"setStorage: sizes {list(wanted.shape)}, strides {list(wanted.stride)}, storage offset "
            f"{wanted.offset}, and itemsize {wanted.dtype.itemsize} requiring a storage size of "
            f"{bytes_wanted} are out of bounds for storage of size {there}"
        )
