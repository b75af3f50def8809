"""Executes PyTorch operations on device ``jax``, below autograd, one ``aten`` operation at a time.

The strategy is chosen once per operation: it is a view (shares memory), writes to an argument, or computes.
For a computation, the lowering comes from our own tables (:mod:`.op_rules`), then torchax, then PyTorch's
decompositions. If none covers the call, PyTorch runs it on the CPU, which is a trace break.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

from lazynb.errors import TraceBreakError
from lazynb.frontends.torch.dispatch import (
    complex32,
    replay_context,
    tensor_layout,
    tensor_layout as layouts,
    torch_replay,
    value_checks,
    view_steps,
)
from lazynb.frontends.torch.dispatch.complex32 import jax_dtype
from lazynb.frontends.torch.dispatch.replay_context import in_64_bit, record_or_replay
from lazynb.frontends.torch.dispatch.tensor_layout import Layout, LayoutUnknown, OpResults
from lazynb.frontends.torch.dispatch.torch_replay import argument_key, arguments_by_name, key_and_operands
from lazynb.frontends.torch.torch_tensor import DEVICE, Tensor, to_cpu, torch_to_array, torchax, wrap
from lazynb.recording.lazy_tensor import LazyTensor

aten = torch.ops.aten
Handler = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
_handlers: dict[Any, Handler] = {}
_plain_handlers: dict[int, Handler] = {}  # by operation id, without the handlers in ``befores``
# Operations whose calls may be replayed, by id (hashing an operation is a Python call): whether their numbers
# are operands, whether they check values, and whether the host may run them.
recallable: dict[int, tuple[bool, bool, bool]] = {}

# Ids of in-place operations with a functional variant, see :func:`_replay_write`.
_with_twins: set[int] = set()

# First handler tried, by operation id; it returns the results, or None to continue. Filled by
# :mod:`lazynb.frontends.torch.dispatch.host_operations`.
at_once: dict[int, Callable[[Any, Any], Any]] = {}
# Wrappers around the handler of an operation, by overload. Filled by
# :mod:`lazynb.frontends.torch.ops.tensor_factories`.
befores: dict[Any, Callable[[Any, Handler], Handler]] = {}
# Functions that replace the arguments of an operation before its results are inferred, by overload.
rewrites: dict[Any, Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]] = {}
# Handlers on whole tensors: func -> handler. Filled by :mod:`lazynb.frontends.torch.tensor_copies` and
# others.
special: dict[Any, Handler] = {}
# Lowerings as functions of arrays, by overload or packet. Filled by
# :mod:`lazynb.frontends.torch.dispatch.op_rules`.
own: dict[Any, Callable[..., Any]] = {}
# Lowerings that overwrite their first argument; they take its layout instead of its array.
fills: dict[Any, Callable[..., Any]] = {}

# Functions that copy a sparse CPU tensor to device ``jax``, by ``torch.layout``. Filled by
# :mod:`lazynb.frontends.torch.dispatch.sparse_operations`.
sparse_up: dict[torch.layout, Callable[[torch.Tensor], Tensor]] = {}
# Operations as functions of tensors, used in place of PyTorch's decompositions.
parts: dict[Any, Callable[..., Any]] = {}

# Operations whose tensors are first promoted to one dtype, by PyTorch's rule.
promotes_inputs: set[Any] = set()

# Errors of a lowering that does not cover the call. PyTorch has accepted the call before.
UNSUPPORTED_ERRORS = (
    NotImplementedError,
    TypeError,
    ValueError,
    AssertionError,
    AttributeError,
    LookupError,
    torchax.tensor.OperatorNotFound,
)


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Executes ``func``, an overload of a PyTorch operation, on tensors of device ``jax``."""
    if (first := at_once.get(id(func))) is not None:
        results = first(args, kwargs)
        if results is not None:
            return results
    short = recallable.get(id(func))
    if short is not None:
        numbers, is_checked, has_before = short
        try:
            key, row = key_and_operands(func, args, kwargs, numbers)
            known = layouts.results_of.get(key)
        except TypeError:  # an argument is not hashable
            known = None
        if known is not None:
            if known.steps:
                return torch_replay.make_views(args[0], known)
            if known.copies:
                copy = torch_replay.replay_copy(args[0], known)
                if copy is not None:
                    return copy
            if known.is_replayed and row is not None:
                has_before = has_before and known.whole
                if not is_checked:
                    results = torch_replay.replay(known, row, numbers, has_before, sys._getframe(2))
                    if results is not None:
                        return results
                elif not has_before or not torch_replay.is_host_call(func, row):
                    return _replay_checked(func, args, kwargs, known, numbers)
    elif id(func) in _with_twins:
        results = _replay_write(func, args, kwargs)
        if results is not None:
            return results
    handler = _handlers.get(func)
    if handler is None:
        handler = strategy_for(func)
        if handler is _write and functional_variant(func) is not None:
            _with_twins.add(id(func))
        if handler in (_compute, _view):
            recallable[id(func)] = func in _numbered, func in value_checks.checkers, id(func) in at_once
        before = befores.get(func)
        handler = _handlers[func] = handler if before is None else before(func, handler)
    context, count = replay_context.context_to_save(), replay_context.config_change_count()
    with in_64_bit():
        results = handler(func, args, kwargs)
        if context is not None:
            replay_context.save_context(context)
    replay_context.keep_after_x64(count)
    return results


def _replay_checked(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], known: OpResults, numbers: bool
) -> Any:
    """Replays a call with known layouts that checks values."""
    with in_64_bit():
        args, kwargs = value_checks.check_arguments(func, args, kwargs)
    row = key_and_operands(func, args, kwargs, numbers)[1]
    results = None
    if row is not None:
        results = torch_replay.replay(known, row, numbers, False, sys._getframe(2))
    if results is None:  # executed here, because the checks must not run twice
        with in_64_bit():
            results = run_lowering(func, args, kwargs, known)
    return results


def strategy_for(func: Any) -> Handler:
    """The handler for ``func`` in 64-bit mode, without the wrappers in :data:`befores`."""
    handler = _plain_handlers.get(id(func))
    if handler is None:
        handler = _plain_handlers[id(func)] = _handler(func)
    return handler


def _handler(func: Any) -> Handler:
    handler = special.get(func) or special.get(func.overloadpacket)
    if handler is not None:
        return handler
    if _is_for_any_device(func):
        return _run_any_device_kernel
    name = func._schema.name.partition("::")[2]
    if name.startswith("_foreach_"):
        return _for_each
    writes = [argument for argument in func._schema.arguments if _is_written(argument)]
    if writes:
        return _writing_handler(func, writes)
    if func.namespace != "aten":
        return _decomposed
    if any(result.alias_info is not None for result in func._schema.returns):
        # ``to``, ``reshape``: PyTorch's decomposition decides whether it is a view
        return _run_composite if func._can_decompose() else _view
    return _compute


def _is_for_any_device(func: Any) -> bool:
    """Whether ``func`` is a user operation (``torch.library.custom_op``) for tensors of any device."""
    if func.namespace in ("aten", "prims"):
        return False
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), _ANY_DEVICE))


def _run_any_device_kernel(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func._op_dk(_ANY_DEVICE, *args, **kwargs)


_ANY_DEVICE: Any = torch._C.DispatchKey.CompositeExplicitAutograd


def _is_written(argument: Any) -> bool:
    return bool(argument.alias_info and argument.alias_info.is_write)


def _writing_handler(func: Any, writes: list[Any]) -> Handler:
    first = writes[0].name
    if func.namespace != "aten":
        return _write_some
    if first == "out" or any(argument.is_out for argument in writes):
        return _write_out
    if len(writes) == 1 and first == func._schema.arguments[0].name:
        return _write
    return _write_some


def _run_composite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = func.decompose(*args, **kwargs)
    return _view(func, args, kwargs) if result is NotImplemented else result


# ---- Arguments ---------------------------------------------------------------------------------------------


def to_meta(x: Any, fresh: bool) -> Any:
    """``x`` with tensors and devices replaced by device ``meta``."""
    kind = x.__class__
    if isinstance(x, Tensor):
        return x._layout.meta(fresh)
    if isinstance(x, torch.Tensor):
        return layouts.layout_of(x).meta(fresh)
    if kind is torch.device:
        return _META if x.type in ("privateuseone", "jax") else x
    if isinstance(x, (list, tuple)):
        dummies = [to_meta(item, fresh) for item in x]
        return tuple(dummies) if kind is tuple else dummies
    if isinstance(x, dict):
        return {name: None if name == "generator" else to_meta(item, fresh) for name, item in x.items()}
    return x


_META = torch.device("meta")


def to_cpu_placeholder(x: Any, small: bool = False) -> Any:
    """``x`` with CPU tensors of ones or zeros; if ``small``, each has one element, a one."""
    if isinstance(x, torch.Tensor):
        return layouts.layout_of(x).cpu_one_element() if small else layouts.layout_of(x).plain()
    if isinstance(x, torch.device):
        return torch.device("cpu")
    if isinstance(x, (list, tuple)):
        return type(x)([to_cpu_placeholder(item, small) for item in x]) if type(x) in (list, tuple) else x
    if isinstance(x, dict):
        return {
            name: None if name == "generator" else to_cpu_placeholder(item, small) for name, item in x.items()
        }
    return x


def to_arrays(x: Any) -> Any:
    """``x`` with tensors replaced by arrays, and ``complex32`` arrays by complex64 arrays."""
    if isinstance(x, torch.Tensor):
        array = x._elem if isinstance(x, Tensor) else torch_to_array(x)
        return complex32.to_complex64(array) if x.dtype is complex32.COMPLEX32 else array
    if isinstance(x, (list, tuple)):
        return [to_arrays(item) for item in x]
    if isinstance(x, dict):
        return {name: to_arrays(item) for name, item in x.items()}
    return x


def _check_devices(func: Any, args: Any) -> None:
    """Raises unless each tensor of another device is a scalar (or an index), as in PyTorch."""
    for x in args:
        if isinstance(x, (list, tuple)):
            if func not in _INDEXING:
                _check_devices(func, x)
        elif (
            isinstance(x, torch.Tensor) and not isinstance(x, Tensor) and x.dim() and x.device.type != "meta"
        ):
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, jax:0 and "
                f"{x.device}!"
            )


_INDEXING = {
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
    aten._unsafe_index.Tensor,
    aten._unsafe_index_put.default,
}


def expected_results(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], writes: bool = False
) -> OpResults:
    """The results' layouts, see :func:`lazynb.frontends.torch.dispatch.tensor_layout.infer_results`."""
    return layouts.infer_results(func, args, kwargs, _asker, writes, func not in _numbered)


class _MemoPredicate:
    """A memoised predicate on operations, used as a container."""

    def __init__(self, ask: Callable[[Any], bool]) -> None:
        self._ask = ask
        self._known: dict[Any, bool] = {}

    def __contains__(self, func: Any) -> bool:
        found = self._known.get(func)
        if found is None:
            found = self._known[func] = self._ask(func)
        return found


_pointwise = _MemoPredicate(lambda func: torch.Tag.pointwise in func.tags)
_numbered = _MemoPredicate(torch_replay.has_numeric_operands)  # floats do not change the result layouts


def _fills(func: Any) -> bool:
    return func in fills or func.overloadpacket in fills


def _has_own_lowering(func: Any) -> bool:
    return func in own or func.overloadpacket in own


_asker = layouts.Asker(
    key_and_operands,
    to_meta,
    to_cpu_placeholder,
    lambda func: func in _pointwise,
    _fills,
    _check_devices,
    value_checks.check_options,
    torch_replay.ReplayNames(argument_key).name,
    _has_own_lowering,
)


# ---- Computations ------------------------------------------------------------------------------------------


def _compute(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if func in rewrites:
        args = rewrites[func](func, args)
    try:
        known = expected_results(func, args, kwargs)
    except LayoutUnknown:
        known = None
    if (
        complex32.has_complex32(args)
        or complex32.has_complex32(tuple(kwargs.values()))
        or (known and complex32.has_complex32(known.tree))
    ):
        return on_cpu(func, args, kwargs)
    if known is not None and known.bounds is None:
        known.bounds = value_checks.bounds_given(func, args, kwargs)
    if func in value_checks.checkers:
        if known is not None and known.range is None:
            known.range = value_checks.range_of(func, args, kwargs)
        args, kwargs = value_checks.check_arguments(func, args, kwargs)
    return run_lowering(func, args, kwargs, known)


def run_lowering(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], known: OpResults | None) -> Any:
    if known is None:
        return NO_LOWERING.decompose_or_run_on_cpu(func, args, kwargs)
    values = evaluate(func, args, kwargs, known)
    if values is NO_LOWERING:
        return cast_results(NO_LOWERING.decompose_or_run_on_cpu(func, args, kwargs), known.tree)
    return torch_replay.with_bounds(torch_replay.wrap_results(values, known.tree), known)


def allow_copy_replay(func: Any, key: Any, tree: Layout) -> None:
    """Allows replay for the calls with ``key``, which copy their first argument.

    Arguments:
      tree: layout of the copy.
    """
    found = layouts.results_of.get(key)
    if found is None:
        found = layouts.results_of[key] = OpResults(func, tree, None)
    found.copies = True
    recallable.setdefault(id(func), (False, False, True))


def allow_replay(func: Any, key: Any, tree: Any, name: object, has_before: bool = False) -> OpResults:
    """Allows replay for the calls with ``key``, for an operation with a special handler.

    Arguments:
      tree, name: see :class:`OpResults`.
      has_before: whether the host may run such a call.
    """
    found = layouts.results_of.get(key)
    if found is None or not found.is_replayed:
        found = layouts.results_of[key] = OpResults(func, tree, name)
        found.is_replayed = True
        recallable[id(func)] = False, False, has_before
    return found


def cast_results(result: Any, wanted: Any) -> Any:
    """``result`` cast to the dtypes of ``wanted``: a decomposition may promote where PyTorch does not."""
    if isinstance(result, torch.Tensor) and isinstance(wanted, Layout):
        return result if result.dtype == wanted.dtype else result.to(wanted.dtype)
    if isinstance(result, (tuple, list)) and isinstance(wanted, list):
        typed = [cast_results(*pair) for pair in zip(result, wanted, strict=True)]
        return tuple(typed) if isinstance(result, tuple) else typed
    return result


class _NoLowering:
    """Sentinel: no lowering covers the call."""

    @staticmethod
    def decompose_or_run_on_cpu(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls PyTorch's decomposition, or the operation on the CPU if there is none."""
        decomposition = parts.get(func) or _decompositions().get(func)
        if decomposition is not None:
            try:
                result = decomposition(*args, **kwargs)
                if result is not NotImplemented:
                    return result
            except UNSUPPORTED_ERRORS:
                pass
        if func not in _not_composite:
            result = func.decompose(*args, **kwargs) if func._can_decompose() else NotImplemented
            if result is not NotImplemented:
                return result
            _not_composite.add(func)
        return on_cpu(func, args, kwargs)


NO_LOWERING = _NoLowering()
_not_composite: set[Any] = set()


@functools.cache
def _decompositions() -> dict[Any, Any]:
    return torch._decomp.decomposition_table


def evaluate(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], known: OpResults) -> Any:
    """The results of ``func`` as arrays with the layouts in ``known``, or :data:`NO_LOWERING`."""
    lowering = _lowering(func)
    if lowering is None:
        return NO_LOWERING

    def lowered(args: Any, kwargs: Any) -> Any:
        try:
            return fit_results(lowering(*args, **kwargs), known.tree)
        except TraceBreakError:
            raise
        except UNSUPPORTED_ERRORS:
            return NO_LOWERING

    name, numbers = known.name, func in _numbered
    row = key_and_operands(func, args, kwargs, numbers)[1]
    if name is None or row is None:
        return lowered(promote_inputs(func, args, to_arrays(args), known.tree), to_arrays(kwargs))

    def call(*values: Any) -> Any:
        given = iter(values)
        own = torch_replay.fill_operands(args, given, numbers)
        named = dict(zip(kwargs, torch_replay.fill_operands(kwargs.values(), given, numbers)))
        return lowered(promote_inputs(func, args, own, known.tree), named)

    values = record_or_replay(name, call, tuple(to_arrays(row)), numbers)
    known.is_replayed = values is not NO_LOWERING
    return values


def promote_inputs(func: Any, args: tuple[Any, ...], values: list[Any], results: Any) -> list[Any]:
    """Casts the ``values`` of ``args`` by PyTorch's promotion.

    If the result is floating point, integer operands of elementwise operations are cast to its dtype. For the
    operations in :data:`promotes_inputs`, the first two tensors are promoted. Numbers are not cast.
    """
    if isinstance(results, Layout) and results.dtype.is_floating_point and _are_whole(func, args):
        floats = jax_dtype(results.dtype)
        pairs = zip(args, values, strict=True)
        return [value.astype(floats) if isinstance(x, torch.Tensor) else value for x, value in pairs]
    if func not in promotes_inputs:
        return values
    first, second, *_ = args
    if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        return values
    if first.dtype == second.dtype:
        return values
    wanted = jax_dtype(torch.result_type(to_meta(first, False), to_meta(second, False)))
    return [values[0].astype(wanted), values[1].astype(wanted), *values[2:]]


def _are_whole(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether ``func`` is elementwise and all of its tensors are integer or bool."""
    dtypes = [x.dtype for x in args if isinstance(x, torch.Tensor)]
    return func in _pointwise and not any(one.is_floating_point or one.is_complex for one in dtypes)


class ShapeMismatch(ValueError):
    """A lowering returned another shape than PyTorch infers."""


def fit_results(values: Any, wanted: Any) -> Any:
    """``values`` cast to the dtypes in ``wanted``; drops results that are no tensors there.

    Raises:
      ShapeMismatch: a shape differs from ``wanted``.
    """
    if isinstance(wanted, Layout):
        if isinstance(values, (list, tuple)) and len(values) == 1:
            values = values[0]
        return _fitted_array(values, wanted)
    if isinstance(wanted, list):
        if not isinstance(values, (list, tuple)) or len(values) != len(wanted):
            raise ShapeMismatch
        pairs = zip(values, wanted, strict=True)
        return [fit_results(value, layout) for value, layout in pairs if isinstance(layout, (Layout, list))]
    return wanted


def _fitted_array(array: Any, wanted: Layout) -> Any:
    dtype = jax_dtype(wanted.dtype)
    if not hasattr(array, "aval"):
        array = torchax.tensor.jnp.asarray(array, dtype)
    if wanted.dtype is complex32.COMPLEX32:
        array = complex32.from_complex(array)
    if array.dtype != dtype or array.aval.weak_type:
        if dtype.kind not in "fcV" and array.dtype.kind == "c":
            raise ShapeMismatch
        array = torchax.tensor.jax.lax.convert_element_type(array, dtype)
    if array.shape != wanted.shape:
        raise ShapeMismatch(f"{array.shape} in place of {wanted.shape}")
    return array


_lowerings: dict[Any, Callable[..., Any] | None] = {}


def _lowering(func: Any) -> Callable[..., Any] | None:
    if func in _lowerings:
        return _lowerings[func]
    found = own.get(func) or own.get(func.overloadpacket)
    if found is None:
        table = torchax.default_env()._ops
        entry = table.get(func) or table.get(func.overloadpacket)
        if (
            entry is not None
            and entry.is_jax_function
            and not entry.needs_env
            and func.overloadpacket not in avoided_in_torchax
        ):
            found = entry.func
    _lowerings[func] = found
    return found


# Packets with a wrong lowering in torchax. Filled by :mod:`lazynb.frontends.torch.dispatch.op_rules`, with
# the reasons.
avoided_in_torchax: set[Any] = set()


def _decomposed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Executes an operation outside ``aten`` by its lowering or decomposition, else on the CPU."""
    if func in own:
        return _compute(func, args, kwargs)
    return NO_LOWERING.decompose_or_run_on_cpu(func, args, kwargs)


def on_cpu(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs the operation with PyTorch on the CPU: a trace break if a value is pending."""

    def down(x: Any) -> Any:
        if isinstance(x, torch.device):
            return torch.device("cpu")
        if isinstance(x, (list, tuple)):
            return [down(item) for item in x]
        if isinstance(x, dict):
            return {name: down(item) for name, item in x.items()}
        return cpu_copy(x, func)

    with tensor_layout.conj_neg_dispatch():
        return _to_device(func(*down(args), **down(kwargs)))


def _pack(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``pack_padded_sequence``, whose lengths and batch sizes are on the CPU on every device."""
    data, sizes = func(*[cpu_copy(x, func) for x in args], **kwargs)
    return on_device(data), sizes


def on_device(x: torch.Tensor) -> Tensor:
    """Copies a CPU tensor to device ``jax``."""
    if x.layout in sparse_up:
        return sparse_up[x.layout](x)
    layout = layouts.contiguous(tuple(x.shape), x.dtype)
    if x.layout is torch.strided and not x.is_contiguous():
        layout = layouts.layout_of(torch.empty_like(x, device=_META))
    return wrap(torch_to_array(x), layout)


# ---- Views -------------------------------------------------------------------------------------------------


def _view(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    source = args[0]
    if not isinstance(source, Tensor):  # a list of tensors
        return _compute(func, args, kwargs)
    known = expected_results(func, args, kwargs)
    if known.steps is None:
        known.steps = _steps(func, source._layout, known.tree, args[1:], kwargs)
    return torch_replay.make_views(source, known) if known.steps else _compute(func, args, kwargs)


def _steps(
    func: Any, source: Layout, tree: Any, args: Any, kwargs: dict[str, Any]
) -> list[view_steps.ViewStep]:
    """The view step of each result; an empty list if the operation is not a view."""
    wanted = tree if isinstance(tree, list) else [tree]
    if not all(isinstance(layout, Layout) for layout in wanted):
        return []
    try:
        return view_steps.view_steps(func, source, wanted, args, kwargs)
    except view_steps.NotAView:
        return []


def _as_strided(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    source, size, stride, *rest = args
    offset = rest[0] if rest else kwargs.get("storage_offset")
    if offset is None:
        offset = source._layout.offset
    wanted = layouts.layout(tuple(size), tuple(stride), offset, source.dtype)
    tensor_layout.check_storage_bounds(source._storage.layout, wanted)
    steps = _steps_from_memory(source._storage, wanted)
    if steps is None:
        return _compute(func, args, kwargs)
    with torch_replay.inference_mode_of(source):
        return Tensor(source._storage, wanted, steps)


def _steps_from_memory(memory: view_steps.Storage, wanted: Layout) -> tuple[view_steps.ViewStep, ...] | None:
    """The steps from the array of a storage to a view of layout ``wanted``, or None if they are not known."""
    if tuple(memory.read().shape) != memory.layout.shape:
        return None
    return view_steps.strided_steps(memory.layout, wanted)


special[aten.as_strided.default] = _as_strided
special[aten._pack_padded_sequence.default] = _pack
special[aten._linalg_check_errors.default] = value_checks.check_linalg_info
# A conjugate or negative view shares memory, too. PyTorch marks it in C++, which our tensors cannot do, so
# ``is_conj()`` and ``is_neg()`` are false.
for _overload in (
    aten._conj.default,
    aten._neg_view.default,
    aten.view_as_real.default,
    aten.view_as_complex.default,
    aten.view.dtype,
    aten._unsafe_view.default,  # PyTorch's schema declares no alias, but its own code writes through it
):
    special[_overload] = _view


# ---- Writes ------------------------------------------------------------------------------------------------


@functools.cache
def functional_variant(func: Any) -> Any:
    """The functional variant of ``func`` (``add.Tensor`` for ``add_.Tensor`` and ``add.out``), or None."""
    name = func._schema.name.partition("::")[2]
    if name.startswith("__i"):
        name = "__" + name.removeprefix("__i")
    elif name.endswith("_") and not name.endswith("__"):
        name = name[:-1]
    packet = getattr(aten, name, None)
    if packet is None:
        return None
    wanted = [_typed(argument) for argument in func._schema.arguments if not _is_out(argument)]
    for overload in packet.overloads():
        candidate = getattr(packet, overload)
        if _takes(candidate._schema.arguments, wanted):
            return candidate
    return None


def _takes(arguments: list[Any], wanted: list[tuple[str, str]]) -> bool:
    """Whether the operation writes to no argument and can be called with only the ``wanted`` arguments."""
    if any(map(_is_written, arguments)):
        return False
    if [_typed(argument) for argument in arguments[: len(wanted)]] != wanted:
        return False
    return all(argument.has_default_value() for argument in arguments[len(wanted) :])


def _typed(argument: Any) -> tuple[str, str]:
    return argument.name, str(argument.type)


def _is_out(argument: Any) -> bool:
    return argument.is_out or argument.name == "out"


def _write_some(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs an operation that writes to other arguments on CPU copies, then stores the copies."""
    bound = arguments_by_name(func, args, kwargs)
    copies: dict[str, Any] = {}
    for name, x in bound.items():
        if isinstance(x, (list, tuple)):
            copies[name] = [cpu_copy(item, func) for item in x]
        else:
            copies[name] = cpu_copy(x, func)
    with tensor_layout.conj_neg_dispatch():
        result = func(**copies)
    written = {argument.name for argument in func._schema.arguments if _is_written(argument)}
    for name in written & set(bound):
        if isinstance(bound[name], (list, tuple)):
            for target, copy in zip(bound[name], copies[name], strict=True):
                _store_copy(target, copy)
        else:
            _store_copy(bound[name], copies[name])
    return _to_device(result)


def _store_copy(target: Any, copy: Any) -> None:
    if isinstance(target, Tensor):
        store(target, torch_to_array(copy))


def cpu_copy(x: Any, func: Any) -> Any:
    """Copies a tensor of device ``jax`` to the CPU (a trace break if it is pending); returns others as is."""
    return to_cpu(x, "unrecordable", _short(func)) if isinstance(x, Tensor) else x


def _short(func: Any) -> str:
    return str(func).removesuffix(".default")


def _to_device(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return on_device(x)
    if isinstance(x, (list, tuple)):
        return tuple([_to_device(item) for item in x])
    return x


def _required_functional(func: Any) -> Any:
    twin = functional_variant(func)
    if twin is None:
        raise NotImplementedError(f"lazynb.torch: {func} changes the shape of a tensor in place")
    return twin


def _write(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    target = args[0]
    if not isinstance(target, Tensor):
        return _write_to_cpu_tensor(func, args, kwargs)
    _check_devices(func, args)
    if func in rewrites:
        args = rewrites[func](func, args)
    if torch.Tag.inplace_view in func.tags:  # ``t_``, ``squeeze_``: same memory, another view
        set_storage(target, _view(_required_functional(func), args, kwargs))
        return target
    if _shares_elements(target._layout):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location. Please clone() the tensor before performing the operation."
        )
    plain = dict(kwargs)
    fill = fills.get(func) or fills.get(func.overloadpacket)
    if fill is not None:
        expected_results(func, args, plain, writes=True)
        new = _filled(fill, target._layout, to_arrays(args[1:]), plain)
    else:
        try:
            expected_results(func, args, kwargs, writes=True)  # raises PyTorch's error
        except LayoutUnknown:
            pass
        new = _functional_result(func, target, args, plain)
    fitted = _fitted(target, new)
    if fitted is new and fill is None:
        _allow_write_replay(func, args, kwargs)
    target._elem = fitted
    return target


def _filled(fill: Any, layout: Layout, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if layout.dtype is not complex32.COMPLEX32:
        return fill(layout, *args, **kwargs)
    numbers = layouts.layout(layout.shape, layout.stride, layout.offset, torch.complex64)
    return complex32.from_complex(fill(numbers, *args, **kwargs))


# Keys of calls of functional variants whose result can be stored as it is.
replayable_writes: set[Any] = set()
# By id of an in-place operation: the id of its functional variant, whether numbers are operands, whether
# values are checked, and whether the host may run the call.
writers: dict[int, tuple[int, bool, bool, bool]] = {}


def _allow_write_replay(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    twin = functional_variant(func)
    if twin is None or len(twin._schema.returns) != 1 or complex32.has_complex32(args):
        return
    if len(replayable_writes) > layouts.MAX_CACHED_RESULTS:
        replayable_writes.clear()
    with contextlib.suppress(TypeError):  # an argument is not hashable
        replayable_writes.add(key_and_operands(twin, args, kwargs, twin in _numbered)[0])
    flags = recallable.get(id(twin))
    if flags is not None:
        numbers, is_checked, has_before = flags
        writers[id(func)] = id(twin), numbers, is_checked, has_before or id(func) in at_once


def _replay_write(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Writes by replaying an earlier call; returns None if there was none."""
    twin = functional_variant(func)
    try:
        key, row = key_and_operands(twin, args, kwargs, twin in _numbered)
        is_known = key in replayable_writes
    except TypeError:
        return None
    if not is_known or row is None or (id(func) in at_once and torch_replay.is_host_call(func, row)):
        return None
    args[0]._elem = dispatch(twin, args, kwargs)._elem
    return args[0]


def _shares_elements(layout: Layout) -> bool:
    """Whether several elements share one memory location, as after ``expand``."""
    if 0 not in layout.stride:
        return False
    return any(n > 1 and not step for n, step in zip(layout.shape, layout.stride, strict=True))


def _functional_result(func: Any, target: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    twin = functional_variant(func)
    if twin is not None:
        result = dispatch(twin, args, kwargs)
        return _array_for(target, result[0] if isinstance(result, tuple) else result)
    entry = torchax.default_env()._ops.get(func)
    if entry is not None and entry.is_jax_function and not complex32.has_complex32(args):
        return entry.func(*to_arrays(args), **to_arrays(kwargs))
    changed, *others = [cpu_copy(x, func) for x in args]
    with tensor_layout.conj_neg_dispatch():
        func(changed, *others, **kwargs)
    return torch_to_array(changed)


def _array_for(target: Tensor, new: Tensor) -> Any:
    return complex32.convert_complex32(new._elem, new.dtype, target.dtype)


def _fitted(target: Tensor, new: Any) -> Any:
    """``new`` cast to the dtype and broadcast to the shape of ``target``."""
    dtype, shape = jax_dtype(target._layout.dtype), target._layout.shape
    if new.dtype != dtype or new.aval.weak_type:
        new = torchax.tensor.jax.lax.convert_element_type(new, dtype)
    if new.shape != shape:
        new = torchax.tensor.jnp.broadcast_to(new, shape)
    return new


def store(target: Tensor, new: Any) -> None:
    """Writes ``new`` to ``target``, in its dtype and shape."""
    target._elem = _fitted(target, new)


def _write_to_cpu_tensor(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if func is aten.copy_.default:
        with torch.no_grad():
            args[0].copy_(to_cpu(args[1], "asarray", "Tensor.copy_"))
        return args[0]
    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    is_allowed = all(isinstance(x, Tensor) or x.dim() == 0 for x in tensors[1:])
    if is_allowed or isinstance(args[0], (list, tuple)):
        down = [to_cpu(x, "asarray", str(func)) if isinstance(x, Tensor) else x for x in args]
        with tensor_layout.conj_neg_dispatch():
            func(*down, **kwargs)
        return args[0]
    raise RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {args[0].device} "
        "and jax:0!"
    )


def _write_out(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Writes the results to the ``out`` tensors of the caller."""
    targets_at = [argument.name for argument in func._schema.arguments if _is_out(argument)]
    bound = arguments_by_name(func, args, kwargs)
    targets = [bound[name] for name in targets_at]
    is_list = isinstance(targets[0], (list, tuple))  # ``unbind_copy``: one list argument, and no result
    if is_list:
        targets = list(targets[0])
    count = len(args) - sum(name not in kwargs for name in targets_at)
    plain_args = args[:count]
    plain_kwargs = {name: value for name, value in kwargs.items() if name not in targets_at}
    with contextlib.suppress(LayoutUnknown):
        expected_results(func, args, kwargs, writes=True)  # raises PyTorch's error
    twin = functional_variant(func)
    if twin is not None:
        result = dispatch(
            twin, plain_args, _with_required_arguments(twin, plain_args, plain_kwargs, targets[0])
        )
    else:
        for name, target in zip(targets_at, targets, strict=True):
            plain_kwargs[name] = torch.empty(0, dtype=target.dtype)
        result = on_cpu(func, plain_args, plain_kwargs)
    several = result if isinstance(result, (tuple, list)) else (result,)
    results = [x if isinstance(x, Tensor) else on_device(x) for x in several]
    for target, new in zip(targets, results, strict=True):
        if target._layout.shape != new._layout.shape:
            resize_in_place(target, new._layout.shape)
        store(target, _array_for(target, new))
    if is_list:
        return None
    return targets[0] if len(targets) == 1 else tuple(targets)


def _with_required_arguments(
    twin: Any, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any
) -> dict[str, Any]:
    """``kwargs`` with the arguments that ``twin`` requires and the ``out`` variant lacks."""
    kwargs = dict(kwargs)
    arguments = twin._schema.arguments
    if "device" not in kwargs and any(argument.name == "device" for argument in arguments):
        kwargs |= {"device": DEVICE, "dtype": target.dtype}
    for argument in arguments[len(args) :]:
        # PyTorch omits None even for required arguments
        if argument.name not in kwargs and not argument.has_default_value():
            kwargs[argument.name] = None
    return kwargs


def resize_in_place(target: Tensor, shape: tuple[int, ...]) -> bool:
    """Changes the shape of a tensor in place.

    Returns:
      Whether the memory was large enough to be kept. Otherwise the tensor gets new memory and its values are
      lost.
    """
    dense = layouts.contiguous(tuple(shape), target.dtype)
    wanted = layouts.layout(dense.shape, dense.stride, target._layout.offset, target.dtype)
    whole = target._storage.layout
    fits = 0 in wanted.shape or (0 not in whole.shape and wanted.end <= whole.end)
    steps = None
    if fits and whole.dtype == target.dtype:
        steps = _steps_from_memory(target._storage, wanted)
    if steps is not None:
        set_storage(target, Tensor(target._storage, wanted, steps))
        return True
    set_storage(target, wrap(None, dense))
    return False


def set_storage(target: Tensor, new: Tensor) -> None:
    """Makes ``target`` a view of the memory of ``new``, with its shape."""
    with torch.no_grad():
        _set_data(target, new)  # the shape and strides stored in C++
    target._storage, target._layout, target._steps, target._value_version = (
        new._storage,
        new._layout,
        new._steps,
        -1,
    )


_set_data = torch.Tensor.data.__set__  # type: ignore[attr-defined]


# ---- Lists of tensors --------------------------------------------------------------------------------------


def _for_each(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = func._schema.name.partition("::")[2].removeprefix("_foreach_")
    if name.rstrip("_") in _LIMITS and not isinstance(args[1], (list, tuple)):
        name = name.replace(name.rstrip("_"), _LIMITS[name.rstrip("_")])
    packet = getattr(aten, name)
    count = next(len(x) for x in args if isinstance(x, (list, tuple)))
    results = []
    for at in range(count):
        picked = [_item_for(x, at, count) for x in args]
        named = {key: _item_for(x, at, count) for key, x in kwargs.items()}
        if name in ("addcdiv", "addcdiv_", "addcmul", "addcmul_") and len(picked) > 3:
            named["value"] = picked.pop()
        results.append(packet(*picked, **named))
    return None if name.endswith("_") else results


_LIMITS = {"maximum": "clamp_min", "minimum": "clamp_max"}  # replacement if the operand is a number


def _item_for(x: Any, at: int, count: int) -> Any:
    """Item ``at`` of a list with ``count`` items; any other argument unchanged."""
    if isinstance(x, (list, tuple)) and len(x) == count:
        return x[at]
    return x


def is_pending(x: Any) -> bool:
    """Whether a tensor's value is still pending."""
    return isinstance(x, Tensor) and isinstance(x._elem, LazyTensor) and x._elem.is_pending
